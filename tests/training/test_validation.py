"""Which validation sentences are decoded and shown, and what a validation must not change."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training.toy import toy_config, write_reversal

from nmt.data.batching import encode_pairs
from nmt.data.corpora import read_examples
from nmt.data.sources import SplitConfig, pairs_of
from nmt.runs.trained_run import TrainedRun
from nmt.training import rng
from nmt.training.loop import train
from nmt.training.validation import Validator, evenly

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("count", "chosen"),
    [(None, list(range(10))), (99, list(range(10))), (3, [0, 3, 6]), (1, [0]), (0, [])],
)
def test_evenly_spaced_in_order(count: int | None, chosen: list[int]) -> None:
    assert evenly(range(10), count) == chosen


def test_no_item_twice_and_none_far_from_the_next() -> None:
    for n in range(1, 40):
        for count in range(1, n + 1):
            picked = evenly(range(n), count)
            assert len(set(picked)) == count
            gaps = {b - a for a, b in itertools.pairwise(picked)}
            assert max(gaps, default=1) - min(gaps, default=1) <= 1


def test_a_validation_leaves_every_generator_as_it_was(tmp_path: Path) -> None:
    """Also where decoding draws from them, and where it is interrupted."""
    write_reversal(tmp_path, n_train=40, n_test=5)
    config = toy_config(tmp_path, train={"steps": 1})
    train(config, tmp_path / "run", ["nmt"], quiet=True)
    loaded = TrainedRun.open(tmp_path / "run").load_model("last", CPU)
    examples = read_examples(SplitConfig(tsv=tmp_path / "valid.tsv"), config.data)
    corpus = encode_pairs(pairs_of(examples), loaded.tokenizers, 99)
    validator = Validator(corpus, examples, loaded.tokenizers, config.valid, config.search)
    forward = loaded.model.forward

    def drawing(*arguments: Any, **options: Any) -> Any:
        np.random.rand()
        torch.rand(())
        return forward(*arguments, **options)

    loaded.model.forward = drawing  # type: ignore[method-assign]
    for answers in ([False] * 99, [False, True], [True]):
        rng.seed_all(7)
        expected = [np.random.rand(), float(torch.rand(()))]  # the type checks draw from Python's
        rng.seed_all(7)
        result = validator.run(loaded.model, CPU, partial(next, iter(answers)))
        assert (result is None) == (True in answers)
        assert loaded.model.training
        assert [np.random.rand(), float(torch.rand(()))] == expected
