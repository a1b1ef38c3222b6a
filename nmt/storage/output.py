"""Output files named by the user: written atomically, with errors of one line."""

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
from nmt.storage.atomic import ASIDE, encode_utf8, open_no_follow, replacing, sync
from nmt.storage.run_files import check_outside_runs

STDIN_OR_STDOUT = Path("-")  # the path that means stdin for an input and stdout for an output


@dataclass(frozen=True)
class _Command:
    """The input files of a command, by option, and whether it may overwrite existing files."""

    inputs: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    force: bool = False


_command = contextvars.ContextVar("_command", default=_Command())  # noqa: B039 - frozen


@contextlib.contextmanager
def command_files(inputs: Mapping[str, Sequence[Path]], force: bool) -> Iterator[None]:
    """Within this block, protect input files from being overwritten by `atomic_output`.

    `inputs` maps the name of an option to its files. `force` allows overwriting all other files.
    """
    outer = _command.get()
    token = _command.set(_Command({**outer.inputs, **inputs}, outer.force or force))
    try:
        yield
    finally:
        _command.reset(token)


@contextlib.contextmanager
def atomic_output(path: Path, force: bool = False) -> Iterator[BinaryIO]:
    """Yield a stream whose content becomes the file `path` when the block ends without an error.

    After an error or Ctrl-C `path` is unchanged. `path` must not exist unless `force` is set.
    Missing folders are created and links are followed. A pipe, a device or `-` (stdout) is written
    directly. Raises the errors of `check_output`, and DataError if `path` cannot be written.
    """
    with output_errors(path):
        check_output(path, force=force)
    with atomic_stream(path, is_new=not may_replace(force)) as stream:
        yield stream


@contextlib.contextmanager
def atomic_stream(path: Path, is_new: bool = False) -> Iterator[BinaryIO]:
    """Yield a stream as `atomic_output` does, but without calling `check_output`.

    For files in a run directory, which `check_output` refuses. If `is_new`, raises DataError if the
    file exists at the end of the block. Pipes, devices and `-` ignore `is_new`.
    """
    with output_errors(path):
        if path == STDIN_OR_STDOUT:
            sys.stdout.flush()
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        if is_written_directly(path):
            with path.open("wb") as stream:
                yield stream
            return
        target = follow_links(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        # A random name: several commands may write `path` at once, and the last one wins.
        aside = target.with_name(f"{ASIDE}{target.name}.{secrets.token_hex(4)}")
        with replacing(target, aside, is_new), open_no_follow(aside, append=False) as stream:
            if hasattr(os, "fchmod"):  # not on Windows
                with contextlib.suppress(OSError):  # `target` is missing or another user owns it
                    os.fchmod(stream.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield stream
            stream.flush()
            sync(stream.fileno())


def write_lines(lines: Iterable[str], path: Path, force: bool = False) -> None:
    """Write lines, one at a time, to a UTF-8 file with `atomic_output`."""
    with atomic_output(path, force) as stream:
        stream.writelines(encode_utf8(f"{line}\n") for line in lines)


def is_written_directly(path: Path) -> bool:
    """Return whether `path` must be written directly, because it cannot be replaced by a rename.

    Such paths are pipes, devices, `-`, and names of open descriptors, such as `/dev/stdout` or the
    path that a shell substitutes for `>(command)`.
    """
    if path == STDIN_OR_STDOUT:
        return True
    folder = os.path.realpath(path.parent)
    if folder in ("/dev", "/dev/fd") or folder.startswith("/proc/"):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def follow_links(path: Path) -> Path:
    """Return the file at the end of the links. Raises DataError for a folder or a loop of links."""
    if path.is_dir():
        raise DataError(f"cannot write {path}: it is a folder; give the name of a file")
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise DataError(f"cannot write {path}: a loop of links; give the name of a file")
    return target


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Convert an OSError about `path` or its parent folders in this block to a DataError.

    BrokenPipeError (a closed pipe) is not converted: it ends a command without a message.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        name = None if error.filename is None else Path(os.fsdecode(error.filename))
        target = Path(os.path.realpath(path))
        if name not in (None, path, target, *path.parents, *target.parents):
            raise
        if isinstance(error, FileExistsError) and name not in (path, target):
            raise DataError(f"cannot write {path}: {name} is a file, not a folder") from error
        raise DataError(f"cannot write {path}: {error.strerror}") from error


def may_replace(force: bool) -> bool:
    """Return whether an output may replace a file, due to `force` or the --force of the command."""
    return force or _command.get().force


def check_output(out: Path, name: str = "`out`", force: bool = False) -> None:
    """Raise ConfigError if an output at `out` would overwrite a protected file.

    The inputs of the running command, the files of runs (nmt/storage/run_files.py) and, unless
    `may_replace(force)`, all existing files are protected. Raises DataError if `out` is a folder or
    a loop of links. `name` names `out` in the message.
    """
    check_not_input(out, _command.get().inputs, name)
    if is_written_directly(out):
        return
    target = follow_links(out)
    check_outside_runs(out, name)
    if os.path.lexists(target) and not may_replace(force):
        raise ConfigError(f"{out}: already exists; `force` replaces it, or give another `out`")


def check_not_input(out: Path, inputs: Mapping[str, Iterable[Path]], name: str = "`out`") -> None:
    """Raise ConfigError if `out` is one of the files in `inputs`, or a link to one.

    The message calls `out` by `name`, and the files by their keys in `inputs`.
    """
    status = _status(out, "stdout")
    if status is None or not stat.S_ISREG(status.st_mode):
        return
    for input_name, paths in inputs.items():
        for path in paths:
            other = _status(path, "stdin")
            if other is not None and os.path.samestat(status, other):
                what = "stdout" if out == STDIN_OR_STDOUT else str(out)
                problem = f"is also an input ({input_name}: {path})"
                raise ConfigError(f"{name}: {what} {problem}; give two different files")


def _status(path: Path, standard: Literal["stdin", "stdout"]) -> os.stat_result | None:
    """Return os.stat of `path`, or of the `standard` stream for `-`, or None if it is absent."""
    try:
        if path == STDIN_OR_STDOUT:
            return os.fstat(getattr(sys, standard).fileno())
        return path.stat()
    except (OSError, ValueError):  # absent; or a stream without a descriptor
        return None
