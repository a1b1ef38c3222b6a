"""A long translation into a file, which can be stopped at any line and continued there."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from nmt.errors import DataError
from nmt.storage.atomic import flush, write_json
from nmt.storage.bounded import read_json
from nmt.storage.output import (
    NOTE_SUFFIX,
    direct_output,
    is_direct,
    keep_mode,
    locked,
    output_errors,
    part_of,
    place_of,
)

Write = Callable[[bytes], None]


@contextlib.contextmanager
def job_output(
    out: Path, job: Mapping[str, object] | None, resume: bool = False, unit: int = 1
) -> Iterator[tuple[Write, int]]:
    """A way to write lines to the file `out`, and how many lines are there already.

    The lines go to a file beside `out`, which takes its place when the block ends without an
    error; until then `out` is as it was. `job` is all that the lines depend on, fit for JSON; it
    is noted beside them (None: nothing is noted, and nothing can be resumed). With `resume` a
    multiple of `unit` complete lines is kept, the rest cut off; without, they begin anew. What is
    no regular file (nmt/storage/output.py) is written directly. Raises DataError where `out` is not
    an unfinished file of the same job, cannot be written, or is being written by another command.
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
        with locked(part, out) as descriptor, os.fdopen(descriptor, "r+b", closefd=False) as stream:
            note = _Note(place.with_name(place.name + NOTE_SUFFIX), job)
            try:
                kept_bytes, n_lines = note.kept(stream, out, unit) if resume else (0, 0)
                lines = _Lines(stream, note, kept_bytes)
                yield lines.write, n_lines
                lines.begin()
                keep_mode(descriptor, place)
                os.fsync(descriptor)
            except BaseException:
                if part.stat().st_size == 0:
                    part.unlink()
                    note.remove()
                raise
            os.replace(part, place)
            note.remove()
            flush(place.parent)


@dataclass
class _Note:
    """The note on an unfinished file; there is none where `job` is None."""

    path: Path
    job: Mapping[str, object] | None

    def write(self) -> None:
        """Note the job, or that there is none."""
        if self.job is None:
            self.remove()
        else:
            write_json(self.path, dict(self.job))

    def remove(self) -> None:
        """Take the note away."""
        self.path.unlink(missing_ok=True)

    def kept(self, stream: BinaryIO, out: Path, unit: int) -> tuple[int, int]:
        """The bytes and the lines of an unfinished file that stay.

        Raises DataError where they are of another job.
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
        place = kept_bytes = n_lines = 0
        for line in stream:
            place += len(line)
            n_lines += line.endswith(b"\n")
            if line.endswith(b"\n") and n_lines % unit == 0:
                kept_bytes = place
        return kept_bytes, n_lines // unit * unit


@dataclass
class _Lines:
    """Writes lines into `stream`, which stays as it is until the first of them."""

    stream: BinaryIO
    note: _Note | None = None
    kept_bytes: int = 0
    has_begun: bool = False

    def write(self, lines: bytes) -> None:
        """Write lines, and have them in the file at once."""
        self.begin()
        self.stream.write(lines)
        self.stream.flush()

    def begin(self) -> None:
        """Cut off what does not stay, before the first line.

        What was cut off is off the disk before the note says whose the rest is: after a power cut
        no line of an older output counts as one of this job.
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
