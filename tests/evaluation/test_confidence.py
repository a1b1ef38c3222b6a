"""Confidence: its logistic regression, features and file; attention that has collapsed."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from translation.small import TEXTS, translator_of

from nmt.errors import CheckpointError
from nmt.evaluation import confidence
from nmt.evaluation.attention_health import AttentionHealth, attention_health, health_of
from nmt.evaluation.confidence import Calibration, fit, probabilities, read_calibration

LOGITS = arrays(np.float64, 23, elements=st.floats(-1e300, 1e300))
SEEDS = st.integers(0, 2**32 - 1)


def sample(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and labels of a logistic model of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(197, 3))
    return x, x @ [2.0, -1.0, 0.0] + rng.logistic(size=197) > 0


@given(LOGITS)
def test_probabilities_are_bounded_and_in_order_of_logits(logits: np.ndarray) -> None:
    x, identity = np.sort(logits)[:, None], np.array([1.0, 0.0])
    p = probabilities(x, identity)
    assert (np.diff([0, *p, 1]) >= 0).all()
    assert p + probabilities(-x, identity) == pytest.approx(np.ones(len(p)))


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.floats(1e-3, 1e3), st.floats(-100, 100))
def test_the_gradient_is_zero_at_the_fit(seed: int, scale: float, origin: float) -> None:
    """Scale and origin of features do not matter."""
    x, y = sample(seed)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    weights = fit(z, y)
    p = probabilities(z, weights)
    assert z.T @ (p - y) + weights[:-1] == pytest.approx(np.zeros(3), abs=1e-6)
    assert (p - y).sum() == pytest.approx(0, abs=1e-6)
    other = x * scale + origin
    assert probabilities(other, fit(other, y)) == pytest.approx(p, abs=1e-5)


def test_constant_features_leave_the_share_of_good_ones() -> None:
    y = np.arange(101) < 31
    x = np.full((101, 2), 0.1) * [1, 3]  # whose deviation is not 0 after rounding
    assert probabilities(x, fit(x, y)) == pytest.approx(np.full(101, 31 / 101))


def test_no_held_out_sentence_is_in_its_own_fit(monkeypatch) -> None:
    x, y = sample(3)
    fits: list[set[float]] = []

    def recorded(part: np.ndarray, labels: np.ndarray) -> np.ndarray:
        assert labels.mean() == pytest.approx(y.mean(), abs=0.01)
        fits.append(set(part[:, 0]))
        return np.array([1.0, 0, 0, 0])

    monkeypatch.setattr(confidence, "fit", recorded)
    expected = probabilities(x, np.array([1.0, 0, 0, 0]))
    assert confidence.held_out_probabilities(x, y) == pytest.approx(expected)
    left_out = [set(x[:, 0]) - part for part in fits]
    assert sorted(itertools.chain(*left_out)) == sorted(x[:, 0])


def test_calibration_error_of_known_probabilities() -> None:
    y = np.arange(200) % 2 == 0
    assert confidence.calibration_error(np.where(y, 1.0, 0.0), y) == 0
    assert confidence.calibration_error(np.full(200, 0.5), y) == 0
    assert confidence.calibration_error(np.full(200, 0.9), y) == pytest.approx(0.4)
    assert confidence.calibration_error(np.where(y, 0.0, 1.0), y) == 1
    high = np.arange(200) < 100  # ten bins: five at 0.8 and five at 0.2; shares 0.5
    assert confidence.calibration_error(np.where(high, 0.8, 0.2), y) == pytest.approx(0.3)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 9))
def test_the_area_is_the_share_of_ordered_pairs(seed: int, n_values: int) -> None:
    rng = np.random.default_rng(seed)
    values, y = rng.integers(n_values, size=41) / 7, np.arange(41) < 13
    pairs = [(a > b) + (a == b) / 2 for a in values[y] for b in values[~y]]
    assert confidence.area_under_curve(values, y) == pytest.approx(np.mean(pairs))


def test_features_of_known_attention(make_translation) -> None:
    weights = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 1]], np.float32)
    [row] = confidence.features(make_translation("the cat", ["le chat"], weights))
    p = np.exp([-0.1, -0.11, -0.12])
    assert row == pytest.approx([-np.sqrt(0.11), p.mean(), 0, 1 / 2])
    assert confidence.features(make_translation("", [])).shape == (0, 4)


ERRORS: Any = {"threshold": 60, "sentences": 101, "good": 41, "ece": 0.031, "auc": 0.83}
WEIGHTS = (2.0, 3.0, -4.0, 1.0, -1.0)
CALIBRATION = Calibration(models=("ab",), settings={"beam": 5}, weights=WEIGHTS, **ERRORS)


def test_confidence_depends_on_no_other_sentence() -> None:
    translator = translator_of()
    together = [CALIBRATION.confidence(t) for t in translator.translate(TEXTS, n_best=3)]
    for text, values in zip(TEXTS, together, strict=True):
        [alone] = translator.translate([text], n_best=3)
        assert CALIBRATION.confidence(alone) == pytest.approx(values, abs=1e-4)
        assert len(values) == len(alone.hypotheses)
        assert all(0 < value < 1 for value in values)
    with pytest.raises(CheckpointError, match="without a run"):
        read_calibration(translator)


def test_a_calibration_is_read_as_written(tmp_path) -> None:
    (tmp_path / "confidence.json").write_text(CALIBRATION.model_dump_json())
    assert Calibration.read(tmp_path, ["ab"]) == CALIBRATION
    for models in (["ac"], ["ab", "ab"], []):
        with pytest.raises(CheckpointError, match=r"confidence\.json: of a different checkpoint"):
            Calibration.read(tmp_path, models)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ({"models": ["\ud800"]}, "damaged"),
        ({"weights": [float("nan")] * 5}, "weights"),
        ({"weights": [10**400] * 5}, "weights"),
        ({"weights": [1e308] * 5}, "weights"),
        ({"weights": [1.0] * 4}, "weights"),
        ({"ece": "x\n\x1b[2J"}, "ece"),
        ({"x\ny": 1}, "damaged"),
    ],
    ids=range(9),
)
def test_a_damaged_calibration_is_refused_in_one_line(changes, words: str, tmp_path) -> None:
    path, values = tmp_path / "confidence.json", CALIBRATION.model_dump()
    path.write_text(changes if isinstance(changes, str) else json.dumps({**values, **changes}))
    with pytest.raises(CheckpointError) as caught:
        Calibration.read(tmp_path, ["ab"])
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).isprintable()


ONE_PIECE, END_ALONE = np.zeros((2, 4, 7), np.float32)
ONE_PIECE[:, 2] = END_ALONE[:, -1] = 1


@pytest.mark.parametrize(
    ("weights", "expected", "collapse"),
    [
        (np.eye(5, 6), (0, 1, 0, 1), None),
        (np.full((50, 51), 1 / 51), (1, 50 / 51, 1 / 51, 2 / 3), "almost uniform"),
        (END_ALONE, (0, 0, 1, 0), "100% of it is on the end of the source"),
        (ONE_PIECE, (0, 1 / 6, 0, 3 / 4), "it covers 17% of the source"),
    ],
)
def test_values_and_collapses_of_known_matrices(weights, expected, collapse):
    health = health_of(weights.astype(np.float32))
    values = health.entropy, health.coverage, health.end_mass, health.diagonality
    assert values == pytest.approx(expected, abs=1e-3)
    text = health.describe_collapse()
    assert text is None if collapse is None else text is not None and collapse in text


def test_the_row_of_eos_does_not_count(make_translation) -> None:
    diagonal = make_translation("the cat", ["le chat"], np.eye(3, dtype=np.float32))
    assert attention_health([diagonal]) == AttentionHealth(0.0, 1.0, 0.0, 1.0)
    assert attention_health([make_translation("", [])]) is None
    end = make_translation("the cat", ["le chat"], np.eye(3, dtype=np.float32)[[2, 2, 2]])
    mean = attention_health([diagonal, end])
    assert (mean.coverage, mean.end_mass) == (0.5, 0.5)
    assert mean.metrics()["attention_end_mass"] == 0.5
