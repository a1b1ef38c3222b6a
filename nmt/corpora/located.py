"""A split with the paths of its files: where the catalogue and the config say that they lie."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from nmt.corpora.entries import (
    RUN_SPLITS,
    CorpusEntry,
    HashSplit,
    corpus_folder,
    data_folder,
    find_entry,
)
from nmt.corpora.held_out import HeldOut, part_of
from nmt.corpora.readers import PairFile, reader_of
from nmt.corpora.readers.aligned import paired_files, read_references, stream_aligned
from nmt.corpora.sources import (
    DataConfig,
    HeldOutSplit,
    PairsConfig,
    SplitConfig,
    group_by_source,
)
from nmt.corpora.text_files import archive_of, missing
from nmt.errors import ConfigError, DataError
from nmt.types import EvalExample, SentencePair, SplitName


@dataclass(frozen=True)
class Located:
    """A split with the paths of its files; `shown` names it in errors.

    `max_bytes` limits the text of each file. `cut` selects the part of a HashSplit; `swapped`
    exchanges source and target. `then` are splits that are read after it, as one with it.
    `held_out` selects a part of what all this gives.
    """

    files: PairsConfig
    shown: str
    languages: tuple[str, str]
    max_bytes: Mapping[Path, int] = field(default_factory=dict)
    cut: tuple[HashSplit, SplitName] | None = None
    swapped: bool = False
    held_out: HeldOutSplit | None = None
    then: tuple["Located", ...] = ()

    @property
    def texts(self) -> list[Path]:
        """All texts that it reads, in order. Raises DataError where wildcards match no file."""
        texts = [path for group in self.groups() for path in group]
        return [*texts, *(path for part in self.then for path in part.texts)]

    @property
    def is_aligned_with_several(self) -> bool:
        """Whether each line of the source has several references."""
        is_altered = self.cut or self.swapped or self.then or self.held_out
        return len(self.files.tgts) > 1 and not is_altered

    def check_files(self) -> list[Path]:
        """Its files on disk. Raises DataError where one is missing or not a plain file."""
        archives = list(dict.fromkeys(map(archive_of, self.texts)))
        for path in archives:
            if not path.is_file():
                raise DataError(f"{path}: not a plain file" if path.exists() else missing(path))
        return archives

    def stream(self) -> Iterator[SentencePair]:
        """The pairs in file order, in constant memory."""
        self.check_files()  # reading a FIFO would block
        if self.held_out is not None:
            yield from self._held_out_pairs(self.held_out)
            return
        for pair in self._all_pairs():
            if self.cut is not None and part_of(pair.src_text, self.cut[0]) != self.cut[1]:
                continue
            yield SentencePair(pair.tgt_text, pair.src_text) if self.swapped else pair
        for part in self.then:
            yield from part.stream()

    def _held_out_pairs(self, split: HeldOutSplit) -> Iterator[SentencePair]:
        all_pairs = replace(self, held_out=None)
        sources = (pair.src_text for pair in islice(all_pairs.stream(), split.of_first))
        held_out = HeldOut.choose(sources, split.config, self.shown)
        for pair in islice(all_pairs.stream(), split.of_first):
            if held_out.part_of(pair.src_text) == split.part:
                yield pair

    def groups(self) -> list[tuple[Path, ...]]:
        """Its files: one of both sides, or those that stand side by side, of each group."""
        return paired_files(self.files.texts)

    def _all_pairs(self) -> Iterator[SentencePair]:
        """The pairs of the files, before `cut` and `swapped` apply."""
        if len(self.files.tgts) > 1:
            raise DataError(
                f"{self.shown}: {len(self.files.tgts)} reference files, allowed 1 where sentences "
                "are read as pairs (training, or a named corpus read the other way round)"
            )
        return chain.from_iterable(map(self._pairs_of, self.groups()))

    def _pairs_of(self, group: tuple[Path, ...]) -> Iterator[SentencePair]:
        limits = [self.max_bytes.get(archive_of(path)) for path in group]
        if self.files.file is not None:
            file = PairFile(group[0], self.languages, self.files.columns, limits[0])
            return reader_of(group[0]).stream(file)
        return stream_aligned(group[0], group[1], (limits[0], limits[1]))

    def examples(self) -> list[EvalExample]:
        """The source sentences with their references."""
        if self.files.file is not None or self.held_out is not None:
            return group_by_source(list(self.stream()))
        if self.is_aligned_with_several:
            self.check_files()
            groups = (read_references(src, tgts) for src, *tgts in self.groups())
            return list(chain.from_iterable(groups))
        return [EvalExample(pair.src_text, (pair.tgt_text,)) for pair in self.stream()]


def locate(split: PairsConfig, data: DataConfig) -> Located:
    """A split of a config, which is no mixture, with the paths of its files."""
    if isinstance(split, HeldOutSplit):
        values = split.model_dump(exclude={"config", "part", "of_first"})
        return replace(locate(SplitConfig(**values), data), held_out=split)
    languages = (data.src_lang, data.tgt_lang)
    if split.corpus is None:
        return Located(split, str(split.texts[0]), languages)
    return locate_named(split.corpus, split.split, data_folder(data.folder), languages)


def locate_named(
    corpus: str, split: str | None, folder: Path, languages: tuple[str, str] | None = None
) -> Located:
    """Return the split of a named corpus between `languages`, by default its entry's languages."""
    entry = find_entry(corpus, folder)
    if split is None or split not in entry.split_names:
        allowed = ", ".join(entry.split_names)
        raise ConfigError(f"split of corpus '{corpus}': got {split!r}, allowed: {allowed}")
    shown = f"corpus '{corpus}', split '{split}'"
    if split in entry.joined:
        first, *then = (
            locate_named(corpus, part, folder, languages) for part in entry.joined[split]
        )
        return replace(first, shown=shown, then=tuple(then))
    hash_split, cut = entry.hash_split, None
    if hash_split is not None and split not in entry.splits:
        cut = (hash_split, next(part for part in RUN_SPLITS if part == split))
        split = hash_split.of
    files = entry.splits[split]
    home = corpus_folder(corpus, entry, folder)
    swapped = languages is not None and _is_swapped(corpus, entry, languages)
    limits = {home / file: spec.max_text_bytes for file, spec in entry.files.items()}
    paths = {
        "file": files.file and home / files.file,
        "src": files.src and home / files.src,
        "tgt": tuple(home / tgt for tgt in files.tgts) or None,
    }
    languages_of_entry = entry.src_lang, entry.tgt_lang
    located = Located(
        files.model_copy(update=paths), shown, languages_of_entry, limits, cut, swapped
    )
    _check_present(corpus, entry, folder, located)
    return located


def _is_swapped(corpus: str, entry: CorpusEntry, wanted: tuple[str, str]) -> bool:
    """Whether the run reads the corpus from its target to its source language."""
    if wanted == (entry.src_lang, entry.tgt_lang):
        return False
    if wanted == (entry.tgt_lang, entry.src_lang):
        return True
    raise ConfigError(
        f"data.src_lang, data.tgt_lang: got {wanted[0]}, {wanted[1]}, but corpus '{corpus}' is "
        f"{entry.src_lang}, {entry.tgt_lang} (either way round)"
    )


def _check_present(corpus: str, entry: CorpusEntry, folder: Path, located: Located) -> None:
    try:
        located.check_files()
    except DataError as error:
        elsewhere = "" if folder == data_folder(Path("data")) else f" `data={folder}`"
        remedy = f"get it with: nmt corpus fetch {corpus}{elsewhere} [`from_path=PATH`]"
        if entry.embedded:
            remedy = "it comes with the package; install that again"
        elif not entry.files:
            remedy = "put it there (its entry names no address)"
        raise DataError(f"corpus '{corpus}': {error}; {remedy}") from None
