"""Reading the splits of a run: `read_split` and `stream_split` as pairs, `read_examples` to score.

A named corpus is a folder `<data folder>/<name>/` with the files that its entry (entries.py)
lists, as they were downloaded: archives are read without unpacking them on disk.
"""

import contextlib
import functools
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from nmt.corpora.entries import RUN_SPLITS, data_folder, find_entry
from nmt.corpora.located import locate, locate_named
from nmt.corpora.sources import DataConfig, PairsConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.storage.atomic import digest
from nmt.types import EvalExample, SentencePair, SplitName

_Pairs = TypeVar("_Pairs", bound=PairsConfig)

MAX_READ_BYTES = 50 << 20
"""Splits with larger files are not read by `check_corpora`, since that would take too long."""


def resolve_split(data: DataConfig, name: SplitName) -> SplitConfig | None:
    """The `name` split of the run with its corpus filled in, or None. Raises ConfigError."""
    held_out = data.held_out
    if held_out is None or (name != "train" and not getattr(held_out, name)):
        return _given_split(data, name)
    train = _given_split(data, "train")
    if name != "train" and _given_split(data, name) is not None:
        raise ConfigError(
            f"data.held_out.{name}: got {getattr(held_out, name)}, but there is a split {name} "
            "already; allowed: 0"
        )
    if train is not None and train.mix is not None:
        raise ConfigError("data.held_out: a mixture has no sentences to hold out; give data.valid")
    return None if train is None else train.held_out(held_out, name)


def _given_split(data: DataConfig, name: SplitName) -> SplitConfig | None:
    """The split that the config or its corpus names."""
    split: SplitConfig | None = getattr(data, name)
    if split is None:
        if data.corpus is None:
            return None
        entry = find_entry(data.corpus, data_folder(data.folder))
        return SplitConfig(corpus=data.corpus, split=name) if name in entry.split_names else None
    if split.mix is not None:
        parts = tuple(_with_split(part, name) for part in split.mix)
        return split.model_copy(update={"mix": parts})
    return _with_split(split, name)


def _with_split(split: _Pairs, name: SplitName) -> _Pairs:
    """`split`, where a named corpus that names no split means the one called `name`."""
    if split.corpus is None or split.split is not None:
        return split
    return split.model_copy(update={"split": name})


def read_split(split: PairsConfig, data: DataConfig) -> list[SentencePair]:
    """All pairs of a split in file order, for training.

    Raises DataError for a file that is missing, malformed or without pairs, and for a split with
    several references.
    """
    return list(stream_split(split, data))


def stream_split(split: PairsConfig, data: DataConfig) -> Iterator[SentencePair]:
    """The pairs of `read_split` in constant memory; it raises once it reaches a fault.

    Those of a mixture come corpus after corpus, each pair once.
    """
    for part in split.corpora:
        located = locate(part, data)
        pair = None
        for pair in islice(located.stream(), part.first):
            yield pair
        if pair is None:
            raise DataError(f"{located.shown}: no sentence pairs")


def split_part(split: PairsConfig, data: DataConfig) -> str:
    """A text that names the files of a split, its part of them, and a swap of the languages.

    Two splits with equal texts and equal files have the same pairs.
    """
    located = locate(split, data)
    members = [path.name for path in located.texts]
    cut = f", {located.cut[1]} by {located.cut[0]!r}" if located.cut else ""
    swapped = ", target first" if located.swapped else ""
    columns = f", columns {split.columns}" if split.columns else ""
    held = located.held_out
    held_out = f", {held.part} of first {held.of_first} by {held.config!r}" if held else ""
    return f"{' '.join(members)}, first {split.first}{cut}{swapped}{columns}{held_out}"


def read_examples(split: PairsConfig, data: DataConfig) -> list[EvalExample]:
    """The source sentences of a split with their references, for evaluation; nothing is dropped.

    Aligned files give one example per line. A file of pairs gives one per distinct source text, in
    order of first appearance, with all its targets. Raises DataError as `read_split` does.
    """
    located = locate(split, data)
    examples = located.examples()[: split.first]
    if not examples:
        raise DataError(f"{located.shown}: no sentence pairs")
    return examples


def count_pairs(corpus: str, name: str, folder: Path) -> int:
    """The pairs of split `name` of the corpus, read to the end; a reference counts as a pair."""
    located = locate_named(corpus, name, folder)
    if located.is_aligned_with_several:
        return sum(len(example.ref_texts) for example in located.examples())
    return sum(1 for _ in located.stream())


def readable_splits(corpus: str, folder: Path) -> list[str]:
    """The splits of the corpus whose files are all on disk."""
    readable = []
    for name in find_entry(corpus, folder).split_names:
        with contextlib.suppress(DataError):
            locate_named(corpus, name, folder)
            readable.append(name)
    return readable


def check_corpora(data: DataConfig) -> list[str]:
    """Return a line for each named corpus that is not on disk and can be fetched.

    Raises ConfigError with a line for each other fault that would stop a training. Splits of up
    to MAX_READ_BYTES are read to the end.
    """
    faults: list[str] = []
    absent: list[str] = []
    for name in RUN_SPLITS:
        split = None
        try:
            split = resolve_split(data, name)
            if split is not None:
                _read_small(split, data)
        except DataError as error:
            if split is not None and split.corpus is not None:
                absent.append(str(error))
            else:
                faults.append(f"data.{name}: {error}")
        except ConfigError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return list(dict.fromkeys(absent))


def _read_small(split: PairsConfig, data: DataConfig) -> None:
    size = sum(file.stat().st_size for file in split_files(split, data))
    if split.corpus is None and size <= MAX_READ_BYTES:
        read = read_examples if len(split.tgts) > 1 else read_split
        read(split, data)


def file_digest(path: Path) -> str:
    """Return the sha256 of a regular file, in hexadecimal. Raises DataError if it is not readable.

    A process reads a file again only if its size or one of its times is another.
    """
    try:
        status = path.stat()
        return _digest(path.absolute(), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


@functools.lru_cache
def _digest(path: Path, *_: int) -> str:
    return digest(path)


def split_files(split: PairsConfig, data: DataConfig) -> list[Path]:
    """The files on disk that a split is read from. Raises DataError where one is missing."""
    files = [path for part in split.corpora for path in locate(part, data).check_files()]
    return list(dict.fromkeys(files))
