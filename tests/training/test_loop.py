"""Whole runs: they learn, end where they are told, and report what they were given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training.toy import log_of, records, toy_config, train_tiny, write_reversal

from nmt.corpora.corpora import read_split
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.errors import ConfigError, NMTError
from nmt.optim import losses
from nmt.runs.directory import RunDirectory
from nmt.training.loop import train
from nmt.translation.translator import Translator


def test_unseen_reversals_are_learned_with_their_attention(tmp_path: Path) -> None:
    """The run still translates where its folder has moved."""
    write_reversal(tmp_path, n_train=1000, n_test=40)
    valid = {"max_examples": 2, "beam": 1}
    config = toy_config(tmp_path, train={"epochs": 6, "lr": 0.01}, valid=valid)
    train(config, tmp_path / "run", quiet=True)
    (tmp_path / "run").rename(tmp_path / "moved")
    pairs = read_split(SplitConfig(file=tmp_path / "test.tsv"), DataConfig())
    translator = Translator.load(tmp_path / "moved")
    translations = translator.translate([pair.src_text for pair in pairs])
    right = [t.text == pair.tgt_text for t, pair in zip(translations, pairs, strict=True)]
    assert np.mean(right) > 0.9
    shares = []
    for translation in translations:
        n = len(translation.source.ids)
        weights = translation.hypotheses[0].hypothesis.attention
        shares += [weights[t, n - 1 - t] for t in range(min(n, len(weights)))]
    assert np.mean(shares) > 0.6, "attention runs from the end to the beginning"


def test_the_first_limit_ends_the_run(corpus: Path) -> None:
    """A number of epochs, of updates, of minutes, or of validations without a better one."""
    for name, limits in (
        ("5 steps done", {"epochs": None, "steps": 5}),
        ("0.001 minutes done", {"epochs": None, "max_minutes": 0.001}),
        ("1 epoch done", {"epochs": 1, "steps": 500}),
    ):
        assert train_tiny(corpus, name, train=limits).reason == name
    sections = {"train": {"epochs": 50, "lr": 1e-9}, "valid": {"patience": 2, "every": 3}}
    outcome = train_tiny(corpus, **sections)
    assert outcome.reason == "no better BLEU in 2 validations"
    assert outcome.best is not None
    assert outcome.step == outcome.best.step + 2 * 3


def test_best_and_last_checkpoints_are_kept(corpus: Path) -> None:
    sections = {"train": {"epochs": 4, "keep_last": 1}, "valid": {"every": 2, "metric": "loss"}}
    outcome = train_tiny(corpus, **sections)
    assert outcome.best is not None
    checkpoints = RunDirectory(corpus / "run").checkpoint_folder
    assert checkpoints.labels() == {"best": outcome.best.step, "last": outcome.step}
    assert set(checkpoints.steps()) == {outcome.step, outcome.best.step}
    validations = records(corpus / "run", "valid")
    assert [record["epoch"] for record in validations] == [1, 1, 2, 2, 3, 3, 4, 4]
    best = min(validations, key=lambda record: record["loss"])
    assert outcome.best.step == best["step"]


def test_a_loss_that_is_no_number_leaves_the_checkpoints(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = losses._with_auxiliary

    def poisoned(*arguments: Any) -> Any:
        loss = genuine(*arguments)
        return loss._replace(loss_sum=loss.loss_sum * torch.nan, nll_sum=loss.nll_sum * torch.nan)

    monkeypatch.setattr(losses, "_with_auxiliary", poisoned)
    with pytest.raises(NMTError, match=r"loss is nan at step 4; earlier checkpoints are intact"):
        train_tiny(begun)
    assert RunDirectory(begun / "run").checkpoint_folder.steps() == [3]


def test_an_extra_that_bleu_lacks_is_named_before_a_run_is_made(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(ConfigError, match=r"^valid.bleu_tokenize: .* 'sacrebleu\[ja\]'"):
        train_tiny(corpus, data={"tgt_lang": "ja"})
    assert not (corpus / "run" / "config.yaml").exists()


def test_validation_takes_several_references(corpus: Path) -> None:
    """Pairs that do not fit, here and in training, are reported."""
    (corpus / "train.tsv").write_text("a b\tb a\na b c\tc b a\nh h\t\n", encoding="utf-8")
    for name, text in (("src", "a b\nb c\n"), ("one", "b a\n\n"), ("two", "b a\nc c\n")):
        (corpus / name).write_text(text, encoding="utf-8")
    valid = {"src": str(corpus / "src"), "tgt": [str(corpus / "one"), str(corpus / "two")]}
    data = {"valid": valid, "max_pieces": 2}
    outcome = train_tiny(corpus, data=data, train={"steps": 1})
    assert outcome.best is not None
    log = log_of(corpus / "run")
    assert "1 empty target" in log
    assert "1 longer than 2 pieces" in log
    assert "2 sentences for validation (1 pairs with an empty side" in log
