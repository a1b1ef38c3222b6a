"""`nmt average`: which checkpoints it takes, and that others load what it writes."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from training.toy import copy_begun, toy_config, write_reversal
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import RunConfig
from nmt.errors import CheckpointError
from nmt.runs.average import mean_weights, write_average
from nmt.runs.checkpoints import CheckpointFolder
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import run_lock
from nmt.runs.trained_run import TrainedRun
from nmt.training.loop import train


def config(folder: Path, **train: object) -> RunConfig:
    keep = {"keep_last": 2, "keep_best": 3, "epochs": 5, **train}
    return toy_config(folder, train=keep, valid={"metric": "loss"}, model={"hidden": 16})


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=60, n_test=5)
    train(config(folder), folder / "run", quiet=True)
    return folder


@pytest.fixture
def run(begun: Path, tmp_path: Path) -> RunDirectory:
    return RunDirectory(copy_begun(begun, tmp_path) / "run")


def nmt_average(run: RunDirectory, *arguments: str) -> list[int]:
    result = CliRunner().invoke(app, ["average", str(run.path), *arguments, "--json"])
    assert result.exit_code == 0, result.output
    steps: list[int] = json.loads(result.stdout)["steps"]
    return steps


def records(run: RunDirectory) -> dict[int, float]:
    lines = map(json.loads, (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return {line["step"]: line["loss"] for line in lines if line["type"] == "valid"}


def test_of_equally_good_checkpoints_the_first_is_the_best(run: RunDirectory) -> None:
    lines = run.path / "metrics.jsonl"
    equal = lines.read_text(encoding="utf-8")
    for loss in records(run).values():
        equal = equal.replace(f'"loss": {loss}', '"loss": 1.0')
    lines.write_text(equal, encoding="utf-8")
    assert nmt_average(run, "--best", "1") == run.checkpoint_folder.steps()[:1]


def test_the_last_the_best_and_the_named_are_averaged(run: RunDirectory) -> None:
    folder = run.checkpoint_folder
    steps = folder.steps()
    assert nmt_average(run, "--last", "2") == steps[-2:]
    losses = records(run)
    best = sorted(losses, key=losses.__getitem__)[:3]
    assert nmt_average(run, "--best", "3", "--name", "best-3") == sorted(best)
    assert nmt_average(run, "last", f"step-{steps[0]:06d}", "--name", "two") == [
        steps[0],
        steps[-1],
    ]
    one, two = (folder.load_weights(str(step))[1] for step in (steps[0], steps[-1]))
    for name, tensor in folder.load_weights("two")[1].items():
        assert torch.equal(tensor, ((one[name].double() + two[name]) / 2).float())
    loaded = TrainedRun.open(run.path).load_model("two", torch.device("cpu"))
    assert loaded.step == steps[-1]
    with pytest.raises(CheckpointError, match=r"average, best-3, two$"):
        folder.find("best-4")


def test_a_training_goes_on_as_if_there_was_no_average(run: RunDirectory, begun: Path) -> None:
    labels = run.checkpoint_folder.labels()
    nmt_average(run, "--last", "2")
    before = run.checkpoint_folder.load_weights("average")[1]
    assert run.checkpoint_folder.labels() == labels
    outcome = train(config(run.path.parent, epochs=8, keep_last=1), run.path, quiet=True)
    assert outcome.step == 16
    after = run.checkpoint_folder.load_weights("average")[1]
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "allowed: one of CHECKPOINT..., --last N and --best N"),
        (["--last", "2", "--best", "2"], "allowed: one of CHECKPOINT..., --last N and --best N"),
        (["--last", "99"], "--last: got 99, allowed: 1 to "),
        (["--best", "99"], "; train.keep_best keeps more"),
        (["best", "step-000099"], "no checkpoint 'step-000099', there are: "),
        (["last", "last"], "this step is among them already"),
        (["--last", "2", "--name", "best"], "got 'best' as a checkpoint's name, allowed: a-z"),
        (["--last", "2", "--name", "../x"], "got '../x' as a checkpoint's name, allowed: a-z"),
    ],
)
def test_what_cannot_be_averaged_is_a_line(
    run: RunDirectory, arguments: list[str], words: str
) -> None:
    result = CliRunner().invoke(app, ["average", str(run.path), *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_while_a_training_writes_it_is_refused(run: RunDirectory) -> None:
    with (
        run_lock(run.path),
        pytest.raises(CheckpointError, match="is training in this run"),
    ):
        write_average(run, ["best", "last"], "average")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"w": torch.ones(3, 2), "n": torch.arange(3)}, r"'w': got F32 \(3, 2\)"),
        ({"w": torch.ones(2, 3), "n": torch.arange(3) + 1}, "n: integers that differ"),
        ({"w": torch.ones(2, 3)}, "'n': missing"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    tmp_path: Path, other: dict[str, torch.Tensor], words: str
) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(1, {"w": torch.ones(2, 3), "n": torch.arange(3)}, {}, {})
    folder.save(2, other, {}, {})
    with pytest.raises(CheckpointError, match=rf"cannot average 2 \(step 2\) with 1: {words}"):
        mean_weights(folder, ["1", "2"])


def test_tied_tensors_stay_tied(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2, 4):
        weight = torch.full((2, 3), float(step))
        folder.save(step, {"a": weight, "b": weight, "c": weight.half()}, {}, {})
    steps, means = mean_weights(folder, ["4", "1", "2"])
    assert steps == [1, 2, 4]
    assert means["a"] is means["b"]
    assert torch.equal(means["a"], torch.full((2, 3), 7 / 3))
    assert means["c"].dtype == torch.float16
    shutil.rmtree(folder.folder_of(2))
    folder.save(2, {"a": weight, "b": weight.clone(), "c": weight.half()}, {}, {})
    with pytest.raises(CheckpointError, match="other tensors are tied"):
        mean_weights(folder, ["1", "2"])
