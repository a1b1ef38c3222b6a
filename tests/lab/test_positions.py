"""What the experiment on positions says is so."""

import numpy as np
import pytest

from nmt.lab.positions import PositionsOptions, run


@pytest.mark.parametrize("size", [8, 32, 38])
def test_steps_are_rotations(size: int) -> None:
    result = run(PositionsOptions(size=size, length=97, offsets=(1, 7, 1000)))
    assert result.residuals.max() < 1e-12
    assert result.wrong_residuals.min() > 0.5


def test_likeness_hangs_on_the_distance_alone() -> None:
    result = run(PositionsOptions())
    assert result.similarity[0] == pytest.approx(1)
    assert result.similarity_spread < 1e-12
    assert np.all(result.similarity[1:] < 0.99)


def test_wavelengths_grow_by_a_constant_factor() -> None:
    result = run(PositionsOptions(size=20))
    ratios = result.wavelengths[1:] / result.wavelengths[:-1]
    assert ratios == pytest.approx(10_000 ** (2 / 20))
    assert result.wavelengths[0] == pytest.approx(2 * np.pi)
    assert result.encoding.shape == (64, 20)


def test_the_counter_is_binary() -> None:
    bits = np.asarray(run(PositionsOptions()).numbers()["bits_of_0_to_15"])
    assert (bits @ [1, 2, 4, 8]).tolist() == list(range(16))
