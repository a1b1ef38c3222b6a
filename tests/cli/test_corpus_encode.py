"""`nmt corpus encode` as typed: shards by jobs, then a training that reads them."""

import random
from pathlib import Path

import pytest
from click.testing import Result
from training.toy import last_checkpoint, toy_config, write_reversal
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import dump_config
from nmt.data import encoded_cache


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoded_cache, "BLOCK_PAIRS", 16)
    write_reversal(tmp_path, n_train=100, n_test=5)
    config = toy_config(Path(), data={"cache": "cache"}, train={"epochs": 1})
    Path("toy.yaml").write_text(dump_config(config))


def nmt(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def encode(*arguments: str) -> Result:
    return nmt("corpus", "encode", "toy.yaml", "--run", "run", *arguments)


def error_of(result: Result) -> str:
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


def train(run: str, *arguments: str) -> Result:
    return nmt("train", "--config", "toy.yaml", "--run", run, "--quiet", *arguments)


def test_jobs_in_any_order_then_a_training_from_their_shards() -> None:
    assert nmt("vocab", "build", "toy.yaml", "--out", "run/tokenizer").exit_code == 0
    numbers = [1, 2, 3, 4]
    random.Random(2).shuffle(numbers)
    missing = numbers.pop()
    for number in numbers:
        found = encode("--shard", f"{number}/4")
        assert found.exit_code == 0, found.output
        assert Path(found.stdout.strip()).name == f"0000{number}-of-00004.ids"
    shown = encode("--status").stdout.splitlines()
    assert shown[0].endswith(": 3 of 4 shards are there")
    assert shown[1:] == [f"  {missing}/4: missing"]
    error = error_of(train("run"))
    folder = next(Path("cache").glob("train-*"))
    assert error == (
        f"{folder}/0000{missing}-of-00004.ids: missing; make it with: nmt corpus encode "
        f"--config run/config.yaml --run run --shard {missing}/4"
    )
    again = nmt(*error.partition("make it with: nmt ")[2].split())
    assert again.exit_code == 0, again.output
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert "there already, and sound" in encode("--shard", "2/4").stderr
    assert train("run").exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert train("memory", "--set", "data.cache=null").exit_code == 0
    ours, theirs = (last_checkpoint(Path(run)).model_tensors for run in ("run", "memory"))
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_all_of_it_at_once_learns_the_vocabularies_too() -> None:
    assert encode().exit_code == 0
    assert encode("--status").stdout.endswith(": 1 of 1 shards are there\n")
    assert Path("run/tokenizer/tokenizer.json").is_file()
    error = error_of(encode("--shard", "1/2"))
    assert "got 2 shards, but it was begun in 1" in error


def test_status_of_what_is_not_begun() -> None:
    assert nmt("vocab", "build", "toy.yaml", "--out", "run/tokenizer").exit_code == 0
    assert encode("--status").stdout.endswith(": not begun\n")


def test_shards_need_vocabularies_first() -> None:
    error = error_of(encode("--shard", "1/2"))
    assert error == (
        "run/tokenizer: no vocabularies, and shards need them first; learn them with: "
        "nmt vocab build --config toy.yaml --out run/tokenizer"
    )
    assert not Path("cache").exists()


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3", "-1/2", "1/100000"])
def test_shards_that_are_none(shard: str) -> None:
    error = error_of(encode(f"--shard={shard}"))
    assert error.startswith(f"--shard: got {shard!r}, allowed: I/N with I from 1 to N")


def test_a_config_without_a_folder() -> None:
    error = error_of(encode("--set", "data.cache=null"))
    assert error.startswith("toy.yaml: data.cache: missing; name the folder")
