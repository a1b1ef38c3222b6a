"""Laws of all commands that write: no file is lost that the user did not give up."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from attacks.outputs import LANGUAGES, OUT, RUN, WRITERS
from training.toy import copy_begun, toy_config, write_reversal
from typer.testing import CliRunner

from nmt.attention_maps.dump import write_jsonl, write_npz
from nmt.attention_maps.heatmap import write_heatmap, write_map, write_pages
from nmt.attention_maps.page import write_page
from nmt.cli.app import app
from nmt.cli.outputs import path_parameters
from nmt.config import dump_config
from nmt.errors import ConfigError, NMTError
from nmt.evaluation.score_report import report_path
from nmt.export.folder import exported
from nmt.inference.job import job_output
from nmt.lab.perform import perform
from nmt.runs.directory import RunDirectory
from nmt.runs.pack import pack
from nmt.runs.trained_run import TrainedRun
from nmt.storage.output import command_files
from nmt.training.curve import draw_curve, write_table
from nmt.training.loop import train
from nmt.training.report_page import write_report

FOLDERS = {
    ("lab", "out"): (("lab", "masks", "--out", "D"), "masks.json"),
    ("lab", "model"): (
        *(("lab", "captions", "--images", "D", "--captions", "some.txt", "--weights", "random"),),
        "captioner.yaml",
    ),
    ("vocab build", "out"): (("vocab", "build", "toy.yaml", "--out", "D"), "tokenizer.json"),
    ("export", "out"): (("export", "run", "--out", "D"), "manifest.json"),
}
"""By command and option: how the command writes into the folder D, and a file that it has there."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=60, n_test=5)
    config = toy_config(folder, train={"epochs": 1, "log_every": 1})
    train(config, folder / "run", quiet=True)
    (folder / "some.txt").write_text("b a\n")
    (folder / "toy.yaml").write_text(dump_config(config))
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run, its data in TSV files, and some.txt."""
    copy_begun(begun, tmp_path)
    for name in ("some.txt", "toy.yaml"):
        shutil.copy(begun / name, tmp_path)
    card = tmp_path / "run" / "run.json"
    card.write_text(card.read_text().replace(str(begun), str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def nmt(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def content(folder: Path) -> dict[str, bytes]:
    """All files by name."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def options_that_write() -> Iterator[tuple[str, str, bool]]:
    """Command, option, and whether the command has --force."""
    groups = [("", typer.main.get_command(app))]
    for prefix, group in groups:
        for name, each in group.commands.items():  # type: ignore[attr-defined]
            if hasattr(each, "commands"):
                groups.append((f"{name} ", each))
                continue
            has_force = any(parameter.name == "force" for parameter in each.params)
            for option, info in path_parameters(each.callback).items():
                if info.writable:
                    yield prefix + name, option, has_force


def test_every_option_that_writes_is_under_these_laws() -> None:
    found = list(options_that_write())
    assert {(command, option) for command, option, _ in found} == {*WRITERS, *FOLDERS}
    assert {command for command, _, has_force in found if not has_force} == {"export"}


def test_every_option_for_a_file_to_write_is_marked() -> None:
    """Else the class Command takes it for an input, and a new command is not guarded."""
    for name, each in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for one in getattr(each, "commands", {name: each}).values():
            for option, info in path_parameters(one.callback).items():
                writes = any(word in (info.help or "") for word in ("to write", "Write "))
                assert not writes or info.writable, (name, option)
                assert option != "out" or info.writable, name


def written(case: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(name if word == OUT else word for word in case)


@pytest.mark.parametrize("case", WRITERS.values(), ids=map(" ".join, WRITERS))
def test_a_file_is_replaced_with_force_only(case: tuple[str, ...], folder: Path) -> None:
    path = folder / "mine.csv"
    path.write_text("precious")
    before = content(folder)
    result = nmt(*written(case, "mine.csv"))
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert content(folder) == before
    result = nmt(*written(case, "mine.csv"), "--force")
    assert result.exit_code == 0, result.output
    assert path.read_text("latin-1") != "precious"
    assert {name for name in content(folder) if "eval" not in name} == {*before}


@pytest.mark.parametrize("case", WRITERS.values(), ids=map(" ".join, WRITERS))
def test_no_force_replaces_inputs_data_or_runs(case: tuple[str, ...], folder: Path) -> None:
    (folder / "link").symlink_to("train.tsv")
    (folder / "hard").hardlink_to("train.tsv")
    (folder / "within").symlink_to("run/samples")
    (folder / "run" / "notes.txt").write_text("precious")
    inputs = {"some.txt", "valid.tsv"} & {*case}
    before = content(folder)
    for name in (
        *inputs,
        *("./run/../train.tsv", "link", "hard", str(folder / "train.tsv")),
        *("run/config.yaml", "run/notes.txt", "run/eval/new.txt", "within/new"),
    ):
        result = nmt(*written(case, name), "--force")
        assert (result.exit_code, content(folder)) == (2, before), name
        assert "Traceback" not in result.output


@pytest.mark.parametrize("option", FOLDERS, ids=" ".join)
def test_nothing_is_written_over_in_a_folder(option: tuple[str, str], folder: Path) -> None:
    words, name = FOLDERS[option]
    (folder / "D" / "features").mkdir(parents=True)
    (folder / "D" / name).write_text("precious")
    more = ("--model", "D") if option == ("lab", "model") else ()
    before = content(folder)
    for _ in range(2):
        assert nmt(*words, *more).exit_code in (1, 2)
        assert content(folder) == before


@pytest.mark.parametrize("words", [("curve",), ("report",), ("runs", "pack", "run")])
def test_default_names_are_outputs_too(words: tuple[str, ...], folder: Path) -> None:
    for name in ("curve.png", "report.html", "run.zip"):
        (folder / name).write_text("precious")
    os.rename("run", "runs")
    Path("runs/run").mkdir()
    for path in [*Path("runs").iterdir()]:
        if path.name != "run":
            path.rename(Path("runs/run") / path.name)
    if words[0] == "runs":
        words = ("runs", "pack", "runs/run")
        Path("runs/run.zip").write_text("precious")
    before = content(folder)
    assert nmt(*words).exit_code == 2
    assert content(folder) == before


def test_two_outputs_of_one_command_are_two_files(folder: Path) -> None:
    (folder / "b").symlink_to("a")
    clean = ("corpus", "clean", "test.tsv", *LANGUAGES, "--force")
    for other in ("a", "./a", "b"):
        assert nmt(*clean, "--out", "a", "--rejected", other).exit_code == 2
    assert nmt("align", *RUN, "some.txt", "--out", "a", "--translations", "b").exit_code == 2
    assert not (folder / "a").exists()


def test_a_packed_run_is_an_input(folder: Path) -> None:
    assert nmt("runs", "pack", "run", "--out", "r.zip").exit_code == 0
    (folder / "run").rename(folder / "elsewhere")
    before = content(folder)
    for name in ("r.zip", "train.tsv"):
        assert nmt("translate", "--run", "r.zip", "a", "--out", name, "--force").exit_code == 2
    assert content(folder) == before


def test_a_curve_has_the_format_of_its_suffix(folder: Path) -> None:
    for name in ("curve.doc", "curve", "curve.en"):
        result = nmt("curve", *RUN, "--out", name)
        assert result.exit_code == 2
        assert ".svg" in result.stderr
        assert not (folder / name).exists()
    assert nmt("curve", *RUN, "--out", "/dev/null").exit_code == 0


def test_an_export_leaves_what_is_beside_it(folder: Path) -> None:
    (folder / ".tmp-model").mkdir()
    (folder / ".tmp-model" / "mine").write_text("precious")
    (folder / ".tmp-x.csv").write_text("precious")
    before = content(folder)
    with exported(TrainedRun.open("run"), "best", Path("model")):
        pass
    assert nmt("curve", *RUN, "--out", "x.csv").exit_code == 0
    assert before.items() <= content(folder).items()


@pytest.mark.parametrize("forced", [False, True])
def test_python_functions_obey_the_same_law(
    forced: bool, folder: Path, make_translation: Any
) -> None:
    run = TrainedRun.open("run")
    translation = make_translation()
    figure = draw_curve(run.path)
    writers = [
        lambda path, **force: write_heatmap(translation, path, **force),
        lambda path, **force: write_map(figure, path, **force),
        lambda path, **force: write_pages([figure], path, **force),
        lambda path, **force: write_jsonl([], path, **force),
        lambda path, **force: write_npz([], path, **force),
        lambda path, **force: write_page([], path, **force),
        lambda path, **force: write_table(run.path, path, **force),
        lambda path, **force: write_report(run, path, **force),
        lambda path, **force: pack(run.directory, "best", path, **force),
        lambda path, **force: perform("masks", [], path.parent, **force),
    ]
    for write in writers:
        path = folder / "masks.png"
        path.write_bytes(b"precious")
        data = (folder / "train.tsv").read_bytes()
        if forced:
            write(path, force=True)
            assert path.read_bytes() != b"precious"
            if write is not writers[-1]:
                with pytest.raises(NMTError):
                    write(folder / "train.tsv", force=True)
                with pytest.raises(NMTError):
                    write(run.directory.config_path, force=True)
        else:
            with pytest.raises(ConfigError, match="force"):
                write(path)
            assert path.read_bytes() == b"precious"
        assert (folder / "train.tsv").read_bytes() == data
    run.directory.load_config()


def test_a_file_that_appears_meanwhile_is_not_lost(folder: Path) -> None:
    out = folder / "x"

    def appearing() -> None:
        with job_output(out, None) as (write, _):
            write(b"line\n")
            out.write_text("precious")

    with pytest.raises(NMTError):
        appearing()
    assert out.read_text() == "precious"
    assert (folder / "x.nmt-part").read_bytes() == b"line\n"


def test_a_run_keeps_its_own_evaluations_without_force(folder: Path) -> None:
    for beam in ("1", "1"):
        assert nmt("eval", *RUN, "--no-bootstrap", "--beam", beam).exit_code == 0
    assert report_path(folder / "run", "test-beam1").is_file()


def test_force_ends_with_its_command(folder: Path) -> None:
    (folder / "x.csv").write_text("precious")
    with command_files({}, force=True):
        write_table(RunDirectory(folder / "run").path, folder / "x.csv")
    with pytest.raises(ConfigError):
        write_table(folder / "run", folder / "x.csv")


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--config", "toy.yaml", "--run", "run/checkpoints/mine"),
        ("corpus", "encode", "toy.yaml", "--set", "data.cache=c", "--run", "run/eval"),
        ("corpus", "encode", "toy.yaml", "--set", "data.cache=run/samples", "--run", "new"),
        ("corpus", "fetch", "multi30k", "--data", "run/tokenizer"),
        ("corpus", "encode", "toy.yaml", "--set", "data.cache=c", "--run", "folder"),
        ("average", "run", "--last", "1", "--name", "mine"),
    ],
)
def test_a_folder_of_something_else_stays(words: tuple[str, ...], folder: Path) -> None:
    vocabulary = folder / "folder" / "tokenizer" / "src.word.txt"
    notes = folder / "run" / "checkpoints" / "mine" / "notes.txt"
    for path in (vocabulary, notes):
        path.parent.mkdir(parents=True)
        path.write_text("precious")
    before = content(folder)
    assert nmt(*words).exit_code == 2
    assert content(folder).items() >= before.items()
    assert content(folder / "run").items() <= before.items()
