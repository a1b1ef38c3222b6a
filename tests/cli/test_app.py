"""How `nmt` starts and how it ends: help, version, errors in a line, exit codes, start-up."""

import errno
import os
import shlex
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import nmt
from nmt.cli import app as app_module
from nmt.cli.app import Group, app, main
from nmt.errors import ConfigError, DataError

ROOT = Path(__file__).parents[2]
COMMANDS = (
    *("train", "translate", "eval", "compare", "score", "attention", "average", "curve", "export"),
    *("lab", "bench", "doctor", "corpus", "vocab", "config", "tune", "runs"),
    *("report", "serve", "align", "lexicon", "card"),
)


def nmt_process(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nmt", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )


@pytest.fixture
def toy() -> typer.Typer:
    """An app that ends in every way, run by the same Group as the real one."""
    toy = typer.Typer(cls=Group, rich_markup_mode=None, pretty_exceptions_enable=False)

    @toy.callback()
    def options(debug: bool = False) -> None:
        """Ways to end."""

    @toy.command()
    def end(how: str) -> None:
        if how == "config":
            raise ConfigError("x.yaml:1: a: wrong\nx.yaml:2: b: wrong")
        if how == "data":
            raise DataError("a.jsonl: got 'x\nerror: y'")
        if how == "file":
            Path("/nowhere/at/all").read_text()
        if how == "disk":
            raise OSError(errno.ENOSPC, "No space left on device")
        if how == "odd":
            raise ConfigError("a\x1b[31m\u2028\udcff\x00\u202f é\tb\nsecond")
        if how == "memory":
            raise RuntimeError("can't allocate memory: 9 bytes\nat alloc.cpp")
        if how == "bug":
            raise AssertionError("ours")
        if how == "interrupt":
            raise KeyboardInterrupt
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
        (
            "memory",
            2,
            "error: out of memory; a smaller beam, batch or model needs less: "
            "can't allocate memory: 9 bytes\n",
        ),
        ("interrupt", 130, ""),
    ],
)
def test_each_end_has_its_code_and_words(
    toy: typer.Typer, how: str, code: int, stderr: str
) -> None:
    result = CliRunner().invoke(toy, ["end", how])
    assert (result.exit_code, result.stderr) == (code, stderr)
    assert result.stdout == ("done\n" if how == "well" else "")


def test_what_is_said_cannot_steer_a_terminal(toy: typer.Typer) -> None:
    """A file's name or a server's words are shown, never obeyed; line ends are ours alone."""
    result = CliRunner().invoke(toy, ["end", "odd"])
    assert result.exit_code == 2
    expected = "error: a\\x1b[31m\\u2028\\udcff\\x00\\u202f é\tb\nerror: second\n"
    assert result.stderr == expected


def test_a_name_that_is_no_utf_8_is_shown_and_is_kept() -> None:
    command = [sys.executable, "-m", "nmt", "config", "check", b"/nowhere/\xff.yaml"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"error: /nowhere/\\udcff.yaml: no such file\n"


def test_a_fault_of_ours_keeps_its_traceback(toy: typer.Typer) -> None:
    result = CliRunner().invoke(toy, ["end", "bug"])
    assert isinstance(result.exception, AssertionError)


def test_debug_shows_the_traceback_too(toy: typer.Typer) -> None:
    result = CliRunner().invoke(toy, ["--debug", "end", "config"])
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("error: x.yaml:1: a: wrong\nerror: x.yaml:2: b: wrong\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command(flag: str) -> None:
    result = CliRunner().invoke(app, [flag])
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in result.stdout
        assert CliRunner().invoke(app, [command, flag]).exit_code == 0


def test_version() -> None:
    words = f"nmt {nmt.__version__} (torch {metadata.version('torch')})\n"
    assert CliRunner().invoke(app, ["--version"]).stdout == words
    code = "import sys, nmt.cli.app as a\ntry: a.app(['--version'])\nexcept SystemExit: pass\n"
    loaded = [sys.executable, "-c", f"{code}assert 'torch' not in sys.modules"]
    subprocess.run(loaded, check=True, timeout=60, cwd=ROOT)


@pytest.mark.parametrize(
    ("typed", "passed"),
    [
        (["config", "check", "x", "--debug"], ["--debug", "config", "check", "x"]),
        (["translate", "--", "--debug"], ["translate", "--", "--debug"]),
        (["translate", "--debug", "--", "x"], ["--debug", "translate", "--", "x"]),
    ],
)
def test_debug_may_stand_anywhere_among_the_options(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], passed: list[str]
) -> None:
    got = []
    for name in ("argv", "stdin", "stdout", "stderr"):  # main puts its own streams there
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setattr(sys, "argv", ["nmt", *typed])
    monkeypatch.setattr(app_module, "app", lambda arguments, prog_name: got.append(arguments))
    main()
    assert got == [passed]


def test_python_m_nmt_is_nmt() -> None:
    result = nmt_process("config", "check", "no/such.yaml")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: no/such.yaml: no such file\n"


def test_a_closed_pipe_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "nmt", "config", "show", "configs/starter.yaml"],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    os.close(writing)
    assert result.returncode == 128 + signal.SIGPIPE
    assert result.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a Linux device")
@pytest.mark.parametrize("command", ["--version", "config list"])
def test_a_full_output_is_one_line(command: str) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "nmt", *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            cwd=ROOT,
        )
    assert (result.returncode, result.stderr) == (2, b"error: No space left on device\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
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
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").read_bytes() == b""


def test_help_imports_nothing_heavy() -> None:
    heavy = "torch sacrebleu matplotlib sentencepiece safetensors yaml tqdm rich"
    code = (
        "import sys\n"
        "from nmt.cli.app import app\n"
        "try:\n    app(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        f"print('loaded:', [name for name in '{heavy}'.split() if name in sys.modules])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert result.stdout.splitlines()[-1] == "loaded: []", result.stderr
