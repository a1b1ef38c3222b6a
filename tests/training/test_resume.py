"""A run that was stopped, killed or damaged goes on, bit for bit, as if it had not been."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from training.toy import (
    assert_resumes,
    assert_same_run,
    last_checkpoint,
    log_of,
    records,
    spy,
    train_tiny,
)

from nmt.batches.loader import Loader
from nmt.errors import ConfigError, DataError
from nmt.models.base import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.training.trainer import Trainer
from nmt.training.validation import Validator

WARM_UP = {"kind": "inverse_sqrt", "warmup": 5}
PLATEAU = {"kind": "plateau", "patience": 0}
DECAY = {"kind": "adamw", "weight_decay": 0.5}
LSTM = {"encoder": {"cell": "lstm"}, "decoder": {"kind": "luong", "cell": "lstm"}}
HARD = {"kind": "additive", "weights": {"kind": "hard"}, "dropout": 0.3}
NOISE = {"upper": 0.3, "slip": 0.5, "punctuation": 0.5, "copies": 0.5, "merge": 0.5}

OPTIONS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "LSTM, dropout, warm-up, accumulation, tokens": (
        (3,),
        {
            "model": {**LSTM, "dropout": 0.3},
            "train": {
                **{"accumulate": 2, "batch_by": "tokens", "batch_size": 130, "log_every": 2},
                "schedule": WARM_UP,
            },
            "data": {"max_pieces": 20},
        },
    ),
    "dropped and sampled attention, momentum, plateau": (
        (7,),
        {
            "model": {"attention": HARD},
            "train": {"optimizer": {"kind": "sgd", "momentum": 0.5}, "schedule": PLATEAU},
        },
    ),
    "noise, sampled pieces, two groups of parameters, frozen ones": (
        (6,),
        {
            "tokenizer": {"kind": "sentencepiece", "model_type": "bpe", "case": "markup"},
            "data": {"noise": NOISE, "sampling": {"src": 0.5, "tgt": 0.5}},
            "train": {"optimizer": DECAY, "freeze": ["encoder.embedding.*", "encoder.rnn.bias*"]},
        },
    ),
    "averages, tied weights, two passes": (
        (4, 1, 5),
        {
            "model": {"dropout": 0.3, "tie_embeddings": "target"},
            "train": {"ema": {"decay": 0.9}, "save_every": 3, "loss": {"kind": "r_drop"}},
        },
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_resumed_run_is_the_unbroken_one(corpus: Path, name: str) -> None:
    stops, sections = OPTIONS[name]
    assert_resumes(corpus, *stops, **sections)


def test_a_validation_that_is_stopped_is_done_again(corpus: Path) -> None:
    """Wherever the question comes, in a validation or between updates."""
    sections: dict[str, Any] = {
        "train": {"schedule": PLATEAU},
        "valid": {"every": 3, "max_examples": None},
        "search": {"batch_size": 3},
    }
    train_tiny(corpus, "whole", **sections)
    for stop in (1, 5, 6, 13):
        outcome = train_tiny(corpus, stop_after=stop, **sections)
        assert outcome.reason is None
        assert RunDirectory(corpus / "run").checkpoint_folder.steps()[-1] == outcome.step
        assert train_tiny(corpus, **sections).reason == "2 epochs done"
        assert_same_run(corpus / "whole", corpus / "run")
        shutil.rmtree(corpus / "run")


@pytest.mark.parametrize("valid", [{}, {"every": 4}])
def test_a_finished_run_that_goes_on_is_the_longer_run(corpus: Path, valid: dict[str, int]) -> None:
    """Also where its end was a validation of the longer run."""
    sections = {"valid": {**valid, "patience": 9}}
    train_tiny(corpus, "whole", **sections)
    for _ in range(2):
        done = train_tiny(corpus, train={"epochs": 1}, **sections)
        assert (done.step, done.reason) == (4, "1 epoch done")
    train_tiny(corpus, **sections)
    assert_same_run(corpus / "whole", corpus / "run")
    assert RunDirectory(corpus / "run").load_config().train.epochs == 2


def test_a_validation_of_a_saved_step_is_saved_too(corpus: Path, monkeypatch) -> None:
    """The last step is saved by `save_every`, and validated only because the run ends."""
    saves: list[int] = []
    spy(monkeypatch, Trainer, "save", lambda trainer: saves.append(trainer.state.step))
    sections: dict[str, Any] = {
        "train": {"epochs": None, "steps": 6, "save_every": 3},
        "valid": {"every": 4, "metric": "loss"},
    }
    for _ in range(2):
        outcome = train_tiny(corpus, **sections)
        progress = last_checkpoint(corpus / "run").state["progress"]
        assert progress["validated_step"] == outcome.step == 6
    assert [line["step"] for line in records(corpus / "run", "valid")] == [4, 6]
    assert saves == [3, 4, 6, 6]
    train_tiny(corpus, "stopped", stop_after=4, **sections)
    saves.clear()
    train_tiny(corpus, "stopped", **sections)
    assert saves == [4, 6, 6]


def test_after_an_error_a_run_goes_on_from_its_checkpoint(corpus: Path, monkeypatch) -> None:
    """In an update, a validation or a save; the error itself is passed on."""
    sections: dict[str, Any] = {"model": {"dropout": 0.3}, "train": {"save_every": 2}}
    train_tiny(corpus, "whole", **sections)
    kind: type
    for kind, name, at in ((Seq2Seq, "forward", 4), (Validator, "run", 1), (Trainer, "save", 2)):
        calls = itertools.count(1)

        def failing(*arguments: Any, **options: Any) -> None:
            if next(calls) == at:  # noqa: B023
                raise RuntimeError("size mismatch")

        with monkeypatch.context() as patch:
            spy(patch, kind, name, failing)
            with pytest.raises(RuntimeError, match=r"^size mismatch$"):
                train_tiny(corpus, name, **sections)
        assert RunDirectory(corpus / name).checkpoint_folder.steps() == [2]
        assert "stopped: RuntimeError" in log_of(corpus / name).splitlines()[-1]
        train_tiny(corpus, name, **sections)
        assert_same_run(corpus / "whole", corpus / name)


def test_the_newest_checkpoint_damaged_the_one_before_goes_on(corpus: Path) -> None:
    sections = {"lr": 1e-9}
    train_tiny(corpus, "whole", train={**sections, "epochs": 3})
    train_tiny(corpus, train=sections)
    path = corpus / "run" / "checkpoints" / "step-000008" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    train_tiny(corpus, train={**sections, "epochs": 3})
    log = log_of(corpus / "run")
    assert "step-000008/model.safetensors: damaged: not a safetensors file" in log
    assert "set aside as damaged-step-000008, going on from step 4" in log
    assert_same_run(corpus / "whole", corpus / "run")


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], int | None]] = {
    "a damaged line": (lambda log: log.replace(b'"loss"', b"\0\0", 1), 3),
    "a changed number": (lambda log: log.replace(b'"loss": ', b'"loss": 1', 1), 3),
    "a changed step": (lambda log: log.replace(b'"step": 3', b'"step": 6'), 2),
    "a file cut in its last record": (lambda log: log[:-9], 2),
    "an emptied file": (lambda log: b"", 0),
    "times of another machine": (lambda log: log.replace(b'"seconds": ', b'"seconds": 1'), None),
    "a kill amid the next record": (lambda log: log + b'{"type": "train", "st', None),
    "a kill before the next checkpoint": (
        lambda log: log + log[-300:].replace(b": 3,", b": 4,"),
        None,
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_log_is_reported(begun: Path, name: str) -> None:
    """In one line, once; what is behind the checkpoint's step comes again anyway."""
    path = begun / "run" / "metrics.jsonl"
    damage, last = DAMAGES[name]
    path.write_bytes(damage(path.read_bytes()))
    end = f"ends at step {last}" if last else "is empty"
    line = f"{path}: records are missing or changed: it {end}, the checkpoint is of step 3"
    for steps in (4, 4):
        train_tiny(begun, train={"steps": steps})
        lines = [text[20:] for text in log_of(begun / "run").splitlines() if "metrics.js" in text]
        assert lines == ([] if last is None else [line])


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": {"kind": "sgd", "momentum": 0.9}},
        {"schedule": {"kind": "inverse_sqrt", "warmup": 3}},
        {"schedule": {"kind": "cosine", "floor": 0.5}},
        {"schedule": PLATEAU, "clip_norm": None},
    ],
)
def test_a_change_holds_from_the_next_update(corpus: Path, change: dict[str, Any]) -> None:
    """The learning rate of each update is that of the new config, also where the state has one."""
    schedule = change.get("schedule", {"kind": "constant"})
    old = {"lr": 0.25, "optimizer": {"kind": "sgd"}, "schedule": {"kind": schedule["kind"]}}
    new = {**old, **change, "lr": 0.5}
    train_tiny(corpus, stop_after=3, train=old)
    with pytest.raises(ConfigError, match=r"train\.lr: .* \(needs `allow_change`"):
        train_tiny(corpus, train=new)
    assert train_tiny(corpus, allow_change=True, train=new).reason == "2 epochs done"
    train_tiny(corpus, "whole", train=new)
    rates = [[r["lr"] for r in records(corpus / name, "train")][3:] for name in ("run", "whole")]
    assert rates[0] == rates[1]


def stage(**noise: float) -> dict[str, Any]:
    return {"data": {"stages": [{"from_step": 2, "noise": noise}]}}


@pytest.mark.parametrize(
    ("stop", "old", "new", "n_rows"),
    [
        (3, {}, {"train": {"batch_size": 16}}, 100),
        (3, {}, {"data": {"noise": {"merge": 0.5}}}, 100),
        (6, stage(merge=0.2), stage(merge=0.5), 100),
        (3, {}, {"data": {"noise": {"upper": 0.5}}}, 4),  # the same batches: the position stays
    ],
)
def test_other_batches_begin_the_epoch_anew(corpus, monkeypatch, stop, old, new, n_rows) -> None:
    """Each row comes once in the epoch, at the end of which alone it is validated."""
    epochs: list[list[int]] = []

    def train_steps(sections: dict[str, Any], **options: Any) -> None:
        lengths = {"epochs": None, "steps": 11, **sections.get("train", {})}
        tokenizer = {"kind": "sentencepiece", "model_type": "bpe"}
        train_tiny(corpus, **options, **{**sections, "tokenizer": tokenizer, "train": lengths})

    def record(loader: Loader, start: int) -> None:
        epochs.append(list(itertools.chain(*loader.plan[start : len(loader.plan)])))

    train_steps(old, stop_after=stop)
    spy(monkeypatch, Loader, "groups", record)
    train_steps(new, allow_change=True)
    assert [len(rows) for rows in epochs] == [n_rows] + [100] * (len(epochs) - 1)
    assert all(len(rows) == len(set(rows)) for rows in epochs)
    assert ("starts again" in log_of(corpus / "run")) is (n_rows == 100)
    ends = {line["epoch"]: line["step"] for line in records(corpus / "run", "train")}
    assert [line["step"] for line in records(corpus / "run", "valid")] == list(ends.values())


def test_a_corpus_may_move_but_not_change(begun: Path) -> None:
    """The card has the command, the files and each training."""
    path = begun / "train.tsv"
    path.rename(begun / "moved.tsv")
    path.write_text("a b\tb a\n" * 40, encoding="utf-8")
    with pytest.raises(DataError, match=rf"{path}: changed since"):
        train_tiny(begun)
    assert train_tiny(begun, data={"train": {"file": str(begun / "moved.tsv")}}).step == 8
    config = RunDirectory(begun / "run").load_config()
    assert config.data.train is not None
    assert config.data.train.file == begun / "moved.tsv"
    card = json.loads((begun / "run" / "run.json").read_text(encoding="utf-8"))
    assert card["command"] == ["nmt", "train", "run"]
    assert [Path(entry["file"]).name for entry in card["data"]] == ["train.tsv", "valid.tsv"]
    trainings = [(t["from_step"], t["step"], t["how"]) for t in card["trainings"]]
    assert trainings == [(0, 3, "stopped"), (3, 8, "finished: 2 epochs done")]


def test_a_folder_whose_name_is_not_utf8_goes_on(corpus: Path) -> None:
    for steps in (1, 2):
        assert train_tiny(corpus, "caf\udce9/run", train={"steps": steps}).step == steps
