"""The sentences that commands read: from arguments, a file, a pipe or a terminal."""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from nmt.cli.shared.messages import say
from nmt.errors import DataError
from nmt.storage.terminal import one_line

if TYPE_CHECKING:
    from nmt.corpora.sources import DataConfig
    from nmt.runs.trained_run import TrainedRun

_Item = TypeVar("_Item")


def check_not_read(out: Path | None, run: "TrainedRun", split: str) -> None:
    """Raise ConfigError where `out`, or stdout, is a file of a split of the run's data."""
    from nmt.storage.output import STDIN_OR_STDOUT, check_output

    files = input_files({}, run.config.data, split)
    if out is None or not out.is_dir():
        check_output(out or STDIN_OR_STDOUT, files)


def input_files(
    texts: Mapping[str, Iterable[Path | None]], data: "DataConfig", split: str | None
) -> dict[str, list[Path]]:
    """The files that a command reads, by flag: those of `texts`, and of a split of the run's data.

    Raises ConfigError where there is no such split, DataError where a file of it is missing.
    """
    from nmt.corpora.corpora import split_files
    from nmt.corpora.text_files import archive_of
    from nmt.evaluation.examples import split_named

    files = {flag: [archive_of(path) for path in paths if path] for flag, paths in texts.items()}
    if split is not None:
        files["--split"] = split_files(split_named(data, split), data)
    return files


def checked_arguments(sentences: Sequence[str]) -> list[str]:
    """The lines of `sentences`. Raises DataError for one that was not UTF-8."""
    for number, sentence in enumerate(sentences, start=1):
        try:
            sentence.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"argument {number}: not UTF-8: {sentence!a}") from None
    return [line for text in sentences for line in text.removesuffix("\n").split("\n")]


def file_lines(path: Path) -> Iterator[str]:
    """The lines of a file, or of stdin for `-`, unpacked and read on demand. Raises DataError."""
    from nmt.corpora.text_files import Text, stream_lines

    if str(path) != "-":
        yield from stream_lines(path)
        return
    stdin = sys.stdin.buffer
    # read1 returns what has arrived, so each line is translated at once; read waits for a buffer.
    yield from Text(getattr(stdin, "read1", stdin.read), "stdin").lines()


def prompted(prompt: str) -> Iterator[str]:
    """The lines typed on the terminal, until an empty line or Ctrl-D."""
    with contextlib.suppress(ImportError):  # not everywhere; it gives input() its history
        import readline  # noqa: F401
    say("an empty line ends")
    prompt = one_line(prompt)  # readline writes it past sys.stdout
    shown = prompt if sys.stdout.isatty() else ""  # input() writes it where results go
    while True:
        if not shown:
            typer.echo(prompt, nl=False, err=True)
        try:
            text = input(shown)
            text.encode("utf-8")
        except EOFError:
            typer.echo(err=True)
            return
        except UnicodeError:
            say("not UTF-8; once more")
            continue
        if not text.strip():
            return
        yield text


def print_lines(lines: Iterable[str], out: Path | None) -> None:
    """Print lines as they come, or write them to the file `out`, which appears at the end."""
    from nmt.storage.output import write_lines

    if out is None or str(out) == "-":
        for line in lines:
            typer.echo(line)
    else:
        write_lines(lines, out)


def with_progress(
    items: Iterator[_Item], path: Path | None, out: Path | None = None
) -> Iterator[_Item]:
    """Show a progress bar on stderr if that is a terminal without results on it.

    `path` is the source file, whose lines give the total; `out` the file of the results.
    """
    is_on_stdout = out is None or str(out) == "-"
    if not sys.stderr.isatty() or (sys.stdout.isatty() and is_on_stdout):
        yield from items
        return
    from tqdm import tqdm

    total = None
    if path is not None and path.is_file() and path.suffix.lower() not in (".gz", ".zip"):
        with path.open("rb") as stream:
            total = sum(1 for _ in stream)
    yield from tqdm(items, total=total, unit=" sentences", desc="translated")
