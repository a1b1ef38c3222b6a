"""A small task that a run learns in seconds, runs of a second, and what two runs must share."""

import itertools
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from devices import DEVICE, HERE
from torch.testing import assert_close

from nmt.batches.batching import Batcher, EncodedCorpus
from nmt.config import RunConfig
from nmt.models.catalog import build_model
from nmt.runs.checkpoints import CheckpointState
from nmt.runs.directory import RunDirectory
from nmt.training.loop import Outcome, train
from nmt.training.state import TrainingState

SYMBOLS = "abcdefgh"


def write_reversal(folder: Path, n_train: int = 2000, n_test: int = 100) -> None:
    """train.tsv, valid.tsv, test.tsv: 2 to 6 different symbols, and the same backwards.

    No source stands in two of the files.
    """
    rng = random.Random(5)
    sources: dict[str, None] = {}  # in their order
    while len(sources) < n_train + 2 * n_test:
        sources[" ".join(rng.sample(SYMBOLS, rng.randint(2, 6)))] = None
    lines = iter(f"{source}\t{source[::-1]}\n" for source in sources)
    for name, size in {"train": n_train, "valid": n_test, "test": n_test}.items():
        (folder / f"{name}.tsv").write_text("".join(itertools.islice(lines, size)), "utf-8")


def copy_begun(begun: Path, folder: Path) -> Path:
    """Copy what `write_reversal` and a training left in `begun`, to be changed; gives `folder`."""
    for path in begun.glob("*.tsv"):
        shutil.copy(path, folder)
    shutil.copytree(begun / "run", folder / "run")
    return folder


def last_checkpoint(run: Path) -> CheckpointState:
    return RunDirectory(run).checkpoint_folder.load("last")


def toy_state(**train: Any) -> TrainingState:
    """The state of a small untrained model on a corpus of one pair; `train` replaces keys."""
    config = toy_config(Path(), train=train)
    model = build_model(config.model, 10, 10)
    batcher = Batcher(EncodedCorpus([(5, 6)], [(7,)]), 32, "sentences", seed=1)
    return TrainingState.new(model, config.train, batcher, HERE)


def toy_config(folder: Path, **sections: Any) -> RunConfig:
    """A small run on the files of `write_reversal`; `sections` replace or add keys."""
    tree: dict[str, Any] = {
        "name": "toy",
        "data": {
            "src_lang": "en",
            "tgt_lang": "de",
            **{name: {"file": str(folder / f"{name}.tsv")} for name in ("train", "valid", "test")},
        },
        "tokenizer": {"kind": "word", "min_freq": 1},
        "model": {"kind": "rnn", "embedding": 16, "hidden": 32, "dropout": 0.0},
        "train": {"epochs": 12, "batch_size": 32, "lr": 0.005, "device": DEVICE},
        "valid": {"samples": 1},
    }
    for name, section in sections.items():
        anew = not isinstance(section, dict) or "kind" in section
        tree[name] = section if anew else {**tree.get(name, {}), **section}
    return RunConfig.model_validate(tree)


def tiny_config(folder: Path, **sections: Any) -> RunConfig:
    """As `toy_config`, of a model and a validation that take no time, for two epochs."""
    tiny: dict[str, dict[str, Any]] = {
        "model": {"embedding": 8, "hidden": 8},
        "train": {"epochs": 2, "log_every": 1},
        "valid": {"beam": 1, "max_examples": 6},
    }
    for name, section in tiny.items():
        if "kind" not in sections.get(name, {}):
            sections[name] = {**section, **sections.get(name, {})}
    return toy_config(folder, **sections)


def train_tiny(
    folder: Path,
    run: str = "run",
    stop_after: int | None = None,
    options: dict[str, Any] | None = None,
    allow_change: bool = False,
    **sections: Any,
) -> Outcome:
    """Train `folder / run` by `tiny_config`, until it was asked `stop_after` times to stop.

    `options` are other keywords of `train`.
    """
    asked = itertools.count(1)
    return train(
        tiny_config(folder, **sections),
        folder / run,
        ["nmt", "train", run],
        interrupted=lambda: stop_after is not None and next(asked) > stop_after,
        quiet=True,
        allow_change=allow_change,
        **(options or {}),
    )


def spy(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, before: Any) -> None:
    """Call `before` with the arguments of each call of a method, and then the method itself."""
    method = getattr(owner, name)

    def spied(*arguments: Any, **options: Any) -> Any:
        before(*arguments, **options)
        return method(*arguments, **options)

    monkeypatch.setattr(owner, name, spied)


def log_of(run: Path) -> str:
    return (run / "train.log").read_text(encoding="utf-8")


def records(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The records of metrics.jsonl, but for what tells the time."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        {k: v for k, v in record.items() if k not in ("seconds", "tokens_per_second")}
        for record in (json.loads(line, parse_constant=pytest.fail) for line in lines)
        if kind in (None, record["type"])
    ]


def assert_same_checkpoint(one: Path, two: Path, which: str = "last") -> None:
    """Every tensor and number of two runs' checkpoints, bit for bit."""
    first, second = (RunDirectory(run).checkpoint_folder.load(which) for run in (one, two))
    assert first.step == second.step
    for name in ("model_tensors", "state_tensors"):
        assert_close(getattr(first, name), getattr(second, name), rtol=0, atol=0)
    for state in (first.state, second.state):
        state["progress"].pop("seconds")  # type: ignore[attr-defined]
    assert first.state == second.state


def assert_same_run(one: Path, two: Path) -> None:
    """The records, the list of checkpoints and their labels, and all that is in each."""
    assert records(one) == records(two)
    for path in one.glob("samples/*"):
        assert path.read_bytes() == (two / "samples" / path.name).read_bytes()
    first, second = (RunDirectory(run).checkpoint_folder for run in (one, two))
    assert (first.steps(), first.labels()) == (second.steps(), second.labels())
    for step in first.steps():
        assert_same_checkpoint(one, two, str(step))


def assert_resumes(folder: Path, *stops: int, **sections: Any) -> None:
    """Train `folder / whole` unbroken, and `folder / run` with stops: they are the same run."""
    train_tiny(folder, "whole", **sections)
    for stop in stops:
        assert train_tiny(folder, stop_after=stop, **sections).reason is None
    assert train_tiny(folder, **sections).reason is not None
    assert_same_run(folder / "whole", folder / "run")
