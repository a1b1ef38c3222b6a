"""The sentences that a validation decodes and displays; it changes nothing else."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from training.toy import spy, toy_config, write_reversal

from nmt.batches.batching import encode_pairs
from nmt.corpora.corpora import read_examples
from nmt.corpora.sources import SplitConfig, pairs_of
from nmt.evaluation.metrics import validation_scoring
from nmt.models.base import Seq2Seq
from nmt.runs.trained_run import TrainedRun
from nmt.training import rng
from nmt.training.loop import train
from nmt.training.progress import Progress
from nmt.training.validation import Validator

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Seq2Seq, Validator]:
    """A model after one update, and the validator of its run."""
    folder = tmp_path_factory.mktemp("trained")
    write_reversal(folder, n_train=40, n_test=5)
    sections = {"model": {"dropout": 0.5}, "valid": {"metric": "ter"}}
    config = toy_config(folder, train={"steps": 1}, **sections)
    train(config, folder / "run", quiet=True)
    loaded = TrainedRun.open(folder / "run").load_model("last", CPU)
    examples = read_examples(SplitConfig(file=folder / "valid.tsv"), config.data)
    corpus = encode_pairs(pairs_of(examples), loaded.tokenizers, 99)
    scoring = validation_scoring(config)
    validator = Validator(corpus, examples, loaded.tokenizers, config.valid, scoring, config.search)
    return loaded.model, validator


def test_a_validation_drops_nothing(trained: tuple[Seq2Seq, Validator]) -> None:
    """Nor any metric that is asked for, of which the lowest TER is the best."""
    model, validator = trained
    results = []
    for seed in (1, 2):
        rng.seed_all(seed)
        results.append(validator.run(model.train(), CPU))
    one, two = results
    assert one is not None
    assert two is not None
    assert one.loss == two.loss
    assert list(one.scores) == ["bleu", "ter"]
    progress = Progress()
    for step, ter in enumerate((50.0, 40.0, 60.0), start=1):
        progress = replace(progress, step=step)
        progress = progress.after_validation({"ter": ter, "loss": 1.0}, "ter", 1)
    assert (progress.best_step, progress.bad_validations) == (2, 1)


def test_a_validation_leaves_the_generators_as_they_were(trained, monkeypatch) -> None:
    """Also where decoding draws from them, and where it is interrupted."""
    model, validator = trained
    spy(monkeypatch, model, "forward", lambda *_, **options: torch.rand(()))
    for answers in ([False] * 99, [False, True], [True]):
        rng.seed_all(7)
        expected = float(torch.rand(()))
        rng.seed_all(7)
        result = validator.run(model, CPU, partial(next, iter(answers)))
        assert (result is None) == (True in answers)
        assert model.training
        assert float(torch.rand(())) == expected
