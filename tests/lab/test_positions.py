"""What the experiment on positions says is so."""

import numpy as np
import pytest
from pydantic import ValidationError

from nmt.lab.figure import house_style
from nmt.lab.first_mark import LEARNED, NONE, SINUSOIDAL
from nmt.lab.place_codes import place_codes
from nmt.lab.positions import PositionsOptions, draw, run
from nmt.models.transformer.positions import sinusoids

QUICK = {"updates": 3, "batch": 5, "trained_length": 5, "width": 8, "positions": 9}


@pytest.mark.parametrize("size", [8, 32, 38])
def test_steps_are_rotations(size: int) -> None:
    result = run(
        PositionsOptions(size=size, length=97, offsets=(1, 7, 1000), columns=(1,), **QUICK)
    )
    assert result.residuals.max() < 1e-12
    assert result.wrong_residuals.min() > 0.5


def test_likeness_hangs_on_the_distance_alone() -> None:
    result = run(PositionsOptions(**QUICK))
    assert result.similarity[0] == pytest.approx(1)
    assert result.similarity_spread < 1e-12
    assert np.all(result.similarity[1:] < 0.99)


def test_wavelengths_grow_by_a_constant_factor() -> None:
    result = run(PositionsOptions(size=20, **QUICK))
    ratios = result.wavelengths[1:] / result.wavelengths[:-1]
    assert ratios == pytest.approx(10_000 ** (2 / 20))
    assert result.wavelengths[0] == pytest.approx(2 * np.pi)
    assert result.encoding.shape == (60, 20)


def test_the_counter_is_binary() -> None:
    bits = np.asarray(run(PositionsOptions(**QUICK)).numbers()["bits_of_0_to_15"])
    assert (bits @ [1, 2, 4, 8]).tolist() == list(range(16))


def test_sinusoids_alone_are_unique_bounded_even_and_the_same_at_every_length() -> None:
    codes = place_codes(200, 32, sinusoids(9, 32))
    assert codes["i"].norm == 199
    assert codes["i / n"].nearest == pytest.approx(1 / 200)
    assert codes["i / n"].moved == pytest.approx(199 / 400)
    assert codes["bits of i"].nearest == 1
    assert codes["bits of i"].uneven > 0.5
    waves = codes["sinusoidal"]
    assert waves.nearest > 1
    assert waves.norm == pytest.approx(32**0.5 / 2**0.5)
    assert waves.uneven < 1e-9
    assert waves.moved == 0
    assert codes["learned"].moved is None


def test_two_equal_positions_have_distance_zero() -> None:
    table = sinusoids(9, 8)
    table[7] = table[2]
    assert place_codes(9, 8, table)["learned"].nearest == 0


def test_the_curves_are_the_columns_that_were_chosen() -> None:
    result = run(PositionsOptions(columns=(0, 5), **QUICK))
    with house_style():
        labels = [line.get_label() for line in draw(result).axes[1].lines]
    assert [label.split(",")[0] for label in labels] == ["0: sine", "5: cosine"]
    with pytest.raises(ValidationError, match=r"got 32, allowed: 0 to 31 \(size - 1\)"):
        PositionsOptions(columns=(32,))


def test_without_positions_the_answer_ignores_the_order() -> None:
    right = run(PositionsOptions(**QUICK)).learning.right
    for kind, table in right.items():
        off = ~np.eye(len(table), dtype=bool)
        mirrored = np.abs(table + table.T - 1)[off].max()
        assert (mirrored < 1e-5) == (kind == NONE)


def test_both_kinds_of_positions_learn_which_mark_is_first() -> None:
    options = PositionsOptions(trained_length=6, updates=200, width=16)
    learning = run(options).learning
    assert learning.shares(NONE)["both_trained"] == pytest.approx(0.5)
    assert learning.shares(LEARNED)["both_trained"] > 0.95
    assert learning.shares(SINUSOIDAL)["both_trained"] > 0.95
    assert learning.table.shape == (12, 16)
