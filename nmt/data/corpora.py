"""Reading the splits of a run: `read_split` and `stream_split` as pairs, `read_examples` to score.

A named corpus is a folder `<data folder>/<name>/` with the files that its entry (entries.py)
lists, as they were downloaded: archives are read without unpacking them on disk.
"""

import contextlib
import hashlib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from nmt.data.entries import (
    RUN_SPLITS,
    CorpusEntry,
    HashSplit,
    SplitName,
    corpus_folder,
    data_folder,
    find_entry,
)
from nmt.data.sources import (
    DataConfig,
    SplitConfig,
    group_by_source,
    read_references,
    stream_aligned,
    stream_tsv,
)
from nmt.data.text_files import archive_of, missing
from nmt.errors import ConfigError, DataError
from nmt.text.normalisation import composed
from nmt.types import EvalExample, SentencePair


def resolve_split(data: DataConfig, name: SplitName) -> SplitConfig | None:
    """The `name` split of the run with its corpus filled in, or None. Raises ConfigError."""
    given: SplitConfig | None = getattr(data, name)
    folder = data_folder(data.folder)
    if given is None:
        if data.corpus is None or name not in find_entry(data.corpus, folder).split_names:
            return None
        return SplitConfig(corpus=data.corpus, split=name)
    if given.corpus is not None and given.split is None:
        given = given.model_copy(update={"split": name})
    if given.corpus is not None:
        _check_split(given.corpus, given.split, find_entry(given.corpus, folder))
    return given


def read_split(split: SplitConfig, data: DataConfig) -> list[SentencePair]:
    """All pairs of a split in file order, for training.

    Raises DataError for a file that is missing, malformed or without pairs, and for a split with
    several references.
    """
    return list(stream_split(split, data))


def stream_split(split: SplitConfig, data: DataConfig) -> Iterator[SentencePair]:
    """The pairs of `read_split` in constant memory; it raises once it reaches a fault."""
    located = _locate(split, data)
    pair = None
    for pair in islice(located.stream(), split.first):
        yield pair
    if pair is None:
        raise DataError(f"{located.shown}: no sentence pairs")


def split_part(split: SplitConfig, data: DataConfig) -> str:
    """A text that names the files of a split, its part of them, and a swap of the languages.

    Two splits with equal texts and equal files have the same pairs.
    """
    located = _locate(split, data)
    members = [path.name for path in located.files.texts]
    cut = f", {located.cut[1]} by {located.cut[0]!r}" if located.cut else ""
    swapped = ", target first" if located.swapped else ""
    return f"{' '.join(members)}, first {split.first}{cut}{swapped}"


def read_examples(split: SplitConfig, data: DataConfig) -> list[EvalExample]:
    """The source sentences of a split with their references, for evaluation; nothing is dropped.

    Aligned files give one example per line. A TSV gives one per distinct source text, in order
    of first appearance, with all its targets. Raises DataError as `read_split` does.
    """
    located = _locate(split, data)
    examples = located.examples()[: split.first]
    if not examples:
        raise DataError(f"{located.shown}: no sentence pairs")
    return examples


def read_corpus(corpus: str, name: str, folder: Path) -> list[EvalExample]:
    """Split `name` of the corpus, from its source to its target language; see `read_split`."""
    return _locate_named(corpus, name, folder).examples()


def readable_splits(corpus: str, folder: Path) -> list[str]:
    """The splits of the corpus whose files are all on disk."""
    readable = []
    for name in find_entry(corpus, folder).split_names:
        with contextlib.suppress(DataError):
            _locate_named(corpus, name, folder)
            readable.append(name)
    return readable


def text_paths(split: SplitConfig, data: DataConfig) -> list[Path]:
    """The texts of a split, as paths for `stream_lines`. Raises as `split_files` does."""
    return _locate(split, data).files.texts


def split_files(split: SplitConfig, data: DataConfig) -> list[Path]:
    """The files on disk that a split is read from. Raises DataError where one is missing."""
    return _locate(split, data).check_files()


def sentence_key(text: str) -> str:
    """A key that is equal for sentences that differ only in case, spacing or punctuation.

    The text in NFKC and case-folded, with only its letters, marks and digits. A text without any
    of these is its own key.
    """
    if text.isascii():  # the same result in a fifth of the time
        return "".join(filter(str.isalnum, text.lower())) or text.lower().strip()
    folded = composed(composed(text, "NFKC").casefold(), "NFKC")
    return "".join(c for c in folded if unicodedata.category(c)[0] in "LMN") or folded.strip()


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
    exchanges source and target.
    """

    files: SplitConfig
    shown: str
    max_bytes: Mapping[Path, int] = field(default_factory=dict)
    cut: tuple[HashSplit, SplitName] | None = None
    swapped: bool = False

    def check_files(self) -> list[Path]:
        """Its files on disk. Raises DataError where one is missing or not a plain file."""
        archives = list(dict.fromkeys(map(archive_of, self.files.texts)))
        for path in archives:
            if not path.is_file():
                raise DataError(f"{path}: not a plain file" if path.exists() else missing(path))
        return archives

    def stream(self) -> Iterator[SentencePair]:
        """The pairs in file order, in constant memory."""
        self.check_files()  # reading a FIFO would block
        for pair in self._all_pairs():
            if self.cut is not None and part_of(pair.src_text, self.cut[0]) != self.cut[1]:
                continue
            yield SentencePair(pair.tgt_text, pair.src_text) if self.swapped else pair

    def _all_pairs(self) -> Iterator[SentencePair]:
        """The pairs of the files, before `cut` and `swapped` apply."""
        texts = self.files.texts
        limits = [self.max_bytes.get(archive_of(path)) for path in texts]
        if self.files.tsv is not None:
            return stream_tsv(texts[0], limits[0])
        if len(texts) == 2:
            return stream_aligned(texts[0], texts[1], (limits[0], limits[1]))
        raise DataError(
            f"{self.shown}: {len(self.files.tgts)} reference files, allowed 1 where sentences are "
            "read as pairs (training, or a named corpus read the other way round)"
        )

    def examples(self) -> list[EvalExample]:
        if self.files.tsv is not None:
            return group_by_source(list(self.stream()))
        src, *tgts = self.files.texts
        if len(tgts) > 1 and not self.cut and not self.swapped:
            self.check_files()
            return read_references(src, tgts)
        return [EvalExample(pair.src_text, (pair.tgt_text,)) for pair in self.stream()]


def _locate(split: SplitConfig, data: DataConfig) -> _Located:
    if split.corpus is None:
        return _Located(split, str(split.tsv or split.src))
    languages = (data.src_lang, data.tgt_lang)
    return _locate_named(split.corpus, split.split, data_folder(data.folder), languages)


def _locate_named(
    corpus: str, split: str | None, folder: Path, languages: tuple[str, str] | None = None
) -> _Located:
    """The split of a named corpus, read between `languages`, by default those of its entry."""
    entry = find_entry(corpus, folder)
    name = _check_split(corpus, split, entry)
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
        "tsv": files.tsv and home / files.tsv,
        "src": files.src and home / files.src,
        "tgt": tuple(home / tgt for tgt in files.tgts) or None,
    }
    located = _Located(files.model_copy(update=paths), shown, limits, cut, swapped)
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
        if home.is_dir() and any((home / name).is_file() for name in entry.files):
            state = f"lacks {Path(absent).name} in {home}"
        elsewhere = "" if folder == data_folder(Path("data")) else f" `data={folder}`"
        remedy = f"get it with: nmt corpus fetch {corpus}{elsewhere} [`from_path=PATH`]"
        if not entry.files:
            remedy = f"put {Path(absent).name} there (its entry names no address)"
        raise DataError(f"corpus '{corpus}' {state}; {remedy}") from None
