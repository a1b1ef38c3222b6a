"""A command of nmt, with limits, in a child of this process that has its imports."""

import atexit
import contextlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt.cli import app
from nmt.device import process_bytes

CPU_SECONDS = 40
WALL_SECONDS = 60
_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC
DATA_BYTES = 2 << 30
"""Memory that a child may allocate beyond that of its parent, in bytes."""


@dataclass(frozen=True)
class Outcome:
    """The end of a command. `code` is its exit code, or minus the number of a fatal signal."""

    code: int
    stdout: str
    stderr: str
    max_rss: int
    hangs: bool


def run(
    command: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
) -> Outcome:
    """`nmt COMMAND` in `folder`."""
    logs = [folder.with_name(f"{folder.name}.{name}") for name in ("out", "err")]
    child = os.fork()
    if child == 0:
        files = [os.open(os.devnull, os.O_RDONLY), *(os.open(log, _NEW, 0o600) for log in logs)]
        _be(command, folder, environment, files)
    code, usage, hangs = _wait(child)
    out, err = (log.read_bytes().decode("utf-8", "surrogateescape") for log in logs)
    return Outcome(code, out, err, usage.ru_maxrss * 1024, hangs)


def _be(
    command: tuple[str, ...], folder: Path, environment: Mapping[str, str], streams: list[int]
) -> None:
    """Become the command; never returns."""
    code = 1
    atexit._clear()  # the parent's
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(folder)
        os.environ.update(environment)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        data = (process_bytes("VmData") or 0) + DATA_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (the parent's is closed)
        sys.argv = ["nmt", *command]
        app.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()  # os._exit does not
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait(child: int) -> tuple[int, resource.struct_rusage, bool]:
    end = time.monotonic() + WALL_SECONDS
    pause = 0.002
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code, usage, code in (-signal.SIGXCPU, -signal.SIGKILL)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return -signal.SIGKILL, usage, True
        time.sleep(pause)
        pause = min(0.05, 1.5 * pause)
