"""Folders that become a run, folders that stay, and settings that a begun run may change."""

import json
from pathlib import Path
from typing import Any

import pytest
from training.toy import log_of, toy_config, train_tiny

from nmt.config import RunConfig, dump_config
from nmt.errors import CheckpointError, ConfigError
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.training.resume import Verdict, config_changes
from nmt.types import SentencePair

SAFE, ASK, NEVER = Verdict.SAFE, Verdict.ASK, Verdict.NEVER


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({}, {}),
        ({"train": {"device": "auto", "epochs": 13}}, {"device": SAFE, "epochs": SAFE}),
        ({"train": {"save_every": 3, "log_every": 7}}, {"save_every": SAFE, "log_every": SAFE}),
        ({"search": {"beam": 7, "min_length": 7}}, {"beam": SAFE, "min_length": ASK}),
        ({"data": {"train": {"file": "moved.tsv"}, "test": None}}, {"file": SAFE, "test": SAFE}),
        ({"data": {"train": {"file": "train.tsv", "first": 7}}}, {"file": SAFE, "first": NEVER}),
        ({"data": {"max_pieces": 7}}, {"max_pieces": NEVER}),
        ({"train": {"lr": 1.0, "batch_size": 3}}, {"lr": ASK, "batch_size": ASK}),
        ({"model": {"dropout": 0.5, "hidden": 33}}, {"dropout": ASK, "hidden": NEVER}),
        ({"valid": {"every": 5}, "seed": 2}, {"every": ASK, "seed": NEVER}),
        ({"tokenizer": {"min_freq": 2}}, {"min_freq": NEVER}),
    ],
)
def test_the_verdict_on_a_key(
    tmp_path: Path, sections: dict[str, Any], expected: dict[str, Verdict]
) -> None:
    changes = config_changes(toy_config(tmp_path), toy_config(tmp_path, **sections))
    verdicts = {change.key.rpartition(".")[2]: change.verdict for change in changes}
    assert verdicts == expected


def test_the_verdict_depends_on_the_rule_of_updates(tmp_path: Path) -> None:
    """A cosine bends to its new end, and no other optimiser takes over."""
    cosine = {"schedule": {"kind": "cosine"}}
    old, new = (toy_config(tmp_path, train={"epochs": n, **cosine}) for n in (2, 3))
    (change,) = config_changes(old, new)
    assert (change.key, change.verdict) == ("train.epochs", ASK)
    new = toy_config(tmp_path, train={"optimizer": {"kind": "sgd"}})
    verdicts = {change.key: change.verdict for change in config_changes(toy_config(tmp_path), new)}
    assert verdicts["train.optimizer.kind"] is NEVER


def test_a_stage_may_change_until_it_begins(tmp_path: Path) -> None:
    def with_stages(*stages: dict[str, Any]) -> RunConfig:
        parts = [{"file": str(tmp_path / f"{name}.tsv")} for name in ("train", "test")]
        data = {"train": {"mix": parts}, "stages": stages}
        train, tokenizer = {"epochs": None, "steps": 9}, {"kind": "sentencepiece"}
        return toy_config(tmp_path, data=data, train=train, tokenizer=tokenizer)

    first, second = {"from_step": 3, "weights": (0, 1)}, {"from_step": 6, "weights": (1, 0)}
    old = with_stages(first, second)
    for new, expected in (
        (with_stages({**first, "from_step": 4}, second), [ASK, NEVER, NEVER, NEVER]),
        (with_stages({**first, "weights": (1, 1)}, second), [ASK, NEVER, NEVER, NEVER]),
        (with_stages({**first, "noise": {"slip": 0.5}}, second), [ASK, ASK, ASK, ASK]),
        (with_stages(first), [ASK, ASK, ASK, NEVER]),
    ):
        verdicts = [config_changes(old, new, step)[0].verdict for step in (2, 3, 5, 6)]
        assert verdicts == expected, new.data.stages


def test_every_refused_change_is_listed(corpus: Path) -> None:
    train_tiny(corpus, stop_after=3)
    train = {"epochs": 3, "lr": 0.001}
    with pytest.raises(ConfigError) as caught:
        train_tiny(corpus, train=train, model={"hidden": 9}, allow_change=True)
    _, *lines = str(caught.value).split("\n")
    keys = [line.strip().partition(" (")[0] for line in lines]
    assert keys == ["model.hidden: 8 -> 9", "train.epochs: 2 -> 3", "train.lr: 0.005 -> 0.001"]


def test_a_damaged_card_is_refused(corpus: Path) -> None:
    train_tiny(corpus, stop_after=3)
    for text in ("{}", '{"data": [1]}', "[]"):
        (corpus / "run" / "run.json").write_text(text, encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"run\.json: damaged: it lacks data\.sha256"):
            train_tiny(corpus)


def test_a_start_that_failed_may_be_mended(corpus: Path) -> None:
    with pytest.raises(ConfigError, match="vocab_size"):
        train_tiny(corpus, tokenizer={"kind": "sentencepiece", "vocab_size": 9999})
    outcome = train_tiny(corpus, tokenizer={"kind": "sentencepiece", "vocab_size": 20})
    assert outcome.reason == "2 epochs done"


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"thesis.tex": "x"}, "'thesis.tex'"),
        ({"a": "x", "b": "y"}, "'a' and 1 more"),
        ({"run.json": '{"name": "an experiment"}'}, "run.json is not nmt's"),
        ({"run.json": "{"}, "run.json is not nmt's"),
        ({"config.yaml": None}, "'config.yaml'"),
        ({"checkpoints/.tmp-mine": "x"}, "'checkpoints'"),
    ],
)
def test_a_folder_that_is_no_run_is_left_as_it_is(
    corpus: Path, files: dict[str, str | None], named: str
) -> None:
    for name, text in files.items():
        path = corpus / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dump_config(toy_config(corpus)) if text is None else text)
    before = {p: p.read_bytes() for p in corpus.rglob("*") if p.is_file()}
    with pytest.raises(CheckpointError, match=named) as caught:
        train_tiny(corpus)
    assert str(caught.value).startswith(f"{corpus / 'run'}: not a run")
    assert {p: p.read_bytes() for p in corpus.rglob("*") if p.is_file()} == before


def test_what_a_killed_start_left_becomes_a_run(corpus: Path) -> None:
    (corpus / "run").mkdir()
    for name in ("run.lock", ".tmp-run.json", ".tmp-config.yaml"):
        (corpus / "run" / name).write_text("{")
    assert train_tiny(corpus, train={"steps": 1}).step == 1
    assert not list((corpus / "run").glob(".tmp-*"))


def test_vocabularies_must_be_those_of_the_config(corpus: Path) -> None:
    pairs = [SentencePair("a b", "b a")] * 2
    for config, lang, words in (
        (WordConfig(min_freq=2), "de", r"another tokenizer\.min_freq \(2, .* 1\);"),
        (WordConfig(min_freq=1), "fr", r"another data\.tgt_lang \(fr, .* de\);"),
    ):
        train_tokenizers(config, pairs, "en", lang, 1).save(corpus / "run" / "tokenizer")
        with pytest.raises(ConfigError, match=words):
            train_tiny(corpus)
    tokenizers = train_tokenizers(WordConfig(min_freq=1), pairs, "en", "de", 1)
    tokenizers.save(corpus / "run" / "tokenizer")
    train_tiny(corpus, train={"steps": 1})
    assert f"vocabulary    {len(tokenizers.src.vocab)} en" in log_of(corpus / "run")


def test_what_waits_for_validations_needs_a_set(corpus: Path) -> None:
    entry = "mine: {src_lang: en, tgt_lang: de, splits: {train: {file: train.tsv}}}\n"
    (corpus / "catalog.yaml").write_text(entry, encoding="utf-8")
    (corpus / "mine").mkdir()
    (corpus / "train.tsv").rename(corpus / "mine" / "train.tsv")
    data = {"corpus": "mine", "folder": str(corpus), "train": None, "valid": None, "test": None}
    with pytest.raises(ConfigError, match=r"valid\.patience.*corpus 'mine' has no split valid"):
        train_tiny(corpus, data=data, valid={"patience": 2})


def test_the_card_has_the_command_and_each_training(corpus: Path) -> None:
    train_tiny(corpus, stop_after=3)
    train_tiny(corpus)
    card = json.loads((corpus / "run" / "run.json").read_text(encoding="utf-8"))
    assert card["command"] == ["nmt", "train"]
    assert [Path(entry["file"]).name for entry in card["data"]] == ["train.tsv", "valid.tsv"]
    trainings = [(t["from_step"], t["step"], t["how"]) for t in card["trainings"]]
    assert trainings == [(0, 3, "stopped"), (3, 8, "finished: 2 epochs done")]
