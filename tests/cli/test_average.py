"""`nmt average`: which checkpoints it takes, and that others load what it writes."""

from pathlib import Path

import pytest
import torch
from cli.helpers import brief_config, nmt, refusal
from training.toy import records

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


def test_the_last_the_best_and_the_named_are_averaged(run: RunDirectory) -> None:
    folder = run.checkpoint_folder
    steps = folder.steps()
    assert averaged("--last", "2") == steps[-2:]
    losses = [(record["loss"], record["step"]) for record in records(run.path, "valid")]
    best = sorted(step for _, step in sorted(losses)[:2])
    assert averaged("--best", "2", "--name", "best-2") == best
    assert "train.keep_best" in refusal("average", "run", "--best", "99")
    two = [steps[0], steps[-1]]
    assert averaged("last", f"step-{steps[0]:06d}", "--name", "two") == two
    first, last = (folder.load_weights(str(step))[1] for step in two)
    for name, tensor in folder.load_weights("two")[1].items():
        assert torch.equal(tensor, ((first[name].double() + last[name]) / 2).float())
    assert TrainedRun.open(run.path).load_model("two", torch.device("cpu")).step == steps[-1]


def test_a_training_goes_on_as_if_there_was_no_average(run: RunDirectory) -> None:
    labels = run.checkpoint_folder.labels()
    averaged("--last", "2")
    before = run.checkpoint_folder.load_weights("average")[1]
    assert run.checkpoint_folder.labels() == labels
    config = brief_config(run.path.parent, epochs=5, keep_last=1)
    assert train(config, run.path, quiet=True).step == 10
    after = run.checkpoint_folder.load_weights("average")[1]
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())
    with run_lock(run.path):
        assert "is training in this run" in refusal("average", "run", "--last", "2")
