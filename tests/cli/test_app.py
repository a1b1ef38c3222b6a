"""How `nmt` starts and how it ends: help, version, errors in a line, exit codes, start-up."""

import errno
import os
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import nmt
from nmt.cli.app import Group
from nmt.errors import ConfigError, DataError

ROOT = Path(__file__).parents[2]
MODULE = [sys.executable, "-m", "nmt"]


ERRORS: dict[str, tuple[BaseException, int, str]] = {
    "config": (
        ConfigError("x.yaml:1: a: wrong\nx.yaml:2: b: wrong"),
        *(2, "error: x.yaml:1: a: wrong\nerror: x.yaml:2: b: wrong\n"),
    ),
    "data": (DataError("a.jsonl: got 'x\nerror: y'"), 2, "error: a.jsonl: got 'x\\nerror: y'\n"),
    "file": (FileNotFoundError(errno.ENOENT, "No file", "/a/b"), 2, "error: /a/b: No file\n"),
    "disk": (OSError(errno.ENOSPC, ""), 2, "error: No space left on device\n"),
    # What is said cannot steer a terminal, and line ends are ours alone.
    "odd": (
        ConfigError("a\x1b[31m\u2028\udcff\x00\u202f é\tb\nsecond"),
        *(2, "error: a\\x1b[31m\\u2028\\udcff\\x00\\u202f é\tb\nerror: second\n"),
    ),
    "memory": (RuntimeError("can't allocate memory\nat x.cpp"), 2, "error: out of memory; "),
    "interrupt": (KeyboardInterrupt(), 130, ""),
    "bug": (AssertionError("ours"), 1, ""),
}
"""An error, the exit code, and the beginning of stderr."""


@pytest.fixture
def toy() -> typer.Typer:
    """An app that ends with an error of ERRORS, run by the same Group as the real one."""
    toy = typer.Typer(cls=Group, rich_markup_mode=None, pretty_exceptions_enable=False)

    @toy.callback()
    def options(debug: bool = False) -> None:
        """Ways to end."""

    @toy.command()
    def end(how: str) -> None:
        raise ERRORS[how][0]

    return toy


@pytest.mark.parametrize("how", ERRORS)
def test_each_error_has_its_code_and_its_lines(toy: typer.Typer, how: str) -> None:
    _, code, stderr = ERRORS[how]
    result = CliRunner().invoke(toy, ["end", how])
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == stderr or (how == "memory" and result.stderr.startswith(stderr))
    assert result.stderr.count("\n") == stderr.count("\n") + (how == "memory")
    assert "Traceback" in CliRunner().invoke(toy, ["--debug", "end", "config"]).stderr


LIGHT = """
import sys
import nmt
from nmt.cli.app import app
dir(nmt)
for words in (['--version'], ['--help'], ['lab'], ['lab', '--help']):
    try:
        app(words, standalone_mode=False)
    except BaseException as end:
        print(type(end).__name__)
heavy = 'torch numpy sacrebleu matplotlib sentencepiece safetensors yaml tqdm rich'
print('loaded:', [name for name in heavy.split() if name in sys.modules])
"""


def ended(*command: object, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run a command in the root of the repository unless `cwd` says otherwise."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT, **options}
    return subprocess.run(command, check=False, timeout=300, **streams)  # type: ignore[call-overload, no-any-return]


def test_help_lists_and_refusals_import_nothing_heavy() -> None:
    result = ended(sys.executable, "-c", LIGHT)
    lines = result.stdout.decode().splitlines()
    assert lines[0] == f"nmt {nmt.__version__} (torch {metadata.version('torch')})"
    assert lines[-1] == "loaded: []", result.stderr


def test_python_m_nmt_is_nmt_for_any_name_and_console(tmp_path: Path) -> None:
    """A name that is no UTF-8 is shown; results and errors are UTF-8 whatever the console says."""
    folder, name = tmp_path / "mon café 1", "été – день 日.tsv"
    folder.mkdir()
    text = f"name: été\ndata: {{train: {{file: '{name}'}}}}\ntrain: {{steps: 1}}\n"
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "0", "LC_ALL": "C"}
    environment["PYTHONIOENCODING"] = "cp1252"
    done = ended(*MODULE, "config", "show", "a.yaml", cwd=folder, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert name in done.stdout.decode("utf-8")
    environment["PYTHONIOENCODING"] = "ascii"
    right = "x\x07.yaml"  # which cannot steer a terminal
    (folder / right).write_text("name: x\ndata: {corpus: starter}\ntrain: {epochs: 1}\n")
    names = (right, "a.yaml", b"/nowhere/\xff.yaml")
    done = ended(*MODULE, "config", "check", *names, cwd=folder, env=environment)
    assert (done.returncode, done.stdout) == (2, b"x\\u0007.yaml: valid\n")
    first, second = done.stderr.decode("utf-8").splitlines()
    assert name in first
    assert second == "error: /nowhere/\\udcff.yaml: no such file"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a Linux device")
def test_a_full_output_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        result = ended(*MODULE, "--version", stdout=full)
    assert (result.returncode, result.stderr) == (2, b"error: No space left on device\n")


CLOSED = """
import os, sys
from nmt.cli import app
app._open_standard_streams()
with open(sys.argv.pop(), 'wb', buffering=0) as file:
    assert file.fileno() > 2
    print('said'), print('said', file=sys.stderr), sys.stdin.read()
    app.main()
"""


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_leads_nowhere(tmp_path: Path, closed: str) -> None:
    """And into no file: the first one opened would get its number."""
    arguments = ["config", "check", "configs/starter.yaml", str(tmp_path / "file")]
    command = shlex.join([sys.executable, "-c", CLOSED, *arguments])
    result = ended("sh", "-c", f"exec {command} {closed}", stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").read_bytes() == b""
