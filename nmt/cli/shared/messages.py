"""Results on stdout, notes and errors on stderr; --quiet silences the notes."""

import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import typer


class _Streams:
    """Holds the original stderr while --quiet redirects it."""

    stderr: TextIO | None = None


def say(line: str) -> None:
    """Print a note for the user on stderr, where it does not mix with results."""
    typer.echo(line, err=True)


def complain(line: str) -> None:
    """Print a line on stderr even with --quiet: an error, or why a command fails."""
    typer.echo(line, file=_Streams.stderr or sys.stderr)


def print_json(content: object) -> None:
    """Print JSON on stdout, indented, with a line for each entry."""
    typer.echo(json.dumps(content, indent=1, ensure_ascii=False))


def print_path(path: Path | None) -> None:
    """Print the path of a written file on stdout, unless the file is stdout (`-` or None)."""
    if path is not None and str(path) not in ("-", "/dev/stdout"):
        typer.echo(path)


def print_language_notes(
    src_texts: Sequence[str], tgt_texts: Sequence[str], src_lang: str, tgt_lang: str
) -> None:
    """Print a note on stderr for each side whose texts look like another language."""
    from nmt.corpora.language_check import language_notes

    for note in language_notes(src_texts, tgt_texts, src_lang, tgt_lang):
        say(f"note: {note}")


def summary_lines(n_kept: int, dropped: Counter[str]) -> list[str]:
    """Return lines with the number of pairs kept, and of pairs dropped for each reason."""
    n_all = n_kept + dropped.total()
    return [
        f"kept {n_kept:,} of {n_all:,} pairs ({n_kept / max(1, n_all):.2%})",
        *(f"  {reason:<20}{n:>10,}  ({n / n_all:.2%})" for reason, n in dropped.most_common()),
    ]


@contextlib.contextmanager
def without_notes() -> Iterator[None]:
    """Silence stderr in this block, except for `complain`."""
    _Streams.stderr = sys.stderr
    try:
        with open(os.devnull, "w", encoding="utf-8") as null, contextlib.redirect_stderr(null):
            yield
    finally:
        _Streams.stderr = None
