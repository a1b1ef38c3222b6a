"""A split with the paths of its files, from the config or from the catalogue.

Sets held out by a hash of the source sentence do not depend on the order of the pairs.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np

from nmt.corpora.entries import CorpusEntry, HashSplit, corpus_folder, data_folder, find_entry
from nmt.corpora.readers import PairFile, reader_of
from nmt.corpora.readers.aligned import paired_files, read_references, stream_aligned
from nmt.corpora.sacrebleu_sets import find_test_set
from nmt.corpora.sources import (
    DataConfig,
    HeldOutConfig,
    HeldOutSplit,
    PairsConfig,
    SplitConfig,
    group_by_source,
)
from nmt.corpora.text_files import archive_of
from nmt.errors import ConfigError, DataError, missing_file_message
from nmt.text.normalisation import sentence_key
from nmt.types import EvalExample, SentencePair, SplitName


@dataclass(frozen=True)
class LocatedSplit:
    """A split with the paths of its files, called `name` in errors.

    `max_bytes` limits the text of each file or archive. `hash_part` selects one part of a division
    by HashSplit. With `is_swapped`, source and target are exchanged. The pairs of `joined_splits`
    follow the pairs of `files`. `held_out` selects a part of all these pairs.
    """

    files: PairsConfig
    name: str
    languages: tuple[str, str]
    max_bytes: Mapping[Path, int] = field(default_factory=dict)
    hash_part: tuple[HashSplit, SplitName] | None = None
    is_swapped: bool = False
    held_out: HeldOutSplit | None = None
    joined_splits: tuple["LocatedSplit", ...] = ()

    @property
    def texts(self) -> list[Path]:
        """The paths of all texts in order. Raises DataError if a wildcard matches no file."""
        texts = [path for group in paired_files(self.files.texts) for path in group]
        return [*texts, *(path for split in self.joined_splits for path in split.texts)]

    @property
    def has_several_references(self) -> bool:
        """Whether each line of the source has several references."""
        is_altered = self.hash_part or self.is_swapped or self.joined_splits or self.held_out
        return len(self.files.tgts) > 1 and not is_altered

    def check_files(self) -> list[Path]:
        """Return the files on disk. Raises DataError if one is missing or not a regular file."""
        archives = list(dict.fromkeys(map(archive_of, self.texts)))
        for path in archives:
            if not path.is_file():
                problem = f"{path}: not a plain file"
                raise DataError(problem if path.exists() else missing_file_message(path))
        return archives

    def stream(self) -> Iterator[SentencePair]:
        """Yield the pairs in file order, without keeping them in memory."""
        self.check_files()  # reading a FIFO would block
        if self.held_out is not None:
            yield from self._held_out_pairs(self.held_out)
            return
        for pair in self._all_pairs():
            if self.hash_part is not None:
                hash_split, part = self.hash_part
                if part_of(pair.src_text, hash_split) != part:
                    continue
            yield SentencePair(pair.tgt_text, pair.src_text) if self.is_swapped else pair
        for split in self.joined_splits:
            yield from split.stream()

    def _held_out_pairs(self, split: HeldOutSplit) -> Iterator[SentencePair]:
        all_pairs = replace(self, held_out=None)
        sources = (pair.src_text for pair in islice(all_pairs.stream(), split.of_first))
        split_of = split_assigner(sources, split.config, self.name)
        for pair in islice(all_pairs.stream(), split.of_first):
            if split_of(pair.src_text) == split.part:
                yield pair

    def _all_pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs of the files, before `hash_part` and `is_swapped` apply."""
        if len(self.files.tgts) > 1:
            raise DataError(
                f"{self.name}: {len(self.files.tgts)} reference files, allowed: 1 if sentences "
                "are read as pairs (in training, or from a named corpus with its sides exchanged)"
            )
        for group in paired_files(self.files.texts):
            limits = [self.max_bytes.get(archive_of(path)) for path in group]
            if self.files.file is not None:
                file = PairFile(group[0], self.languages, self.files.columns, limits[0])
                yield from reader_of(group[0]).stream(file)
            else:
                yield from stream_aligned(group[0], group[1], (limits[0], limits[1]))

    def examples(self) -> list[EvalExample]:
        """Return the source sentences with their references, grouped as in `read_examples`."""
        if self.files.file is not None or self.held_out is not None:
            return group_by_source(list(self.stream()))
        if self.has_several_references:
            self.check_files()
            groups = paired_files(self.files.texts)
            return [e for src, *tgts in groups for e in read_references(src, tgts)]
        return [EvalExample(pair.src_text, (pair.tgt_text,)) for pair in self.stream()]


def locate(split: PairsConfig, data: DataConfig) -> LocatedSplit:
    """Locate a split of one corpus. Raises the errors of `locate_named` and `find_test_set`."""
    if isinstance(split, HeldOutSplit):
        values = split.model_dump(exclude={"config", "part", "of_first"})
        return replace(locate(SplitConfig(**values), data), held_out=split)
    languages = (data.src_lang, data.tgt_lang)
    if split.sacrebleu is not None:
        files = split.model_copy(update=find_test_set(split.sacrebleu, languages))
        return LocatedSplit(files, f"sacreBLEU's {split.sacrebleu}", languages)
    if split.corpus is None:
        return LocatedSplit(split, str(split.texts[0]), languages)
    return locate_named(split.corpus, split.split, data_folder(data.folder), languages)


def locate_named(
    corpus: str, split: str | None, folder: Path, languages: tuple[str, str] | None = None
) -> LocatedSplit:
    """Locate the files of a split of a named corpus in `folder`.

    `languages` are the source and target language, by default as in the entry. Raises DataError
    if a file is missing, and ConfigError if the corpus or split is unknown or in other languages.
    """
    entry = find_entry(corpus, folder)
    if split is None or split not in entry.split_names:
        allowed = ", ".join(entry.split_names)
        raise ConfigError(f"split of corpus '{corpus}': got {split!r}, allowed: {allowed}")
    name = f"corpus '{corpus}', split '{split}'"
    if split in entry.joined:
        parts = entry.joined[split]
        first, *others = (locate_named(corpus, part, folder, languages) for part in parts)
        return replace(first, name=name, joined_splits=tuple(others))
    hash_split, hash_part = entry.hash_split, None
    if hash_split is not None and split not in entry.splits:
        hash_part = hash_split, cast(SplitName, split)
        split = hash_split.of
    files = entry.splits[split]
    root = corpus_folder(corpus, entry, folder)
    paths = {
        "file": files.file and root / files.file,
        "src": files.src and root / files.src,
        "tgt": tuple(root / tgt for tgt in files.tgts) or None,
    }
    located = LocatedSplit(
        files.model_copy(update=paths),
        name,
        (entry.src_lang, entry.tgt_lang),
        {root / file: spec.max_text_bytes for file, spec in entry.files.items()},
        hash_part,
        is_swapped=languages is not None and _is_swapped(corpus, entry, languages),
    )
    try:
        located.check_files()
    except DataError as error:
        raise DataError(f"corpus '{corpus}': {error}; {_remedy(corpus, entry, folder)}") from None
    return located


def _is_swapped(corpus: str, entry: CorpusEntry, languages: tuple[str, str]) -> bool:
    """Return whether `languages` are the languages of the corpus, target first."""
    entry_languages = entry.src_lang, entry.tgt_lang
    if languages not in (entry_languages, entry_languages[::-1]):
        raise ConfigError(
            f"data.src_lang, data.tgt_lang: got {', '.join(languages)}, but corpus '{corpus}' "
            f"is {', '.join(entry_languages)} (in either direction)"
        )
    return languages != entry_languages


def _remedy(corpus: str, entry: CorpusEntry, folder: Path) -> str:
    if entry.embedded:
        return "it comes with the package, so install nmt again"
    if not entry.files:
        return "put it there (its entry has no address)"
    option = "" if folder == data_folder(Path("data")) else f" `data={folder}`"
    return f"get it with: nmt corpus fetch {corpus}{option} [`from_path=PATH`]"


def split_assigner(
    sources: Iterable[str], config: HeldOutConfig, name: str
) -> Callable[[str], SplitName]:
    """Return a function from a source sentence to its split, with valid and test held out.

    The sentences with the lowest checksums are held out. This takes 8 bytes of memory per sentence
    of `sources`. Raises DataError, which mentions `name`, if no sentence is left for training.
    """

    def checksum(source: str) -> int:
        return _checksum(f"{config.seed} {sentence_key(source)}")

    n_wanted = config.valid + config.test
    ranked = np.unique(np.fromiter(map(checksum, sources), np.uint64))
    if n_wanted >= len(ranked):
        raise DataError(
            f"data.held_out: got {n_wanted:,} sentences, allowed: fewer than the "
            f"{len(ranked):,} distinct sentences of {name}"
        )
    valid_bound = int(ranked[config.valid - 1]) if config.valid else -1
    test_bound = int(ranked[n_wanted - 1]) if n_wanted else -1

    def split_of(source: str) -> SplitName:
        u = checksum(source)
        if u <= valid_bound:
            return "valid"
        return "test" if u <= test_bound else "train"

    return split_of


def part_of(src_text: str, hash_split: HashSplit) -> SplitName:
    """Return the split of a source sentence in `hash_split`, by a checksum of the sentence.

    u = first 8 bytes of sha256(sentence_key) / 2^64 is uniform in [0, 1). The split is test if
    u < `test`, valid if u < `test` + `valid`, and train otherwise. A sentence stays in its split
    when the file grows or is reordered. Sentences that differ only in case, spacing or punctuation
    share a split.
    """
    u = _checksum(sentence_key(src_text)) / 2**64
    if u < hash_split.test:
        return "test"
    return "valid" if u < hash_split.test + hash_split.valid else "train"


def _checksum(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
