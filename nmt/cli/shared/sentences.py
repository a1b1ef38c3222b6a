"""Read sentences from arguments, a file or a pipe, and print results."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice, zip_longest
from pathlib import Path
from typing import TypeVar

import typer

from nmt.corpora.text_files import Text, open_text
from nmt.errors import ConfigError, DataError
from nmt.storage.atomic import encode_utf8
from nmt.storage.output import STDIN_OR_STDOUT, atomic_output, write_lines

_Item = TypeVar("_Item")


def checked_arguments(sentences: Sequence[str]) -> list[str]:
    """Split arguments with sentences into lines. Raises DataError if one is not UTF-8."""
    for number, sentence in enumerate(sentences, start=1):
        try:
            sentence.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"argument {number}: not UTF-8: {sentence!a}") from None
    return [line for text in sentences for line in text.removesuffix("\n").split("\n")]


def file_lines(path: Path, keep_cr: bool = False) -> Iterator[str]:
    """Yield the lines of a file, or of stdin (`-`), as `Text.lines` does."""
    with _opened(path) as text:
        yield from text.lines(keep_cr)


def file_content(path: Path) -> str:
    """Return the text of a file, or of stdin (`-`)."""
    with _opened(path) as text:
        return text.content()


def _opened(path: Path) -> AbstractContextManager[Text]:
    """Open a file, decompressed, or stdin (`-`). Raises DataError if it cannot be read."""
    if path != STDIN_OR_STDOUT:
        return open_text(path)
    stdin = sys.stdin.buffer
    # read1 returns what has arrived, so lines are translated at once; read fills a buffer first.
    return nullcontext(Text(getattr(stdin, "read1", stdin.read), "stdin"))


def pair_chunks(source: Path, target: Path, size: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the lines of a text and of its translation, up to `size` at a time.

    Raises ConfigError if both are stdin, and DataError if the two differ in length.
    """
    if source == target == STDIN_OR_STDOUT:
        raise ConfigError("got - twice, allowed: stdin for one of the two texts")
    pairs = _sentence_pairs(source, target)
    while chunk := list(islice(pairs, size)):
        yield [text for text, _ in chunk], [translation for _, translation in chunk]


def _sentence_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    lines = zip_longest(file_lines(source), file_lines(target))
    for number, (text, translation) in enumerate(lines, start=1):
        if text is None or translation is None:
            shorter, longer = (source, target) if text is None else (target, source)
            raise DataError(f"{shorter}: it has no line {number}, but {longer} has one")
        yield text, translation


def print_lines(lines: Iterable[str], out: Path | None) -> None:
    """Print each line at once, or write all to the file `out`, which is created at the end."""
    if out is None or str(out) == "-":
        for line in lines:
            typer.echo(line)
    else:
        write_lines(lines, out)


def print_content(text: str, out: Path | None) -> None:
    """Write a text unchanged to `out` or stdout. On a terminal, escape control characters."""
    path = out or STDIN_OR_STDOUT
    if path == STDIN_OR_STDOUT and sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    with atomic_output(path) as stream:
        stream.write(encode_utf8(text))


def with_progress(
    items: Iterator[_Item], path: Path | None, out: Path | None = None, total: int | None = None
) -> Iterator[_Item]:
    """Yield the items, with a progress bar if stderr is a terminal that does not show results.

    The number of items is the number of lines of the source file `path` or, without a plain file,
    `total`. If that is None, the bar does not show how many items remain. Results are written to
    `out`, or to stdout if `out` is None.
    """
    is_on_stdout = out is None or str(out) == "-"
    if not sys.stderr.isatty() or (sys.stdout.isatty() and is_on_stdout):
        yield from items
        return
    from tqdm import tqdm

    if path is not None and path.is_file() and path.suffix.lower() not in (".gz", ".zip"):
        with path.open("rb") as stream:
            total = sum(1 for _ in stream)
    yield from tqdm(items, total=total, unit=" sentences", desc="translated")
