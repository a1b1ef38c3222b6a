"""Measurements of attention on matrices whose values are known, and when they are a collapse."""

import numpy as np
import pytest

from nmt.evaluation.attention_health import AttentionHealth, attention_health, health_of


def f32(rows: object) -> np.ndarray:
    return np.array(rows, np.float32)


def test_a_diagonal_is_sharp_and_covers_all() -> None:
    health = health_of(np.eye(5, 6, dtype=np.float32))
    assert vars(health) == pytest.approx(
        {"entropy": 0, "coverage": 1, "end_mass": 0, "diagonality": 1}
    )
    assert health.collapse() is None


def test_even_weights_have_all_the_entropy() -> None:
    health = health_of(np.full((50, 51), 1 / 51, np.float32))
    assert health.entropy == pytest.approx(1)
    assert health.end_mass == pytest.approx(1 / 51)
    assert health.diagonality == pytest.approx(2 / 3, abs=0.01)
    assert "all but even" in str(health.collapse())


def test_the_end_alone_and_one_piece_alone_are_collapses() -> None:
    end, one = np.zeros((4, 7), np.float32), np.zeros((4, 7), np.float32)
    end[:, -1] = one[:, 2] = 1
    assert health_of(end).collapse() == "100% of it is on the end of the source"
    assert health_of(one).collapse() == "it covers 17% of the source"
    assert health_of(end).diagonality == 0


def test_the_row_of_eos_does_not_count(make_translation) -> None:
    weights = f32([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    translation = make_translation("the cat", ["le chat"], weights)
    assert attention_health([translation]) == AttentionHealth(0.0, 1.0, 0.0, 1.0)
    assert attention_health([make_translation("", [])]) is None
    other = make_translation("the cat", ["le chat"], f32([[0, 0, 1], [0, 0, 1], [0, 0, 1]]))
    mean = attention_health([translation, other])
    assert mean is not None
    assert (mean.coverage, mean.end_mass) == (0.5, 0.5)
    assert mean.measured()["attention_end_mass"] == 0.5
