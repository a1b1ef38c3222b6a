"""top_k against a stable sort, ties and infinities included."""

import pytest
import torch

from nmt.ops.fused.top_k import top_k


@pytest.mark.parametrize("size", [1, 5, 63, 64, 65, 397, 640])
@pytest.mark.parametrize("seed", range(5))
def test_equals_a_stable_sort(size: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Halves between -1.5 and 1.5: nearly everything is a tie, among negatives and zeros too.
    values = torch.randint(-3, 4, (11, size), generator=generator) / 2
    values[values == 1.5] = -torch.inf
    for k in {1, min(7, size), size}:
        expected = values.sort(dim=1, descending=True, stable=True)
        found, positions = top_k(values, k)
        assert torch.equal(positions, expected.indices[:, :k])
        assert torch.equal(found, expected.values[:, :k])


def test_of_distinct_numbers_too() -> None:
    values = torch.randn(11, 640, generator=torch.Generator().manual_seed(0))
    expected = values.sort(dim=1, descending=True)
    found, positions = top_k(values, 7)
    assert torch.equal(positions, expected.indices[:, :7])
    assert torch.equal(found, expected.values[:, :7])


def test_negative_zero_equals_zero() -> None:
    values = torch.tensor([[-0.0, 0.0, -0.0, -1.0]])
    assert top_k(values, 3)[1].tolist() == [[0, 1, 2]]


def test_neighbouring_numbers_are_told_apart() -> None:
    one = torch.tensor([1.0])
    above = torch.nextafter(one, torch.tensor([2.0]))
    assert top_k(torch.stack([one, above], dim=1), 1)[1].item() == 1
    assert top_k(torch.stack([-one, -above], dim=1), 1)[1].item() == 0
