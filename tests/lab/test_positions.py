"""Sinusoids: steps are rotations, and likeness depends on the distance alone."""

import numpy as np
import pytest

from nmt.lab.positions import PositionsOptions, compare_encodings, run


@pytest.mark.parametrize("size", [8, 38])
def test_steps_are_rotations_and_similarity_is_of_distance(size: int) -> None:
    options = {"size": size, "length": 97, "columns": (1,)}
    result = run(PositionsOptions(**options, positions=9))
    assert result.residuals.max() < 1e-12
    assert result.wrong_residuals.min() > 0.5
    assert result.encoding.shape == (97, size)
    ratios = result.wavelengths[1:] / result.wavelengths[:-1]
    assert ratios == pytest.approx(10_000 ** (2 / size))
    assert result.wavelengths[0] == pytest.approx(2 * np.pi)
    assert result.similarity[0] == pytest.approx(1)
    assert result.similarity_spread < 1e-12
    assert np.all(result.similarity[1:] < 0.99)
    bits = np.asarray(result.content()["bits_of_0_to_15"])
    assert (bits @ [1, 2, 4, 8]).tolist() == list(range(16))


def test_sinusoids_alone_are_unique_bounded_and_even() -> None:
    codes = compare_encodings(200, 32)
    assert codes["i"].norm == 199
    assert codes["i / n"].nearest == pytest.approx(1 / 200)
    assert codes["i / n"].moved == pytest.approx(199 / 400)
    assert codes["bits of i"].nearest == 1
    assert codes["bits of i"].uneven > 0.5
    waves = codes["sinusoidal"]
    assert waves.nearest > 1
    assert waves.norm == pytest.approx(4)
    assert waves.uneven < 1e-9
    assert waves.moved == 0
