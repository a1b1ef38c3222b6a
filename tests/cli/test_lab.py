"""`nmt lab`: the list, the options, the files, and one line for what is wrong."""

import json
from pathlib import Path

import pytest
from cli.helpers import nmt

from nmt.lab.experiments import EXPERIMENTS


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_a_name_it_lists_them_all() -> None:
    lines = nmt("lab").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert all(line.endswith(f"  {EXPERIMENTS[line.split()[0]]}") for line in lines)


def test_a_run_says_its_numbers_and_where_they_are() -> None:
    result = nmt("lab", "masks")
    assert result.stdout.splitlines()[-2:] == ["lab/masks.json", "lab/masks.png"]
    assert "weight on masked positions" in result.stdout
    content = json.loads(Path("lab/masks.json").read_text())
    assert (content["experiment"], content["options"]["size"]) == ("masks", 8)
    assert {"nmt", "torch", "numpy"} <= set(content["versions"])
    assert Path("lab/masks.png").read_bytes().startswith(b"\x89PNG")
    result = nmt("lab", "masks", "--json", "--seed", "7", "--set", "size=4", "--out", "here/there")
    assert result.stdout == Path("here/there/masks.json").read_text()
    options = json.loads(result.stdout)["options"]
    assert (options["seed"], options["size"]) == (7, 4)
