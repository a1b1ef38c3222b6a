"""A run reads its data from any folder: a path that is not here is one where the run was begun."""

import json
from pathlib import Path

import pytest
from training.toy import toy_config, write_reversal

from nmt.config import RunConfig
from nmt.corpora.text_files import archive_of
from nmt.runs.data_paths import with_found_paths
from nmt.runs.directory import RunDirectory
from nmt.runs.trained_run import TrainedRun
from nmt.settings.config_file import load_values
from nmt.training.loop import train

DATA = {"train": {"src": "t*.en", "tgt": "t.fr"}, "test": {"src": "x.en", "tgt": ["x.fr", "y.fr"]}}


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data and a run that was begun there; the current folder is another one."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    for name in ("t1.en", "t.fr", "x.en", "x.fr", "y.fr"):
        (home / name).write_text("a\n")
    RunDirectory.create(home / "run", config())
    (home / "run" / "run.json").write_text(json.dumps({"folder": str(home)}))
    monkeypatch.chdir(elsewhere)
    return home


def config(**sections: object) -> RunConfig:
    values = {"name": "x", "data": DATA, "train": {"steps": 1}, **sections}
    return load_values(values, RunConfig, "config")


def test_what_is_not_here_is_found_there(begun: Path) -> None:
    data = with_found_paths(config(), RunDirectory(begun / "run")).data
    assert (data.train.src, data.train.tgt) == (begun / "t*.en", begun / "t.fr")
    assert (data.test.src, data.test.tgt) == (begun / "x.en", (begun / "x.fr", begun / "y.fr"))
    assert data == TrainedRun.open(begun / "run").config.data


def test_what_is_here_is_taken_from_here(begun: Path) -> None:
    Path("x.en").write_text("b\n")
    test = with_found_paths(config(), RunDirectory(begun / "run")).data.test
    assert (test.src, test.tgt) == (Path("x.en"), (begun / "x.fr", begun / "y.fr"))


def test_what_is_nowhere_stays_as_it_was_written(begun: Path) -> None:
    (begun / "x.en").unlink()
    (begun / "t1.en").unlink()
    data = with_found_paths(config(), RunDirectory(begun / "run")).data
    assert (data.test.src, data.train.src) == (Path("x.en"), Path("t*.en"))
    assert archive_of(data.test.src) == Path("x.en")


@pytest.mark.parametrize("card", ['{"folder": "home"}', '{"folder": 3}', "{}", "[]", "{", None])
def test_a_card_without_the_folder_changes_nothing(begun: Path, card: str | None) -> None:
    (begun / "run" / "run.json").unlink()
    if card is not None:
        (begun / "run" / "run.json").write_text(card)
    assert with_found_paths(config(), RunDirectory(begun / "run")) == config()


def test_a_name_that_no_system_takes_is_nowhere(begun: Path) -> None:
    long = config(data={"train": {"src": "x" * 9999, "tgt": "\0"}})
    assert with_found_paths(long, RunDirectory(begun / "run")) == long


def test_a_training_goes_on_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    write_reversal(home, n_train=60, n_test=8)
    monkeypatch.chdir(home)
    train(toy_config(Path(), train={"steps": 2}), "run")
    monkeypatch.chdir(elsewhere)
    outcome = train(toy_config(Path(), train={"steps": 3}), home / "run")
    assert outcome.step == 3
    assert TrainedRun.open(home / "run").config.data.train.file == home / "train.tsv"
