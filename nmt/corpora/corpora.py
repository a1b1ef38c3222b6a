"""Reading the splits of a run: `read_split` and `stream_split` as pairs, `read_examples` to score.

A named corpus is a folder `<data folder>/<name>/` with the files that its entry (entries.py)
lists, as they were downloaded: archives are read without unpacking them on disk.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from nmt.corpora.entries import (
    RUN_SPLITS,
    CorpusEntry,
    HashSplit,
    corpus_folder,
    data_folder,
    find_entry,
)
from nmt.corpora.file_patterns import paired_files
from nmt.corpora.held_out import HeldOut
from nmt.corpora.readers import PairFile, reader_of
from nmt.corpora.readers.aligned import read_references, stream_aligned
from nmt.corpora.sources import (
    DataConfig,
    HeldOutSplit,
    PairsConfig,
    SplitConfig,
    group_by_source,
)
from nmt.corpora.text_files import archive_of, missing
from nmt.errors import ConfigError, DataError
from nmt.text.normalisation import sentence_key
from nmt.types import EvalExample, SentencePair, SplitName

_Pairs = TypeVar("_Pairs", bound=PairsConfig)


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
    folder = data_folder(data.folder)
    if split is None:
        if data.corpus is None or name not in find_entry(data.corpus, folder).split_names:
            return None
        return SplitConfig(corpus=data.corpus, split=name)
    if split.mix is not None:
        parts = tuple(_with_split(part, name, folder) for part in split.mix)
        return split.model_copy(update={"mix": parts})
    return _with_split(split, name, folder)


def _with_split(split: _Pairs, name: SplitName, folder: Path) -> _Pairs:
    """`split`, where a named corpus that names no split means the one called `name`."""
    if split.corpus is not None and split.split is None:
        split = split.model_copy(update={"split": name})
    if split.corpus is not None:
        _check_split(split.corpus, split.split, find_entry(split.corpus, folder))
    return split


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
    for part in _parts(split):
        located = _locate(part, data)
        pair = None
        for pair in islice(located.stream(), part.first):
            yield pair
        if pair is None:
            raise DataError(f"{located.shown}: no sentence pairs")


class StreamedSplit:
    """The pairs of a split, read from the files each time that they are iterated over."""

    def __init__(self, split: PairsConfig, data: DataConfig) -> None:
        self._split, self._data = split, data

    def __iter__(self) -> Iterator[SentencePair]:
        return stream_split(self._split, self._data)


def split_part(split: PairsConfig, data: DataConfig) -> str:
    """A text that names the files of a split, its part of them, and a swap of the languages.

    Two splits with equal texts and equal files have the same pairs.
    """
    located = _locate(split, data)
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
    located = _locate(split, data)
    examples = located.examples()[: split.first]
    if not examples:
        raise DataError(f"{located.shown}: no sentence pairs")
    return examples


def count_pairs(corpus: str, name: str, folder: Path) -> int:
    """The pairs of split `name` of the corpus, read to the end; a reference counts as a pair."""
    located = _locate_named(corpus, name, folder)
    if located.is_aligned_with_several:
        return sum(len(example.ref_texts) for example in located.examples())
    return sum(1 for _ in located.stream())


def readable_splits(corpus: str, folder: Path) -> list[str]:
    """The splits of the corpus whose files are all on disk."""
    readable = []
    for name in find_entry(corpus, folder).split_names:
        with contextlib.suppress(DataError):
            _locate_named(corpus, name, folder)
            readable.append(name)
    return readable


def text_paths(split: PairsConfig, data: DataConfig) -> dict[Path, bool]:
    """The texts of a split, as paths for `stream_lines`, and whether each is of both sides.

    Raises as `split_files` does.
    """
    texts: dict[Path, bool] = {}
    for located in (_locate(part, data) for part in _parts(split)):
        of_pairs = located.files.file is not None
        texts.update(
            (path, of_pairs) for path in located.texts if not of_pairs or reader_of(path).has_lines
        )
    return texts


def split_files(split: PairsConfig, data: DataConfig) -> list[Path]:
    """The files on disk that a split is read from. Raises DataError where one is missing."""
    files = [path for part in _parts(split) for path in _locate(part, data).check_files()]
    return list(dict.fromkeys(files))


def part_of(src_text: str, hash_split: HashSplit) -> SplitName:
    """The split that a source sentence belongs to, independent of its file and line.

    u = first 8 bytes of sha256(sentence_key) / 2^64 is uniform in [0, 1): test if u < `test`,
    valid if u < `test` + `valid`, else train. A sentence stays in its split when the file grows
    or is reordered, and near-identical sentences go to the same split.
    """
    digest = hashlib.sha256(sentence_key(src_text).encode()).digest()
    u = int.from_bytes(digest[:8], "big") / 2**64
    if u < hash_split.test:
        return "test"
    return "valid" if u < hash_split.test + hash_split.valid else "train"


@dataclass(frozen=True)
class _Located:
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
    then: tuple["_Located", ...] = ()

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
        if self.files.file is not None or self.held_out is not None:
            return group_by_source(list(self.stream()))
        if self.is_aligned_with_several:
            self.check_files()
            groups = (read_references(src, tgts) for src, *tgts in self.groups())
            return list(chain.from_iterable(groups))
        return [EvalExample(pair.src_text, (pair.tgt_text,)) for pair in self.stream()]


def _parts(split: PairsConfig) -> Sequence[PairsConfig]:
    """The corpora of a mixture; of any other split, itself."""
    return split.corpora if isinstance(split, SplitConfig) else (split,)


def _locate(split: PairsConfig, data: DataConfig) -> _Located:
    if isinstance(split, HeldOutSplit):
        values = split.model_dump(exclude={"config", "part", "of_first"})
        return replace(_locate(SplitConfig(**values), data), held_out=split)
    languages = (data.src_lang, data.tgt_lang)
    if split.corpus is None:
        return _Located(split, str(split.texts[0]), languages)
    return _locate_named(split.corpus, split.split, data_folder(data.folder), languages)


def _locate_named(
    corpus: str, split: str | None, folder: Path, languages: tuple[str, str] | None = None
) -> _Located:
    """The split of a named corpus, read between `languages`, by default those of its entry."""
    entry = find_entry(corpus, folder)
    name = _check_split(corpus, split, entry)
    if name in entry.joined:
        first, *then = (
            _locate_named(corpus, part, folder, languages) for part in entry.joined[name]
        )
        return replace(first, shown=f"corpus '{corpus}', split '{name}'", then=tuple(then))
    hash_split = entry.hash_split
    files, cut = entry.splits.get(name), None
    if files is None and hash_split is not None:
        files = entry.splits[hash_split.of]
        cut = (hash_split, next(part for part in RUN_SPLITS if part == name))
    assert files is not None  # _check_split let the name through
    home = corpus_folder(corpus, entry, folder)
    swapped = languages is not None and _is_swapped(corpus, entry, languages)
    shown = f"corpus '{corpus}', split '{name}'"
    limits = {home / file: spec.max_text_bytes for file, spec in entry.files.items()}
    paths = {
        "file": files.file and home / files.file,
        "src": files.src and home / files.src,
        "tgt": tuple(home / tgt for tgt in files.tgts) or None,
    }
    languages_of_entry = entry.src_lang, entry.tgt_lang
    located = _Located(
        files.model_copy(update=paths), shown, languages_of_entry, limits, cut, swapped
    )
    _check_present(corpus, entry, folder, located)
    return located


def _check_split(corpus: str, name: str | None, entry: CorpusEntry) -> str:
    if name is None or name not in entry.split_names:
        raise ConfigError(
            f"split of corpus '{corpus}': got {name!r}, allowed: {', '.join(entry.split_names)}"
        )
    return name


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


def _check_present(corpus: str, entry: CorpusEntry, folder: Path, located: _Located) -> None:
    home = corpus_folder(corpus, entry, folder)
    try:
        located.check_files()
    except DataError as error:
        absent = str(error).partition(": no such file")[0]
        if entry.embedded:
            raise DataError(
                f"corpus '{corpus}' comes with the package, but {absent} is not there; "
                "install the package again"
            ) from None
        state = f"is not in {home}"
        name = Path(absent).relative_to(home).parts[0]  # of an archive, not of its member
        if home.is_dir() and any((home / file).is_file() for file in entry.files):
            state = f"lacks {name} in {home}"
        elsewhere = "" if folder == data_folder(Path("data")) else f" `data={folder}`"
        remedy = f"get it with: nmt corpus fetch {corpus}{elsewhere} [`from_path=PATH`]"
        if not entry.files:
            remedy = f"put {name} there (its entry names no address)"
        raise DataError(f"corpus '{corpus}' {state}; {remedy}") from None
