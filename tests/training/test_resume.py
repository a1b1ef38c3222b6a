"""A run that was begun goes on with what it was begun with, or is refused in a line."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.corpus.tokenizer import train_tokenizers
from nmt.corpus.word_tokenizer import WordConfig
from nmt.errors import CheckpointError, ConfigError, DataError, NMTError
from nmt.run import RunDirectory
from nmt.schema import SentencePair
from nmt.training.loop import Outcome, train


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a small corpus of reversals."""
    write_reversal(tmp_path, n_train=100, n_test=10)
    return tmp_path


def _train(folder: Path, stop_after: int | None = None, **sections: Any) -> Outcome:
    sections = {"train": {"epochs": 2}, **sections}
    asked = itertools.count(1)
    interrupted = (lambda: next(asked) > stop_after) if stop_after else (lambda: False)
    config = toy_config(folder, **sections)
    return train(config, folder / "run", ["nmt", "train"], interrupted, quiet=True)


def test_another_corpus_is_refused_on_a_begun_run(corpus: Path) -> None:
    """With fewer batches than were done of the epoch, it would have gone on for ever."""
    _train(corpus, stop_after=3)
    path = corpus / "train.tsv"
    path.write_text("a b\tb a\n" * 40, encoding="utf-8")
    with pytest.raises(DataError, match=rf"{path}: changed since .*run was begun; bring the file"):
        _train(corpus)


def test_the_same_corpus_may_lie_elsewhere(corpus: Path) -> None:
    _train(corpus, stop_after=3)
    card = corpus / "run" / "run.json"
    text = card.read_text(encoding="utf-8").replace("train.tsv", "moved.tsv")
    card.write_text(text, encoding="utf-8")
    assert _train(corpus).reason == "2 epochs done"


@pytest.mark.parametrize("text", ["{}", '{"data": [1]}', "[]"])
def test_a_damaged_card_is_said(corpus: Path, text: str) -> None:
    _train(corpus, stop_after=3)
    (corpus / "run" / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"run\.json: damaged: it lacks data\.sha256"):
        _train(corpus)


def test_a_run_that_failed_before_its_first_checkpoint_may_be_mended(corpus: Path) -> None:
    with pytest.raises(ConfigError, match="vocab_size"):
        _train(corpus, tokenizer={"kind": "sentencepiece", "vocab_size": 9999})
    outcome = _train(corpus, tokenizer={"kind": "sentencepiece", "vocab_size": 20})
    assert outcome.reason == "2 epochs done"
    assert RunDirectory(corpus / "run").load_config().tokenizer.vocab_size == 20


def test_a_run_without_a_checkpoint_is_logged_anew(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nmt.training.trainer import Trainer

    def killed(self: Trainer) -> None:
        raise NMTError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_save", killed)
        with pytest.raises(NMTError, match="killed"):
            _train(corpus, train={"epochs": 2, "log_every": 1})
    _train(corpus, train={"epochs": 2, "log_every": 1, "lr": 0.001})
    lines = (corpus / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [r["step"] for r in map(json.loads, lines) if r["type"] == "train"]
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_config_of_the_users_own_is_not_written_over(corpus: Path) -> None:
    config = toy_config(corpus, train={"epochs": 2})
    own = corpus / "run" / "config.yaml"
    own.parent.mkdir()
    text = f"# mine\n{dump_config(config)}"
    own.write_text(text, encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"config\.yaml: no run wrote this config, and it differs"
    ):
        _train(corpus, train={"epochs": 2, "lr": 1.0})
    assert _train(corpus).reason == "2 epochs done"
    assert own.read_text(encoding="utf-8") == text


def test_labels_that_a_killed_save_did_not_set_are_set(corpus: Path) -> None:
    outcome = _train(corpus, train={"epochs": 1})
    checkpoints = RunDirectory(corpus / "run").checkpoint_folder
    for label in ("best", "last"):
        (checkpoints.path / label).unlink()
    assert _train(corpus, train={"epochs": 1}).step == outcome.step
    assert checkpoints.labels() == ["best", "last"]
    assert checkpoints.load_weights("best")[0] == outcome.best_step


@pytest.mark.parametrize(
    ("config", "lang", "words"),
    [
        (WordConfig(min_freq=2), "de", r"another tokenizer \(.*min_freq=2.*min_freq=1"),
        (WordConfig(min_freq=1), "fr", r"another data\.tgt_lang \(fr\) than the config's \(de\)"),
    ],
)
def test_vocabularies_of_another_config_are_refused(
    corpus: Path, config: WordConfig, lang: str, words: str
) -> None:
    pairs = [SentencePair("a b", "b a")] * 2
    train_tokenizers(config, pairs, "en", lang, 1).save(corpus / "run" / "tokenizer")
    with pytest.raises(ConfigError, match=words):
        _train(corpus)


def test_vocabularies_that_fit_are_taken(corpus: Path) -> None:
    pairs = [SentencePair("a b", "b a")] * 2
    made = train_tokenizers(WordConfig(min_freq=1), pairs, "en", "de", 1)
    made.save(corpus / "run" / "tokenizer")
    _train(corpus, train={"steps": 1})
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert f"vocabulary    {len(made.src.vocab)} en" in log


def test_validation_takes_several_references(corpus: Path) -> None:
    for name, text in (("src", "a b\nb c\n"), ("one", "b a\nc b\n"), ("two", "b a\nc c\n")):
        (corpus / name).write_text(text, encoding="utf-8")
    valid = {"src": str(corpus / "src"), "tgt": [str(corpus / "one"), str(corpus / "two")]}
    outcome = _train(corpus, data={"valid": valid})
    assert outcome.best_bleu is not None


@pytest.mark.parametrize(
    ("sections", "what"),
    [
        ({"valid": {"patience": 2}}, r"valid\.patience"),
        ({"train": {"epochs": 1, "schedule": {"kind": "plateau"}}}, r"train\.schedule\.kind"),
    ],
)
def test_what_waits_for_validations_needs_a_set(
    corpus: Path, sections: dict[str, Any], what: str
) -> None:
    entry = "mine: {src_lang: en, tgt_lang: de, splits: {train: {tsv: train.tsv}}}\n"
    (corpus / "catalog.yaml").write_text(entry, encoding="utf-8")
    (corpus / "mine").mkdir()
    (corpus / "train.tsv").rename(corpus / "mine" / "train.tsv")
    data = {"corpus": "mine", "folder": str(corpus), "train": None, "valid": None, "test": None}
    with pytest.raises(ConfigError, match=rf"{what}.*corpus 'mine' has no split valid"):
        _train(corpus, data=data, **sections)
