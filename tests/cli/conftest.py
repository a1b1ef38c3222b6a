"""The runs that the tests of commands share."""

import shutil
from pathlib import Path

import pytest
from cli.helpers import ENGLISH, FRENCH, brief_config, untrained_run, write_lines
from training.toy import copy_begun, write_reversal

from nmt.config import dump_config
from nmt.training.loop import train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a brief training in `run`, its data, and toy.yaml; not to be changed."""
    folder = tmp_path_factory.mktemp("trained")
    write_reversal(folder, n_train=60, n_test=5)
    config = brief_config(folder)
    train(config, folder / "run", ["nmt", "train"], quiet=True)
    (folder / "toy.yaml").write_text(dump_config(config), encoding="utf-8")
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, a copy of `trained` with some.txt."""
    copy_begun(trained, tmp_path)
    shutil.copy(trained / "toy.yaml", tmp_path)
    (tmp_path / "some.txt").write_text("b a\n")
    card = tmp_path / "run" / "run.json"
    card.write_text(card.read_text().replace(str(trained), str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files en, fr and de, and runs of untrained models; not to be changed."""
    home = tmp_path_factory.mktemp("untrained")
    for name, lines in (("en", ENGLISH), ("fr", FRENCH), ("de", FRENCH)):
        write_lines(home / name, lines)
    untrained_run(home, "tiny")
    untrained_run(home, "two", seeds=(7, 8))
    untrained_run(home, "back", "fr", "en", seeds=(9, 9))
    untrained_run(home, "german", "en", "de", seeds=(10, 10))
    return home


@pytest.fixture
def home(untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files and in `runs` the run `tiny` alone, to be changed."""
    shutil.copytree(untrained / "runs" / "tiny", tmp_path / "runs" / "tiny")
    for name in ("en", "fr"):
        shutil.copy(untrained / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
