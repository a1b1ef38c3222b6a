"""Statistics of a corpus, split by split: the numbers of `nmt corpus check`."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice

from nmt.corpora.distinct import DistinctCounter, fingerprint
from nmt.corpora.file_report import FileReport
from nmt.corpora.sources import DataConfig
from nmt.corpora.suspicions import Suspicions
from nmt.text.characters import CharacterCounts, OddCharacter
from nmt.text.normalisation import sentence_key
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.types import SentencePair

TRAIN = "train"
_CHUNK_PAIRS = 10_000


@dataclass(frozen=True)
class Lengths:
    """Sentence lengths, in words or in pieces; a percentile is one of the lengths."""

    total: int
    mean: float
    median: int
    p90: int
    p99: int
    max: int


@dataclass(frozen=True)
class SideReport:
    """One side of one split. Words are separated by white space; pieces are the tokenizer's.

    `unknown_pieces` counts pieces for which the tokenizer, learned from train, has no id.
    """

    lang: str
    empty: int
    distinct: int
    word_types: int
    words: Lengths
    pieces: Lengths | None
    unknown_pieces: int | None


@dataclass(frozen=True)
class Overlap:
    """The number of pairs with a side in train; `src_nearly` compares by `sentence_key`."""

    src: int
    src_nearly: int
    tgt: int
    pair: int


@dataclass(frozen=True)
class SplitReport:
    """One split; `over_limit` counts pairs longer than data.max_pieces on either side.

    With `is_estimated`, so many sentences or words are different that their numbers, and that of
    repeated pairs, are estimates (distinct.py).
    """

    name: str
    pairs: int
    repeated_pairs: int
    src: SideReport
    tgt: SideReport
    over_limit: int | None
    in_train: Overlap | None
    suspicions: tuple[str, ...] = ()
    is_estimated: bool = False


@dataclass(frozen=True)
class CorpusReport:
    """Every split of a run, and the unusual characters over all of them."""

    max_pieces: int
    splits: tuple[SplitReport, ...]
    src_characters: tuple[OddCharacter, ...]
    tgt_characters: tuple[OddCharacter, ...]
    files: tuple[FileReport, ...] = ()


def corpus_report(
    splits: Mapping[str, Iterable[SentencePair]],
    data: DataConfig,
    tokenizers: Tokenizers | None,
    files: Sequence[FileReport] = (),
) -> CorpusReport:
    """Count everything. Without `tokenizers` all figures in pieces are None.

    `splits` are by name; the training split is called "train". Each is read twice from its
    beginning, and only the others are held in memory. A sentence with n references counts as n
    pairs. `files` are the files that the splits are read from.
    """
    characters = CharacterCounts(), CharacterCounts()
    others = {name: list(pairs) for name, pairs in splits.items() if name != TRAIN}
    train = _Seen(others.values()) if others and TRAIN in splits else None
    counted = {
        name: _SplitCounts(others.get(name, pairs), data, tokenizers, characters, name, train)
        for name, pairs in splits.items()
    }
    return CorpusReport(
        max_pieces=data.max_pieces,
        splits=tuple(
            counts.report(name, train.overlap(others[name]) if train and name in others else None)
            for name, counts in counted.items()
        ),
        src_characters=tuple(characters[0].odd()),
        tgt_characters=tuple(characters[1].odd()),
        files=tuple(files),
    )


class _Seen:
    """Texts of the evaluation sets that the training split has too; its pairs are added."""

    def __init__(self, splits: Iterable[Sequence[SentencePair]]) -> None:
        self._pairs, self._src, self._tgt, self._keys = (dict[object, bool]() for _ in range(4))
        for pair in chain.from_iterable(splits):
            self._pairs[pair] = self._src[pair.src_text] = self._tgt[pair.tgt_text] = False
            self._keys[sentence_key(pair.src_text)] = False

    def add(self, pair: SentencePair) -> None:
        for table, item in self._items(pair):
            if item in table:
                table[item] = True

    def overlap(self, pairs: Sequence[SentencePair]) -> Overlap:
        columns = [[table[item] for table, item in self._items(pair)] for pair in pairs]
        pair, src, tgt, key = (
            (sum(column) for column in zip(*columns, strict=True)) if columns else [0] * 4
        )
        return Overlap(src=src, src_nearly=key, tgt=tgt, pair=pair)

    def _items(self, pair: SentencePair) -> Iterator[tuple[dict[object, bool], object]]:
        yield self._pairs, pair
        yield self._src, pair.src_text
        yield self._tgt, pair.tgt_text
        yield self._keys, sentence_key(pair.src_text)


class _SideCounts:
    """The figures of one side, while its texts are added."""

    def __init__(self, lang: str, tokenizer: Tokenizer | None) -> None:
        self.lang = lang
        self._tokenizer = tokenizer
        self._empty = self._unknown = 0
        self._words: Counter[int] = Counter()
        self._pieces: Counter[int] = Counter()
        self._distinct, self._word_types = DistinctCounter(), DistinctCounter()

    def add(self, texts: Sequence[str]) -> list[int]:
        """Count the texts; gives the length in pieces of each, if there is a tokenizer."""
        for text in texts:
            words = text.split()
            self._word_types.add(words)
            self._words[len(words)] += 1
            self._empty += not text.strip()
        self._distinct.add(map(fingerprint, texts))
        if self._tokenizer is None:
            return []
        ids = self._tokenizer.encode_batch(texts)
        self._unknown += sum(row.count(UNK_ID) for row in ids)
        lengths = [len(row) for row in ids]
        self._pieces.update(lengths)
        return lengths

    @property
    def is_exact(self) -> bool:
        return self._distinct.is_exact and self._word_types.is_exact

    def report(self) -> SideReport:
        has_pieces = self._tokenizer is not None
        return SideReport(
            lang=self.lang,
            empty=self._empty,
            distinct=self._distinct.count,
            word_types=self._word_types.count,
            words=lengths_of(self._words),
            pieces=lengths_of(self._pieces) if has_pieces else None,
            unknown_pieces=self._unknown if has_pieces else None,
        )


class _SplitCounts:
    """The figures of one split, which is read twice: to count its pairs, and to look at them."""

    def __init__(
        self,
        pairs: Iterable[SentencePair],
        data: DataConfig,
        tokenizers: Tokenizers | None,
        characters: tuple[CharacterCounts, CharacterCounts],
        name: str,
        train: _Seen | None,
    ) -> None:
        src, tgt = (tokenizers.src, tokenizers.tgt) if tokenizers else (None, None)
        self._sides = _SideCounts(data.src_lang, src), _SideCounts(data.tgt_lang, tgt)
        self._n_pairs = sum(1 for _ in pairs)
        self._distinct = DistinctCounter()
        self._suspicions = Suspicions(self._n_pairs, data.src_lang, data.tgt_lang)
        self._over_limit = 0 if tokenizers else None
        remaining = iter(pairs)
        while chunk := list(islice(remaining, _CHUNK_PAIRS)):
            for pair in chunk:
                characters[0].add(pair.src_text)
                characters[1].add(pair.tgt_text)
                self._suspicions.add(pair)
                if train is not None and name == TRAIN:
                    train.add(pair)
            both = (f"{len(pair.src_text)} {pair.src_text}{pair.tgt_text}" for pair in chunk)
            self._distinct.add(map(fingerprint, both))
            src_lengths = self._sides[0].add([pair.src_text for pair in chunk])
            tgt_lengths = self._sides[1].add([pair.tgt_text for pair in chunk])
            if self._over_limit is not None:
                longest = map(max, src_lengths, tgt_lengths)
                self._over_limit += sum(length > data.max_pieces for length in longest)

    def report(self, name: str, in_train: Overlap | None) -> SplitReport:
        return SplitReport(
            name=name,
            pairs=self._n_pairs,
            repeated_pairs=max(0, self._n_pairs - self._distinct.count),
            src=self._sides[0].report(),
            tgt=self._sides[1].report(),
            over_limit=self._over_limit,
            in_train=in_train,
            suspicions=tuple(self._suspicions.lines()),
            is_estimated=not all(
                counts.is_exact for counts in (self._distinct, self._sides[0], self._sides[1])
            ),
        )


def lengths_of(counts: Mapping[int, int]) -> Lengths:
    """Total, mean and percentiles (the p-th: the least value that p per cent do not exceed).

    `counts` has the number of sentences of each length.
    """
    ranked = sorted(counts.items()) or [(0, 1)]
    n_values, total = sum(n for _, n in ranked), sum(length * n for length, n in ranked)
    ends = list(accumulate(n for _, n in ranked))
    median, p90, p99 = (
        ranked[bisect_right(ends, max(0, -(-n_values * q // 100) - 1))][0] for q in (50, 90, 99)
    )
    return Lengths(total, total / n_values, median, p90, p99, ranked[-1][0])
