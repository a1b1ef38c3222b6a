"""Output files that the user names: complete or absent, and errors of one line."""

import contextlib
import contextvars
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from nmt.errors import ConfigError, DataError
from nmt.storage.atomic import ASIDE, part_stream, replacing, sync, utf8
from nmt.storage.run_files import check_outside_runs

STDIN_OR_STDOUT = Path("-")
"""A path that stands for stdin where a file is read, and for stdout where one is written."""


@dataclass(frozen=True)
class _Command:
    """The input files of a command, by name, and whether it replaces files that exist."""

    inputs: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    force: bool = False


_NO_COMMAND = _Command()
_command = contextvars.ContextVar("_command", default=_NO_COMMAND)


@contextlib.contextmanager
def command_files(inputs: Mapping[str, Sequence[Path]], force: bool) -> Iterator[None]:
    """Within this block no output replaces one of `inputs`; with `force` it may replace others."""
    outer = _command.get()
    token = _command.set(_Command({**outer.inputs, **inputs}, outer.force or force))
    try:
        yield
    finally:
        _command.reset(token)


@contextlib.contextmanager
def atomic_output(path: Path, force: bool = False) -> Iterator[BinaryIO]:
    """A stream whose bytes become the file `path` when the block ends without an error.

    `path` must be new unless `force`. Folders are made if need be; after an error or Ctrl-C `path`
    is as it was. A link is followed, and what is not a regular file (a pipe, a device, `-` for
    stdout) is written directly. Raises ConfigError as `check_output` does, and DataError where
    `path` cannot be written: before the block begins if that can be known then.
    """
    with output_errors(path):
        check_output(path, force=force)
    with written_whole(path, is_new=not may_replace(force)) as stream:
        yield stream


@contextlib.contextmanager
def written_whole(path: Path, is_new: bool = False) -> Iterator[BinaryIO]:
    """The stream of `atomic_output`, for any `path`: also for a file in a run directory."""
    with output_errors(path):
        if path == STDIN_OR_STDOUT:
            sys.stdout.flush()
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        if is_direct(path):
            with path.open("wb") as stream:
                yield stream
            return
        place = place_of(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own: several commands may write `path` at once, and the last one wins.
        aside = place.with_name(f"{ASIDE}{place.name}.{secrets.token_hex(4)}")
        with replacing(place, aside, is_new), part_stream(aside, append=False) as stream:
            _keep_mode(stream.fileno(), place)
            yield stream
            stream.flush()
            sync(stream.fileno())


def write_lines(lines: Iterable[str], path: Path, force: bool = False) -> None:
    """Write the lines, as they come, to a UTF-8 file that appears at the end: `atomic_output`."""
    with atomic_output(path, force) as stream:
        for line in lines:
            stream.write(utf8(f"{line}\n"))


def is_direct(path: Path) -> bool:
    """Whether `path` is written directly, because no file can replace it.

    This holds for a pipe, a device, `-`, and the system's names of open files, such as
    `/dev/stdout` and the path that a shell puts for `>(command)`.
    """
    if path == STDIN_OR_STDOUT:
        return True
    folder = os.path.realpath(path.parent)
    if folder in ("/dev", "/dev/fd") or folder.startswith("/proc/"):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def place_of(path: Path) -> Path:
    """The file that `path` means, with its links followed.

    Raises DataError for a folder, and for links in a circle.
    """
    if path.is_dir():
        raise DataError(f"cannot write {path}: it is a folder; give the name of a file")
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise DataError(f"cannot write {path}: a link in a circle; give the name of a file")
    return place


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Raise DataError for an OSError about `path` or its folders.

    BrokenPipeError, for a closed pipe, is passed on: it ends a command quietly.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        name = None if error.filename is None else Path(os.fsdecode(error.filename))
        place = Path(os.path.realpath(path))
        if name not in (None, path, place, *path.parents, *place.parents):
            raise
        raise DataError(f"cannot write {path}: {error.strerror}") from error


def _keep_mode(descriptor: int, place: Path) -> None:
    """Give an open file the permissions of `place`, which it replaces, if that exists."""
    if hasattr(os, "fchmod"):  # not on Windows
        with contextlib.suppress(OSError):  # absent, or another user's
            os.fchmod(descriptor, stat.S_IMODE(place.stat().st_mode))


def may_replace(force: bool) -> bool:
    """Whether outputs replace files that exist: by `force`, or in a command that has --force."""
    return force or _command.get().force


def check_output(out: Path, name: str = "`out`", force: bool = False) -> None:
    """Raise ConfigError if an output at `out` would replace a file that is to stay.

    These are the inputs of the running command, as in `check_apart`; files of runs
    (nmt/storage/run_files.py); and, without `force`, any file that exists.
    """
    check_apart(out, _command.get().inputs, name)
    if is_direct(out):
        return
    place = place_of(out)
    check_outside_runs(out, name)
    if os.path.lexists(place) and not may_replace(force):
        raise ConfigError(f"{out}: is there already; `force` replaces it, or `out` another file")


def check_apart(out: Path, inputs: Mapping[str, Iterable[Path]], name: str = "`out`") -> None:
    """Raise ConfigError if `out` is a file that a command reads.

    `name` is what the message calls `out`; `inputs` are the files by what it calls them. Files
    are compared, not paths: a link to an input is that input.
    """
    status = _status(out, "stdout")
    if status is None or not stat.S_ISREG(status.st_mode):
        return
    for input_name, paths in inputs.items():
        for path in paths:
            other = _status(path, "stdin")
            if other is not None and os.path.samestat(status, other):
                what = "stdout" if out == STDIN_OR_STDOUT else str(out)
                raise ConfigError(
                    f"{name}: {what} is read as well ({input_name}: {path}); "
                    "one of the two must be another file"
                )


def _status(path: Path, standard: Literal["stdin", "stdout"]) -> os.stat_result | None:
    """The status of the file at `path`, or of the `standard` stream for `-`; None if absent."""
    try:
        if path == STDIN_OR_STDOUT:
            return os.fstat(getattr(sys, standard).fileno())
        return path.stat()
    except (OSError, ValueError):  # absent; or a stream without a descriptor
        return None
