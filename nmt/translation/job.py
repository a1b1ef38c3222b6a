"""A long translation into a file, which can be stopped at any line and continued there."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from nmt.atomic import write_json
from nmt.bounded import read_json
from nmt.errors import DataError

NOTE_SUFFIX = ".job.json"
"""Of the note beside an unfinished file: what it is the translation of, and by what."""


@contextlib.contextmanager
def job_output(
    out: Path, job: Mapping[str, object] | None, resume: bool = False, unit: int = 1
) -> Iterator[tuple[BinaryIO, int]]:
    """A stream into the file `out`, and how many lines are in it already.

    `job` is all that the lines depend on, fit for JSON; it is noted beside `out` until the block
    ends without an error (None: nothing is noted, and nothing can be resumed). With `resume` a
    multiple of `unit` complete lines is kept, the rest cut off; without, `out` begins anew.
    Raises DataError where `out` is not an unfinished file of the same job.
    """
    note = out.with_name(out.name + NOTE_SUFFIX)
    try:
        kept_bytes, n_lines = _kept(out, note, job, unit) if resume and job else (0, 0)
        if job is not None and not n_lines:
            write_json(note, dict(job))
        try:
            opened = out.open("r+b" if n_lines else "wb")
        except OSError:
            if job is not None and not n_lines:
                note.unlink()
            raise
        with opened as stream:
            if n_lines:
                stream.truncate(kept_bytes)
                stream.seek(kept_bytes)
            yield stream, n_lines
            stream.flush()
            if out.is_file():  # and no pipe
                os.fsync(stream.fileno())
    except OSError as error:
        if error.filename not in (None, str(out), out, str(note)):
            raise
        goes_on = job is not None and note.exists()
        how = "; the same command with --resume goes on there" if goes_on else ""
        raise DataError(f"cannot write {out}: {error.strerror}{how}") from error
    if job is not None:
        note.unlink()


def _kept(out: Path, note: Path, job: Mapping[str, object], unit: int) -> tuple[int, int]:
    """The bytes and the lines of `out` that stay."""
    if not out.exists():
        return 0, 0
    try:
        noted = read_json(note, DataError)
    except FileNotFoundError:
        raise DataError(
            f"{out}: cannot be resumed: {note.name} is not beside it, so it is finished, or "
            "another command wrote it"
        ) from None
    noted = cast(dict[str, object], noted if isinstance(noted, dict) else {})
    changed = [name for name in {**noted, **job} if noted.get(name) != job.get(name)]
    if changed:
        raise DataError(
            f"{out}: cannot be resumed: it was begun with another {', '.join(sorted(changed))}"
        )
    place = kept_bytes = n_lines = 0
    with out.open("rb") as stream:
        for line in stream:
            place += len(line)
            n_lines += line.endswith(b"\n")
            if line.endswith(b"\n") and n_lines % unit == 0:
                kept_bytes = place
    return kept_bytes, n_lines // unit * unit
