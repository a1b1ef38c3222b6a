"""A long translation into a file, which can be stopped after any line and resumed there."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from nmt.errors import ConfigError, DataError
from nmt.storage.atomic import IS_WINDOWS, flush, move_to_new, replace, write_json
from nmt.storage.bounded import read_json
from nmt.storage.output import (
    NOTE_SUFFIX,
    check_output,
    direct_output,
    is_direct,
    keep_mode,
    locked,
    may_replace,
    output_errors,
    part_of,
    place_of,
)

Write = Callable[[bytes], None]


@contextlib.contextmanager
def job_output(
    out: Path,
    job: Mapping[str, object] | None,
    resume: bool = False,
    unit: int = 1,
    force: bool = False,
) -> Iterator[tuple[Write, int]]:
    """Open `out` for lines; yields a function that writes them, and how many are there already.

    The lines go to a file beside `out`, which replaces it when the block ends without an error.
    `job` holds all that the lines depend on, as JSON values; it is written beside them, so that
    only the same job resumes them (None: the output cannot be resumed). With `resume` the complete
    lines are kept, rounded down to a multiple of `unit`; `force` begins anew, and replaces an `out`
    that exists. A path that is no regular file is written directly (nmt/storage/output.py). Raises
    ConfigError for a file that is there already, or an unfinished one, without these. Raises
    DataError if `out` is not an unfinished file of the same job, cannot be written, or is in use by
    another command.
    """
    with output_errors(out):
        if is_direct(out):
            with direct_output(out) as stream:
                yield _Lines(stream).write, 0
            return
        place = place_of(out)
        part = part_of(out)
        if resume and not part.exists() and place.exists():
            raise DataError(
                f"{out}: cannot be resumed: {part.name} is not beside it, so it is finished, or "
                "another command wrote it"
            )
        check_output(out, force=force)
        with locked(part, out) as descriptor, os.fdopen(descriptor, "r+b", closefd=False) as stream:
            if not (resume or may_replace(force)) and os.fstat(descriptor).st_size:
                raise ConfigError(
                    f"{part}: has lines of an unfinished output; `resume` goes on there, `force` "
                    "begins anew"
                )
            note = _Note(place.with_name(place.name + NOTE_SUFFIX), job)
            try:
                kept_bytes, n_lines = note.resumable(stream, out, unit) if resume else (0, 0)
                lines = _Lines(stream, note, kept_bytes)
                yield lines.write, n_lines
                lines.begin()
                keep_mode(descriptor, place)
                os.fsync(descriptor)
            except BaseException:
                if part.stat().st_size == 0:
                    with contextlib.suppress(PermissionError):  # it is open, on Windows
                        part.unlink()
                    note.remove()
                raise
            if not IS_WINDOWS:
                _finish(part, place, note, force)
        if IS_WINDOWS:
            _finish(part, place, note, force)


def count_lines(path: Path) -> int:
    """The line ends in a file; 0 if it is absent."""
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:
        return 0


def _finish(part: Path, place: Path, note: "_Note", force: bool) -> None:
    """Give the finished file its name."""
    if may_replace(force):
        replace(part, place)
    else:
        move_to_new(part, place)
    note.remove()
    flush(place.parent)


@dataclass
class _Note:
    """The file that names the job of an unfinished output; absent if `job` is None."""

    path: Path
    job: Mapping[str, object] | None

    def write(self) -> None:
        """Write the job, or remove the note if there is none."""
        if self.job is None:
            self.remove()
        else:
            write_json(self.path, dict(self.job))

    def remove(self) -> None:
        """Delete the note if it exists."""
        self.path.unlink(missing_ok=True)

    def resumable(self, stream: BinaryIO, out: Path, unit: int) -> tuple[int, int]:
        """The numbers of bytes and of lines of an unfinished file that can be kept.

        Raises DataError if the file is of another job.
        """
        if os.fstat(stream.fileno()).st_size == 0:
            return 0, 0
        try:
            noted = read_json(self.path, DataError)
        except FileNotFoundError:
            raise DataError(
                f"{out}: cannot be resumed: {self.path.name}, which says what is translated "
                "and how, is not beside it"
            ) from None
        before = cast(dict[str, object], noted if isinstance(noted, dict) else {})
        now = self.job or {}
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if changed:
            raise DataError(
                f"{out}: cannot be resumed: it was begun with another {', '.join(sorted(changed))}"
            )
        position = kept_bytes = n_lines = 0
        for line in stream:
            position += len(line)
            n_lines += line.endswith(b"\n")
            if line.endswith(b"\n") and n_lines % unit == 0:
                kept_bytes = position
        return kept_bytes, n_lines // unit * unit


@dataclass
class _Lines:
    """Writes lines into `stream`, which is not changed before the first of them."""

    stream: BinaryIO
    note: _Note | None = None
    kept_bytes: int = 0
    has_begun: bool = False

    def write(self, lines: bytes) -> None:
        """Write lines, and flush them to the file."""
        self.begin()
        self.stream.write(lines)
        self.stream.flush()

    def begin(self) -> None:
        """Before the first line, cut the file off after the bytes that are kept.

        The cut is on the disk before the note names the job: after a power cut no line of an older
        output is taken for one of this job.
        """
        if self.has_begun:
            return
        self.has_begun = True
        if self.note is not None:
            self.stream.seek(self.kept_bytes)
            self.stream.truncate()
            os.fsync(self.stream.fileno())
            if not self.kept_bytes:
                self.note.write()
