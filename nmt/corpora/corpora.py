"""The splits of a run, read as sentence pairs or as evaluation examples.

A named corpus is a folder `<data folder>/<name>/` with the files that the corpus' entry
(entries.py) lists. Archives are read in place, without unpacking them on disk.
"""

import contextlib
import functools
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.corpora.entries import RUN_SPLITS, data_folder, find_entry
from nmt.corpora.located import locate, locate_named
from nmt.corpora.sacrebleu_sets import check_test_set
from nmt.corpora.sources import DataConfig, PairsConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.storage.atomic import digest
from nmt.types import EvalExample, SentencePair, SplitName

MAX_READ_BYTES = 50 << 20  # `check_corpora` does not read larger splits, to save time


def resolve_split(data: DataConfig, name: SplitName) -> SplitConfig | None:
    """Return the config of the split `name`, or None if the config has no such split.

    The split comes from its own key, from data.corpus, or from sentences held out of train. Raises
    ConfigError if keys contradict each other, or if train is needed and the config lacks it.
    """
    held_out = data.held_out
    if held_out is None or (name != "train" and not getattr(held_out, name)):
        return _configured_split(data, name)
    train = _configured_split(data, "train")
    if name != "train" and _configured_split(data, name) is not None:
        got = f"got {getattr(held_out, name)}, but there is already a split {name}"
        raise ConfigError(f"data.held_out.{name}: {got}; allowed: 0")
    if train is not None and train.mix is not None:
        raise ConfigError("data.held_out: cannot hold sentences out of a mixture; set data.valid")
    return None if train is None else train.held_out_split(held_out, name)


def _configured_split(data: DataConfig, name: SplitName) -> SplitConfig | None:
    """Return the split from the config or its named corpus, or None if neither has the split."""
    split: SplitConfig | None = getattr(data, name)
    if split is not None:
        return split.with_split(name)
    if data.corpus is None:
        if name == "train":
            problem = "nothing to learn from: give corpus (a named corpus) or train (files)"
            raise ConfigError(f"data: {problem}")
        return None
    entry = find_entry(data.corpus, data_folder(data.folder))
    return SplitConfig(corpus=data.corpus, split=name) if name in entry.split_names else None


def read_split(split: PairsConfig, data: DataConfig) -> list[SentencePair]:
    """Return the pairs of a split in file order, for training.

    Raises DataError if a file is missing or cannot be read in its format, if a corpus has no pairs,
    or if a source has several reference files.
    """
    return list(stream_split(split, data))


def stream_split(split: PairsConfig, data: DataConfig) -> Iterator[SentencePair]:
    """Yield the pairs of `read_split` one by one, without keeping them in memory.

    The corpora of a mixture follow one another, and their weights have no effect. Raises the errors
    of `read_split` when it reaches the fault.
    """
    for part in split.corpora:
        located = locate(part, data)
        pair = None
        for pair in islice(located.stream(), part.first):
            yield pair
        if pair is None:
            raise DataError(f"{located.name}: no sentence pairs")


def split_key(split: PairsConfig, data: DataConfig) -> str:
    """Return a text that names the files of one corpus and the selection of pairs from them.

    Two splits have the same pairs if their keys and the contents of their files are equal.
    """
    located = locate(split, data)
    members = " ".join(path.name for path in located.texts)
    part = f", {located.hash_part[1]} by {located.hash_part[0]!r}" if located.hash_part else ""
    order = ", target first" if located.is_swapped else ""
    columns = f", columns {split.columns}" if split.columns else ""
    subset = located.held_out
    held_out = f", {subset.part} of first {subset.of_first} by {subset.config!r}" if subset else ""
    return f"{members}, first {split.first}{part}{order}{columns}{held_out}"


def read_examples(split: PairsConfig, data: DataConfig) -> list[EvalExample]:
    """Return the source sentences of a split with their references, for evaluation.

    Aligned files give one example per line. A file of pairs, or a held-out set, gives one example
    per distinct source text, in order of first appearance, with all its targets. No sentence is
    dropped. Raises DataError if a file is missing or cannot be read, or a corpus has no pairs.
    """
    located = locate(split, data)
    examples = located.examples()[: split.first]
    if not examples:
        raise DataError(f"{located.name}: no sentence pairs")
    return examples


def count_pairs(corpus: str, name: str, folder: Path) -> int:
    """Return the number of pairs of a split of a named corpus. Each reference counts as a pair."""
    located = locate_named(corpus, name, folder)
    if located.has_several_references:
        return sum(len(example.ref_texts) for example in located.examples())
    return sum(1 for _ in located.stream())


def readable_splits(corpus: str, folder: Path) -> list[str]:
    """Return the names of the splits of a named corpus whose files are all on disk."""
    names = []
    for name in find_entry(corpus, folder).split_names:
        with contextlib.suppress(DataError):
            locate_named(corpus, name, folder)
            names.append(name)
    return names


def check_corpora(data: DataConfig) -> list[str]:
    """Check the splits of a config. Return a message for each named corpus that is not on disk.

    All other faults raise one ConfigError, with a line for each. These faults include a missing
    corpus of a mixture, even a named one. Splits from files are read to the end if they have at
    most MAX_READ_BYTES. A split that is a sacreBLEU test set is not downloaded: only its name and
    languages are checked.
    """
    faults: list[str] = []
    missing_corpora: list[str] = []
    for name in RUN_SPLITS:
        split = None
        try:
            split = resolve_split(data, name)
            if split is not None and split.sacrebleu is not None:
                check_test_set(split.sacrebleu, (data.src_lang, data.tgt_lang))
            elif split is not None:
                size = sum(file.stat().st_size for file in split_files(split, data))
                if split.corpus is None and size <= MAX_READ_BYTES:
                    read = read_examples if len(split.tgts) > 1 else read_split
                    read(split, data)
        except DataError as error:
            if split is not None and split.corpus is not None:
                missing_corpora.append(str(error))
            else:
                faults.append(f"data.{name}: {error}")
        except ConfigError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return list(dict.fromkeys(missing_corpora))


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises DataError if it cannot be read.

    The digest is cached. A file is read again if its size, modification or change time changes.
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
    """Return the files on disk that a split is read from. Raises DataError if one is missing."""
    files = [path for part in split.corpora for path in locate(part, data).check_files()]
    return list(dict.fromkeys(files))
