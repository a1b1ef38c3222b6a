"""`nmt average`: which checkpoints it takes, and that others load what it writes."""

import json
from pathlib import Path

import pytest
import torch
from cli.helpers import brief_config, nmt, refusal

from nmt.errors import CheckpointError
from nmt.runs.average import write_average
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import run_lock
from nmt.runs.trained_run import TrainedRun
from nmt.training.loop import train


@pytest.fixture
def run(folder: Path) -> RunDirectory:
    return RunDirectory(folder / "run")


def averaged(*arguments: str) -> list[int]:
    [line] = nmt("average", "run", *arguments).stderr.splitlines()
    return [int(step) for step in line.removeprefix("the mean of steps ").split(", ")]


def losses(run: RunDirectory) -> dict[int, float]:
    lines = map(json.loads, (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return {line["step"]: line["loss"] for line in lines if line["type"] == "valid"}


def test_the_last_the_best_and_the_named_are_averaged(run: RunDirectory) -> None:
    folder = run.checkpoint_folder
    steps = folder.steps()
    assert averaged("--last", "2") == steps[-2:]
    by_loss = losses(run)
    best = sorted(by_loss, key=by_loss.__getitem__)[:2]
    assert averaged("--best", "2", "--name", "best-2") == sorted(best)
    two = [steps[0], steps[-1]]
    assert averaged("last", f"step-{steps[0]:06d}", "--name", "two") == two
    first, last = (folder.load_weights(str(step))[1] for step in two)
    for name, tensor in folder.load_weights("two")[1].items():
        assert torch.equal(tensor, ((first[name].double() + last[name]) / 2).float())
    assert TrainedRun.open(run.path).load_model("two", torch.device("cpu")).step == steps[-1]
    with pytest.raises(CheckpointError, match=r"average, best-2, two$"):
        folder.find("best-4")


def test_a_training_goes_on_as_if_there_was_no_average(run: RunDirectory) -> None:
    labels = run.checkpoint_folder.labels()
    averaged("--last", "2")
    before = run.checkpoint_folder.load_weights("average")[1]
    assert run.checkpoint_folder.labels() == labels
    config = brief_config(run.path.parent, epochs=5, keep_last=1)
    assert train(config, run.path, quiet=True).step == 10
    after = run.checkpoint_folder.load_weights("average")[1]
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "allowed: one of CHECKPOINT..., --last N and --best N"),
        (["--best", "99"], "train.keep_best"),
        (["best", "step-000099"], "no checkpoint 'step-000099'"),
        (["--last", "2", "--name", "../x"], "got '../x' as a checkpoint's name"),
    ],
)
def test_what_cannot_be_averaged_is_a_line(arguments: list[str], words: str) -> None:
    assert words in refusal("average", "run", *arguments)


def test_while_a_training_writes_it_is_refused(run: RunDirectory) -> None:
    with run_lock(run.path), pytest.raises(CheckpointError, match="is training in this run"):
        write_average(TrainedRun.open(run.path), ["best", "last"], "average")
