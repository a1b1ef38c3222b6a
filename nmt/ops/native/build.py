"""C++ compiled for this machine's processor when it is first needed, and kept for later."""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

from nmt.storage.atomic import flush, write_bytes

_FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-fvisibility=hidden",
)
_SECONDS = 120
"""For each of the two steps of a compilation; it takes about seven."""

_DIGEST_BYTES = hashlib.sha256().digest_size
_SCRATCH = "making-"
"""How the name of a compilation's folder begins."""

SWITCH = "NMT_CPU_KERNELS"
"""The environment variable that, set to `off`, keeps anything from being compiled or loaded."""


class Built:
    """A library, or why there is none."""

    def __init__(self, library: ctypes.CDLL | None, why_not: str = "") -> None:
        self.library = library
        self.why_not = why_not


@functools.cache
def built(source: Path, *defined: str, functions: tuple[str, ...] = ()) -> Built:
    """The library made of a C++ file, compiled unless it was before; once a process.

    `defined` are what it finds defined, as NAME=VALUE; `functions` are the names that it must have.

    By `$CXX` or else `c++`, into `$XDG_CACHE_HOME/nmt` or else `~/.cache/nmt`, under a name that
    depends on the file, the headers beside it, the flags and the processor. Its checksum stands
    at its end, and it is loaded only if that is right. Its OpenMP is the one that torch has
    loaded, so that both share their threads. Only on Linux.
    """
    return _found(source, defined, functions, compiles=True)


def built_before(source: Path, *defined: str, functions: tuple[str, ...] = ()) -> Built:
    """The same, but nothing is compiled: what is kept of an earlier call, of whatever process."""
    return _found(source, defined, functions, compiles=False)


def _found(
    source: Path, defined: tuple[str, ...], functions: tuple[str, ...], compiles: bool
) -> Built:
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "no", "false"):
        return Built(None, f"{SWITCH} is off")
    if platform.system() != "Linux":
        return Built(None, "compiled on Linux only")
    try:
        command = shlex.split(os.environ.get("CXX") or "c++") or ["c++"]
    except ValueError as error:
        return Built(None, f"CXX: {error}")
    flags = [*_FLAGS, *(f"-D{one}" for one in defined)]
    texts = [path.read_text() for path in (source, *sorted(source.parent.glob("*.h")))]
    key = [*texts, *flags, _processor()]
    name = f"{source.stem}-{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.so"
    try:
        with contextlib.ExitStack() as stack:
            folder = _private_cache()
            found = _loaded(folder / name, functions) if folder else None
            if found or not compiles:
                return Built(found, "" if found else "not compiled so far")
            if folder is None or not os.access(folder, os.W_OK):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nmt-")))
            _remove_abandoned(folder)
            return Built(_compiled(command, flags, source, folder / name, functions))
    except FileNotFoundError:
        return Built(None, f"no C++ compiler, '{command[0]}'")
    except subprocess.TimeoutExpired:
        return Built(None, f"'{command[0]}' took longer than {_SECONDS} s")
    except subprocess.CalledProcessError as error:
        return Built(None, f"'{command[0]}' failed: {_first_line(error.stderr)}")
    except OSError as error:
        return Built(None, str(error))


def _loaded(path: Path, functions: tuple[str, ...]) -> ctypes.CDLL | None:
    """None where there is no such library, or it was changed since it was written."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[:-_DIGEST_BYTES]).digest() != content[-_DIGEST_BYTES:]:
            return None  # to map a file that was cut short ends the process
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    return library if all(hasattr(library, name) for name in functions) else None


def _compiled(
    command: list[str], flags: list[str], source: Path, path: Path, functions: tuple[str, ...]
) -> ctypes.CDLL:
    """Under its name whole or not at all, whoever else does the same at the same time."""
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=path.parent) as scratch:
        made, linked, kept = (Path(scratch) / name for name in ("made.o", "linked.so", path.name))
        # Linked apart and without -fopenmp: a second OpenMP would bring threads of its own.
        for step in (
            [*command, *flags, "-c", str(source), "-o", str(made)],
            [*command, "-shared", str(made), "-o", str(linked)],
        ):
            subprocess.run(  # noqa: S603  # the user's own compiler
                step,
                check=True,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_SECONDS,
            )
        content = linked.read_bytes()
        write_bytes(kept, content + hashlib.sha256(content).digest())  # ELF allows bytes at its end
        loaded = ctypes.CDLL(str(kept))  # what does not load is not kept
        for name in functions:
            if not hasattr(loaded, name):
                raise OSError(f"'{command[0]}' made a library without '{name}'")
        os.replace(kept, path)
        flush(path.parent)
    return loaded


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed compilations left: folders older than any compilation takes."""
    for scratch in folder.glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):
            if time.time() - scratch.stat().st_mtime > 2 * _SECONDS:
                shutil.rmtree(scratch)


def _private_cache() -> Path | None:
    """The folder for what is kept; None where it cannot be made or others may write to it.

    A relative `$XDG_CACHE_HOME` counts as none, as its specification asks: what is loaded must not
    depend on the folder that one works in.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(os.path.expanduser("~/.cache"))  # stays as it is for a user without a home
    folder = base / "nmt"
    if not folder.is_absolute():
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    others = stat.S_IWGRP | stat.S_IWOTH
    own = found.st_uid == os.getuid() and not found.st_mode & others
    return folder if own else None


def _processor() -> str:
    """What -march=native depends on: a home folder may be shared between machines."""
    wanted = ("model name", "flags", "Features", "CPU part")
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        lines = [platform.processor()]
    return repr([platform.machine(), *(line for line in lines if line.startswith(wanted))])


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines()
    return lines[0].strip() if lines else "no message"
