"""The experiment on hard and soft attention: learned well, and what it says is so."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.lab.hard_soft import ARGMAX, SAMPLED, SOFT, TRAINED, HardSoftOptions, HardSoftResult, run
from nmt.lab.perform import perform

TINY = ("updates=2", "sentences=3", "draws=2", "hidden=6", "embedding=5", "batch=3")


@pytest.mark.slow
def test_each_is_learned_and_only_the_soft_one_needs_its_average() -> None:
    models = run(HardSoftOptions()).models
    right = {
        (name, way): float(np.mean(model.row(way, "words_right")))
        for name, model in models.items()
        for way in model.decoded
    }
    assert right["soft", SOFT] > 98
    assert right["soft", ARGMAX] < right["soft", SOFT] - 2
    assert right["soft", SAMPLED] < right["soft", ARGMAX] - 5
    assert right["hard", ARGMAX] < right["hard_future", ARGMAX] - 20  # the variance of its reward
    for name in ("hard_future", "hard_gumbel"):
        assert right[name, ARGMAX] > 95
        assert right[name, ARGMAX] > right[name, SOFT] - 3
        assert right[name, SAMPLED] > right["soft", SAMPLED] + 5
        assert models[name].looks.entropy < models["soft"].looks.entropy


@pytest.fixture(scope="module")
def result() -> HardSoftResult:
    options = dict(option.split("=") for option in TINY)
    return run(HardSoftOptions.model_validate(options, strict=False))


def test_every_model_is_decoded_in_every_way(result: HardSoftResult) -> None:
    assert list(result.models) == list(TRAINED)
    for model in result.models.values():
        counts = {way: len(draws) for way, draws in model.decoded.items()}
        assert counts == {SOFT: 1, SAMPLED: 2, ARGMAX: 1}
        for way in (SAMPLED, ARGMAX):
            for each in model.decoded[way]:
                assert set(np.unique(each.first_weights)) <= {0.0, 1.0}
        soft = model.decoded[SOFT][0].first_weights
        np.testing.assert_allclose(soft.sum(axis=1), 1, atol=1e-5)
        assert soft.max() < 1


def test_draws_differ_and_have_a_spread(result: HardSoftResult) -> None:
    one, other = (each.first_weights for each in result.models["soft"].decoded[SAMPLED])
    assert one.shape != other.shape or not np.array_equal(one, other)
    numbers: Any = result.numbers()
    assert "words_right_spread" in numbers["trained_soft"]["decoded_sampled"]
    assert "words_right_spread" not in numbers["trained_soft"]["decoded_argmax"]


def test_the_summary_has_a_row_a_model(tmp_path: Path) -> None:
    text = "\n".join(perform("hard-soft", TINY, tmp_path).summary)
    for name in TRAINED:
        assert text.count(f"trained {name} ") == 3
    assert text.count(" ± ") == 2 * len(TRAINED)
