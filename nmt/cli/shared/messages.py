"""Notes and reasons on stderr; --quiet silences the notes."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

import typer


class _Streams:
    """The stderr that --quiet has replaced."""

    stderr: TextIO | None = None


def say(line: str) -> None:
    """Print a note for the user on stderr, where it does not mix with results."""
    typer.echo(line, err=True)


def complain(line: str) -> None:
    """Print on stderr what --quiet does not silence: an error, or why a command fails."""
    typer.echo(line, file=_Streams.stderr or sys.stderr)


@contextlib.contextmanager
def without_notes(is_wanted: bool) -> Iterator[None]:
    """Silence notes and progress bars in this block, also where the library writes them."""
    if not is_wanted:
        yield
        return
    _Streams.stderr = sys.stderr
    try:
        with (
            open(os.devnull, "w", encoding="utf-8") as nowhere,
            contextlib.redirect_stderr(nowhere),
        ):
            yield
    finally:
        _Streams.stderr = None
