"""`nmt lab`: the list, the options, the files, and one line for what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.lab.experiments import EXPERIMENTS


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def nmt_lab(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lab", *arguments])


@pytest.mark.parametrize("arguments", [[], ["--list"]])
def test_without_a_name_it_lists_them_all(arguments: list[str]) -> None:
    lines = nmt_lab(*arguments).stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert all(line.endswith(f"  {EXPERIMENTS[line.split()[0]]}") for line in lines)


def test_the_list_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom nmt.cli.app import app\n"
        "app(['lab'], standalone_mode=False)\n"
        "assert not {'torch', 'numpy', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True)


def test_a_run_says_its_numbers_and_where_they_are() -> None:
    result = nmt_lab("masks")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-2:] == ["lab/masks.json", "lab/masks.png"]
    assert "padding: one length         48 of 64" in result.stdout
    found = json.loads(Path("lab/masks.json").read_text())
    assert found["experiment"] == "masks"
    assert found["options"]["size"] == 8
    assert {"nmt", "torch", "numpy"} <= set(found["versions"])
    assert Path("lab/masks.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_the_files_text_and_nothing_else() -> None:
    result = nmt_lab("masks", "--json", "--seed", "7", "--set", "size=4", "--out", "here/there")
    assert result.stdout == Path("here/there/masks.json").read_text()
    assert json.loads(result.stdout)["options"]["seed"] == 7
    assert json.loads(result.stdout)["options"]["size"] == 4


def test_options_are_listed_with_defaults_and_meaning() -> None:
    lines = nmt_lab("masks", "--options").stdout.splitlines()
    assert lines[0].split() == ["seed", "1", "seed", "of", "all", "chance"]
    assert any(line.split()[:3] == ["padding", "2", "places"] for line in lines)
    assert not Path("lab").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["positon"], "no experiment 'positon'; did you mean 'positions'?"),
        (["zzz"], f"no experiment 'zzz'; allowed: {', '.join(EXPERIMENTS)}"),
        (["zzz", "--options"], f"no experiment 'zzz'; allowed: {', '.join(EXPERIMENTS)}"),
        (
            ["positions", "--set", "sise=8"],
            "--set sise=8: sise: unknown key; did you mean 'size'?",
        ),
        (
            ["positions", "--set", "size=7"],
            "--set size=7: size: got 7, allowed: a multiple of 2",
        ),
        (["positions", "--set", "size"], "--set size: allowed: key=value, such as train.lr=3e-4"),
        (["positions", "--seed", "-1"], "--seed -1: seed: got -1, allowed: >= 0"),
        (["positions", "--out", "file"], "nmt lab: --out: "),
        (["positions", "--out", "file/x"], "cannot write into file/x: Not a directory"),
        (["masks", "--out", "full"], "cannot write full/masks.png: it is a folder"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments: list[str], message: str) -> None:
    Path("file").write_text("mine")
    Path("full/masks.png").mkdir(parents=True)
    result = nmt_lab(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1
    assert Path("file").read_text() == "mine"


def test_a_folder_that_may_not_be_written_is_said_before_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    result = nmt_lab("positions", "--out", "locked")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: cannot write into locked: no permission\n",
    )
    assert list(Path("locked").iterdir()) == []
