"""Paths through four layers."""

import pytest

from nmt.lab.architectures import ArchitecturesOptions, run


@pytest.mark.parametrize(("n", "kernel"), [(3, 3), (7, 5), (16, 3)])
def test_attention_needs_one_hop_and_the_others_more(n: int, kernel: int) -> None:
    architectures = run(ArchitecturesOptions(positions=n, kernel=kernel)).architectures
    convolution, dilated, recurrence, attention = architectures.values()
    assert convolution.paths.longest == -(-(n - 1) // (kernel // 2))
    assert kernel ** (dilated.paths.longest - 1) < n <= kernel**dilated.paths.longest
    assert (recurrence.paths.longest, attention.paths.longest) == (n, 1)
    assert [architecture.steps for architecture in architectures.values()] == [1, 1, n, 1]
    assert (recurrence.n_direct, attention.n_direct) == (2 * n - 1, n * n)
