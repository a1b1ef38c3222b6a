"""Folders that become a run, changes that a begun run allows, and the logs that it keeps."""

from pathlib import Path
from typing import Any

import pytest
from training.toy import log_of, records, toy_config, train_tiny

from nmt.config import RunConfig, dump_config
from nmt.errors import CheckpointError, ConfigError
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.training.log import RunLog
from nmt.training.resume import Verdict, config_changes
from nmt.types import SentencePair

SAFE, ASK, NEVER = Verdict.SAFE, Verdict.ASK, Verdict.NEVER


def test_the_verdict_on_a_key() -> None:
    """A cosine bends to its new end, and no other optimiser takes over."""
    train = {"device": "auto", "epochs": 13, "save_every": 3, "lr": 1.0, "batch_size": 3}
    data = {"train": {"file": "train.tsv", "first": 7}, "test": None, "max_pieces": 7}
    sections = {
        "train": {**train, "optimizer": {"kind": "sgd"}},
        "search": {"beam": 7, "min_length": 7},
        "data": data,
        "model": {"dropout": 0.5, "hidden": 33},
        "valid": {"every": 5},
        "tokenizer": {"min_freq": 2},
        "seed": 2,
    }
    changes = config_changes(toy_config(Path()), toy_config(Path("moved"), **sections))
    verdicts = {change.key.rpartition(".")[2]: change.verdict for change in changes}
    assert (
        verdicts.items()
        >= {
            **dict.fromkeys(("device", "epochs", "save_every", "beam", "file", "test"), SAFE),
            **dict.fromkeys(("min_length", "lr", "batch_size", "dropout", "every"), ASK),
            **dict.fromkeys(("first", "max_pieces", "hidden", "min_freq", "seed", "kind"), NEVER),
        }.items()
    )
    cosine = {"schedule": {"kind": "cosine"}}
    (change,) = config_changes(*(toy_config(Path(), train={"epochs": n, **cosine}) for n in (2, 3)))
    assert (change.key, change.verdict) == ("train.epochs", ASK)
    assert config_changes(toy_config(Path()), toy_config(Path())) == []


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


def test_refused_changes_and_a_damaged_card_are_named(begun: Path) -> None:
    train = {"epochs": 3, "lr": 0.001}
    with pytest.raises(ConfigError) as caught:
        train_tiny(begun, train=train, model={"hidden": 9}, allow_change=True)
    lines = [line.strip().partition(" (")[0] for line in str(caught.value).split("\n")]
    expected = ["model.hidden: 8 -> 9", "train.epochs: 2 -> 3", "train.lr: 0.005 -> 0.001"]
    assert lines[-3:] == expected
    for text in ("{}", '{"data": [1]}', "[]"):
        (begun / "run" / "run.json").write_text(text, encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"run\.json: damaged: it lacks data\.sha256"):
            train_tiny(begun)


def test_a_start_that_failed_may_be_mended(corpus: Path) -> None:
    with pytest.raises(ConfigError, match="vocab_size"):
        train_tiny(corpus, tokenizer={"kind": "sentencepiece", "vocab_size": 9999})
    pieces = {"kind": "sentencepiece", "vocab_size": 20}
    for name in ("run.lock", ".tmp-run.json", ".tmp-config.yaml"):
        (corpus / "run" / name).write_text("{")  # left by a killed one
    assert train_tiny(corpus, tokenizer=pieces, train={"steps": 1}).step == 1
    assert not list((corpus / "run").glob(".tmp-*"))


def test_a_folder_that_is_no_run_is_left_as_it_is(corpus: Path) -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({"thesis.tex": "x"}, "'thesis.tex'"),
        ({"a": "x", "b": "y"}, "'a' and 1 more"),
        ({"run.json": '{"name": "an experiment"}'}, "run.json is not nmt's"),
        ({"run.json": "{"}, "run.json is not nmt's"),
        ({"config.yaml": dump_config(toy_config(corpus))}, "'config.yaml'"),
        ({"checkpoints/.tmp-mine": "x"}, "'checkpoints'"),
    ]
    for number, (files, problem) in enumerate(cases):
        folder = corpus / f"{number}"
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        before = {p: p.read_bytes() for p in corpus.rglob("*") if p.is_file()}
        with pytest.raises(CheckpointError, match=rf"^{folder}: not a run.*{problem}"):
            train_tiny(corpus, folder.name)
        assert {p: p.read_bytes() for p in corpus.rglob("*") if p.is_file()} == before


def test_vocabularies_must_be_those_of_the_config(corpus: Path) -> None:
    pairs = [SentencePair("a b", "b a")] * 2
    for min_freq, lang, problem in (
        (2, "de", r"made with tokenizer\.min_freq = 2, .* 1;"),
        (1, "fr", r"made with data\.tgt_lang = fr, .* de;"),
        (1, "de", None),
    ):
        tokenizers = train_tokenizers(WordConfig(min_freq=min_freq), pairs, "en", lang, 1)
        tokenizers.save(corpus / "run" / "tokenizer")
        if problem:
            with pytest.raises(ConfigError, match=problem):
                train_tiny(corpus)
    train_tiny(corpus, train={"steps": 1})
    assert f"vocabulary    {len(tokenizers.src.vocab)} en" in log_of(corpus / "run")


def test_rewind_drops_later_steps_and_damaged_lines(tmp_path: Path) -> None:
    """Infinity is null in JSON."""
    good = [f'{{"type": "{kind}", "step": {n}}}\n' for n, kind in enumerate("ttvt", start=1)]
    damaged = ["[", "{}", '{"step": "x", "type": 1}', "", "[" * 100_000]
    damaged.append('{"step": 1, "type": "t", "x": [1]}')
    lines = [good[0], *(f"{line}\n" for line in damaged), *good[1:], '{"type": "tr']
    (tmp_path / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    with RunLog(tmp_path, quiet=True) as log:
        log.rewind(3)
        log.record({"type": "train", "step": 4, "grad_norm": float("inf"), "loss": 1.5})
    assert [record["step"] for record in records(tmp_path)] == [1, 2, 3, 4]
    assert records(tmp_path)[3] == {"type": "train", "step": 4, "grad_norm": None, "loss": 1.5}


def test_rewind_drops_a_validation_that_comes_again(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        for kind in ("train", "valid"):
            log.record({"type": kind, "step": 2})
    for is_validated, kinds in ((True, ["train", "valid"]), (False, ["train"])):
        with RunLog(tmp_path, quiet=True) as log:
            log.rewind(2, is_validated)
        assert [record["type"] for record in records(tmp_path)] == kinds


def test_train_log_has_errors_and_cannot_steer_a_terminal(tmp_path: Path, monkeypatch) -> None:
    """Without a bar there is no tqdm, which starts a thread, even if it is disabled."""
    monkeypatch.setattr("nmt.training.log.tqdm", None)
    log = RunLog(tmp_path, quiet=True)
    log.open_bar("epoch 1", 3, 0)
    log.advance_bar(1, "loss 1.5")
    log.say("a\x1b[31mb\r \udcff\nsecond")
    log.__exit__(ValueError, ValueError("no"), None)
    expected = ["a\\u001b[31mb\\u000d \\udcff", "second", "stopped: ValueError: no", ""]
    assert [line[20:] for line in log_of(tmp_path).split("\n")] == expected
