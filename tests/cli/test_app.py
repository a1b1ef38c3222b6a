"""How `nmt` starts and how it ends: help, version, errors in a line, exit codes, start-up."""

import errno
import os
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import nmt
from nmt.cli.app import Group
from nmt.errors import ConfigError, DataError

ROOT = Path(__file__).parents[2]
MODULE = [sys.executable, "-m", "nmt"]


@pytest.fixture
def toy() -> typer.Typer:
    """An app that ends in every way, run by the same Group as the real one."""
    toy = typer.Typer(cls=Group, rich_markup_mode=None, pretty_exceptions_enable=False)

    @toy.callback()
    def options(debug: bool = False) -> None:
        """Ways to end."""

    @toy.command()
    def end(how: str) -> None:
        if how == "file":
            Path("/nowhere/at/all").read_text()
        errors: dict[str, BaseException] = {
            "config": ConfigError("x.yaml:1: a: wrong\nx.yaml:2: b: wrong"),
            "data": DataError("a.jsonl: got 'x\nerror: y'"),
            "disk": OSError(errno.ENOSPC, "No space left on device"),
            "odd": ConfigError("a\x1b[31m\u2028\udcff\x00\u202f é\tb\nsecond"),
            "memory": RuntimeError("can't allocate memory: 9 bytes\nat alloc.cpp"),
            "bug": AssertionError("ours"),
            "interrupt": KeyboardInterrupt(),
        }
        if how in errors:
            raise errors[how]
        typer.echo("done")

    return toy


@pytest.mark.parametrize(
    ("how", "code", "stderr"),
    [
        ("well", 0, ""),
        ("config", 2, "error: x.yaml:1: a: wrong\nerror: x.yaml:2: b: wrong\n"),
        ("data", 2, "error: a.jsonl: got 'x\\nerror: y'\n"),
        ("file", 2, "error: /nowhere/at/all: No such file or directory\n"),
        ("disk", 2, "error: No space left on device\n"),
        # What is said cannot steer a terminal, and line ends are ours alone.
        ("odd", 2, "error: a\\x1b[31m\\u2028\\udcff\\x00\\u202f é\tb\nerror: second\n"),
        ("interrupt", 130, ""),
    ],
)
def test_each_end_has_its_code_and_words(
    toy: typer.Typer, how: str, code: int, stderr: str
) -> None:
    result = CliRunner().invoke(toy, ["end", how])
    assert (result.exit_code, result.stderr) == (code, stderr)
    assert result.stdout == ("done\n" if how == "well" else "")


def test_ends_that_say_more(toy: typer.Typer) -> None:
    result = CliRunner().invoke(toy, ["end", "memory"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: out of memory; ")
    assert result.stderr.endswith(": can't allocate memory: 9 bytes\n")
    assert isinstance(CliRunner().invoke(toy, ["end", "bug"]).exception, AssertionError)
    result = CliRunner().invoke(toy, ["--debug", "end", "config"])
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("error: x.yaml:1: a: wrong\nerror: x.yaml:2: b: wrong\n")


LIGHT = """
import sys
from nmt.cli.app import app
for words in (['--version'], ['--help'], ['lab'], ['lab', '--help']):
    try:
        app(words, standalone_mode=False)
    except BaseException as end:
        print(type(end).__name__)
heavy = 'torch numpy sacrebleu matplotlib sentencepiece safetensors yaml tqdm rich'
print('loaded:', [name for name in heavy.split() if name in sys.modules])
"""


def test_help_lists_and_refusals_import_nothing_heavy() -> None:
    result = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    lines = result.stdout.splitlines()
    assert lines[0] == f"nmt {nmt.__version__} (torch {metadata.version('torch')})"
    assert lines[-1] == "loaded: []", result.stderr


def test_python_m_nmt_is_nmt_for_any_name_and_console(tmp_path: Path) -> None:
    """A name that is no UTF-8 is shown; results and errors are UTF-8 whatever the console says."""
    done = subprocess.run(
        [*MODULE, "config", "check", b"/nowhere/\xff.yaml"],
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"error: /nowhere/\\udcff.yaml: no such file\n"
    folder, name = tmp_path / "mon café 1", "été – день 日.tsv"
    folder.mkdir()
    text = f"name: été\ndata: {{train: {{file: '{name}'}}}}\ntrain: {{steps: 1}}\n"
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    for encoding, command, code in (("cp1252", "show", 0), ("ascii", "check", 2)):
        variables = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
        done = subprocess.run(
            [*MODULE, "config", command, "a.yaml"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            capture_output=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert name in (done.stderr if code else done.stdout).decode("utf-8")
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a Linux device")
def test_a_full_output_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*MODULE, "--version"], stdout=full, stderr=subprocess.PIPE, check=False, cwd=ROOT
        )
    assert (result.returncode, result.stderr) == (2, b"error: No space left on device\n")


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_leads_nowhere(tmp_path: Path, closed: str) -> None:
    """And into no file: the first one opened would get its number."""
    program = (
        "import os, sys\n"
        "from nmt.cli import app\n"
        "app._open_standard_streams()\n"
        "with open(sys.argv.pop(), 'wb', buffering=0) as file:\n"
        "    assert file.fileno() > 2\n"
        "    print('said'), print('said', file=sys.stderr), sys.stdin.read()\n"
        "    app.main()\n"
    )
    arguments = ["config", "check", "configs/starter.yaml", str(tmp_path / "file")]
    command = shlex.join([sys.executable, "-c", program, *arguments])
    result = subprocess.run(
        ["sh", "-c", f"exec {command} {closed}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").read_bytes() == b""
