"""Slopes and crossings of costs."""

import numpy as np
import pytest

from nmt.lab.figure import new_figure
from nmt.lab.growth import Curve, crossing, draw_growth, upper_slope

SIZES = [32, 64, 128, 256, 512]


@pytest.mark.parametrize("power", [0.0, 1.0, 2.5])
def test_the_slope_of_a_power_law_is_its_power(power: float) -> None:
    assert upper_slope(SIZES, [3 * n**power for n in SIZES]) == pytest.approx(power, abs=1e-12)


def test_the_slope_is_that_of_the_upper_end() -> None:
    assert upper_slope(SIZES, [9.0, 9.0, 128.0, 256.0, 512.0]) == pytest.approx(1)


@pytest.mark.parametrize("where", [32.0, 100.0, 511.0])
def test_power_laws_cross_where_they_are_equal(where: float) -> None:
    others = [n * where for n in SIZES]
    assert crossing(SIZES, [n**2 for n in SIZES], others) == pytest.approx(where)


def test_what_costs_more_from_the_start_and_what_never_does() -> None:
    more = [2.0 * n for n in SIZES]
    assert crossing(SIZES, more, SIZES) == 32
    assert crossing(SIZES, SIZES, more) is None


def test_only_the_last_crossing_counts() -> None:
    costs, others = [2.0, 1.0, 2.0, 1.0, 4.0], [1.0, 2.0, 1.0, 2.0, 1.0]
    found = crossing(SIZES, costs, others)
    assert found is not None
    assert 256 < found < 512


def test_slopes_stand_beside_their_curves_and_not_on_each_other() -> None:
    axes = new_figure(4.0, 3.0).subplots()
    flat = [1.0, 1.0, 1.0, 1.0, 1.0]
    curves = [Curve(flat, "r"), Curve(flat, "r", "--"), Curve(flat, "b"), Curve([5.0] * 5, "g")]
    draw_growth(axes, SIZES, curves)
    assert [text.get_text().lstrip("-") for text in axes.texts] == ["0.00"] * 3
    heights = np.array([text.get_position()[1] for text in axes.texts])
    assert np.all(np.diff(heights) > 0)
