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
    write_reversal(tmp_path, n_train=1000, n_test=60)
    valid = {"max_examples": 9, "beam": 1}
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


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"epochs": None, "steps": 5}, "5 steps done"),
        ({"epochs": None, "max_minutes": 0.001}, "0.001 minutes done"),
        ({"epochs": 1, "steps": 500}, "1 epoch done"),
    ],
)
def test_the_first_limit_ends_the_run(corpus: Path, limits: dict[str, Any], reason: str) -> None:
    assert train_tiny(corpus, train=limits).reason == reason


def test_patience_ends_the_run(corpus: Path) -> None:
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
    assert not any(path.is_symlink() for path in corpus.rglob("*"))
    validations = records(corpus / "run", "valid")
    assert [record["epoch"] for record in validations] == [1, 1, 2, 2, 3, 3, 4, 4]
    best = min(validations, key=lambda record: record["loss"])
    assert outcome.best.step == best["step"]
    assert f"best validation loss {best['loss']:.3f} at step" in outcome.describe()


def test_a_loss_that_is_no_number_leaves_the_checkpoints(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_tiny(corpus, train={"epochs": 1})
    genuine = losses._with_auxiliary

    def poisoned(*arguments: Any) -> Any:
        loss = genuine(*arguments)
        return loss._replace(loss_sum=loss.loss_sum * torch.nan, nll_sum=loss.nll_sum * torch.nan)

    monkeypatch.setattr(losses, "_with_auxiliary", poisoned)
    with pytest.raises(NMTError, match=r"loss is nan at step 5; earlier checkpoints are intact"):
        train_tiny(corpus)
    assert RunDirectory(corpus / "run").checkpoint_folder.steps() == [4]


def test_pairs_that_do_not_fit_are_reported(corpus: Path) -> None:
    for name in ("train", "valid"):
        with (corpus / f"{name}.tsv").open("a", encoding="utf-8") as file:
            file.write("h h\t\n")
    train_tiny(corpus, data={"max_pieces": 5}, train={"steps": 1})
    log = log_of(corpus / "run")
    assert "1 empty target" in log
    assert "longer than 5 pieces" in log
    assert "11 sentences for validation (1 pairs with an empty side" in log


def test_an_extra_that_bleu_lacks_is_named_before_a_run_is_made(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(ConfigError, match=r"^valid.bleu_tokenize: .* 'sacrebleu\[ja\]'"):
        train_tiny(corpus, data={"tgt_lang": "ja"})
    sections = {"data": {"tgt_lang": "ja"}, "valid": {"bleu_tokenize": "char"}}
    assert train_tiny(corpus, train={"steps": 1}, **sections).best is not None


def test_validation_takes_several_references(corpus: Path) -> None:
    for name, text in (("src", "a b\nb c\n"), ("one", "b a\nc b\n"), ("two", "b a\nc c\n")):
        (corpus / name).write_text(text, encoding="utf-8")
    valid = {"src": str(corpus / "src"), "tgt": [str(corpus / "one"), str(corpus / "two")]}
    outcome = train_tiny(corpus, data={"valid": valid}, train={"steps": 1})
    assert outcome.best is not None
    assert "2 sentences for validation" in log_of(corpus / "run")
