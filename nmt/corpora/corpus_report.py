"""Statistics and faults of a corpus, split by split, for `nmt corpus check` and `nmt init`."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from nmt.corpora.cleaning import CleaningRules, judged
from nmt.corpora.sources import DataConfig
from nmt.corpora.suspicions import Suspicions
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

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Lengths":
        """Total, mean and percentiles (the p-th: the least value that p per cent do not exceed)."""
        values = np.array(lengths or [0])
        median, p90, p99 = np.percentile(values, (50, 90, 99), method="inverted_cdf").tolist()
        return cls(int(values.sum()), float(values.mean()), median, p90, p99, int(values.max()))


@dataclass(frozen=True)
class SideReport:
    """One side of one split. Words are separated by white space; pieces are the tokenizer's.

    `unknown_pieces` counts pieces for which the tokenizer, learned from train, has no id.
    """

    lang: str
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
    """One split; `left_out` counts the pairs that `nmt corpus clean` leaves out, by reason.

    `over_limit` counts pairs longer than data.max_pieces on either side.
    """

    name: str
    pairs: int
    left_out: dict[str, int]
    src: SideReport
    tgt: SideReport
    over_limit: int | None
    in_train: Overlap | None
    suspicions: tuple[str, ...]


@dataclass(frozen=True)
class CorpusReport:
    """Every split of a run."""

    max_pieces: int
    splits: tuple[SplitReport, ...]

    def render(self) -> str:
        """The report in lines of text: a table with a column per split, then the suspicions."""
        reasons = list(dict.fromkeys(chain.from_iterable(s.left_out for s in self.splits)))
        columns = [list(self._cells(split, reasons)) for split in self.splits]
        labels = ["", *(label for label, _ in columns[0])]
        lines = [label.ljust(max(map(len, labels))) for label in labels]
        for split, column in zip(self.splits, columns, strict=True):
            cells = [split.name, *(cell for _, cell in column)]
            width = max(map(len, cells))
            lines = [f"{line}  {cell:>{width}}" for line, cell in zip(lines, cells, strict=True)]
        doubts = [f"look at {s.name}: {doubt}" for s in self.splits for doubt in s.suspicions]
        return "\n".join([*lines, *([""] if doubts else []), *doubts])

    def _cells(self, split: SplitReport, reasons: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The column of a split: each cell with the label of its row."""
        yield "pairs", f"{split.pairs:,}"
        for reason in reasons:
            yield f"  {reason}", _part(split.left_out.get(reason, 0), split.pairs)
        for side in (split.src, split.tgt):
            yield f"{side.lang}: words", f"{side.words.total:,}"
            yield "  mean, 50 %, 90 %, 99 %, max", _lengths(side.words)
            yield f"{side.lang}: pieces", f"{side.pieces.total:,}" if side.pieces else "-"
            yield "  mean, 50 %, 90 %, 99 %, max", _lengths(side.pieces)
            n_pieces = side.pieces.total if side.pieces else 0
            yield "  unknown pieces", _part(side.unknown_pieces, n_pieces)
        yield f"over {self.max_pieces} pieces", _part(split.over_limit, split.pairs)
        if any(other.in_train is not None for other in self.splits):
            for label, name in (
                (f"also in train: {split.src.lang}", "src"),
                ("  but for case and punctuation", "src_nearly"),
                (f"also in train: {split.tgt.lang}", "tgt"),
                ("also in train: the pair", "pair"),
            ):
                yield label, _part(getattr(split.in_train, name, None), split.pairs)


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return "-"
    return f"{lengths.mean:.1f} {lengths.median} {lengths.p90} {lengths.p99} {lengths.max}"


def _part(count: int | None, total: int) -> str:
    return "-" if count is None else f"{count:,} ({count / max(total, 1):.2%})"


def corpus_report(
    splits: Mapping[str, Iterable[SentencePair]], data: DataConfig, tokenizers: Tokenizers | None
) -> CorpusReport:
    """Count everything. Without `tokenizers` all figures in pieces are None.

    `splits` are by name; the training split is called "train", and is the first. It is read once,
    and only the others are held in memory. A sentence with n references counts as n pairs.
    """
    others = {name: list(pairs) for name, pairs in splits.items() if name != TRAIN}
    seen = _Seen(others.values()) if others and TRAIN in splits else None
    reports = [
        _split_report(name, others.get(name, pairs), data, tokenizers, seen)
        for name, pairs in splits.items()
    ]
    return CorpusReport(data.max_pieces, tuple(reports))


def _split_report(
    name: str,
    pairs: Iterable[SentencePair],
    data: DataConfig,
    tokenizers: Tokenizers | None,
    seen: "_Seen | None",
) -> SplitReport:
    """The report of a split; the pairs of train are added to `seen`, and others looked up there."""
    langs = data.src_lang, data.tgt_lang
    suspicions = Suspicions(*langs)
    src = _SideCounts(data.src_lang, tokenizers.src if tokenizers else None)
    tgt = _SideCounts(data.tgt_lang, tokenizers.tgt if tokenizers else None)
    reasons: Counter[str | None] = Counter()
    overlap: Counter[str] = Counter()
    judgements = judged(pairs, CleaningRules(*langs))
    while chunk := list(islice(judgements, _CHUNK_PAIRS)):
        for judgement in chunk:
            reasons[judgement.reason] += 1
            suspicions.add(judgement.pair)
            if seen is not None and name == TRAIN:
                seen.add(judgement.pair)
            elif seen is not None:
                overlap.update(seen.sides_in_train(judgement.pair))
        src.add([judgement.pair.src_text for judgement in chunk])
        tgt.add([judgement.pair.tgt_text for judgement in chunk])
    over_limit = in_train = None
    if seen is not None and name != TRAIN:
        in_train = Overlap(**{key: overlap[key] for key in ("src", "src_nearly", "tgt", "pair")})
    if tokenizers is not None:
        over_limit = int((np.maximum(src.pieces, tgt.pieces) > data.max_pieces).sum())
    return SplitReport(
        name=name,
        pairs=reasons.total(),
        left_out={reason: n for reason, n in reasons.most_common() if reason},
        src=src.report(),
        tgt=tgt.report(),
        over_limit=over_limit,
        in_train=in_train,
        suspicions=tuple(suspicions.lines()),
    )


class _Seen:
    """Texts of the evaluation sets that the training split has too; its pairs are added."""

    def __init__(self, splits: Iterable[Sequence[SentencePair]]) -> None:
        pairs = chain.from_iterable(splits)
        self._in_train = {item: False for pair in pairs for item in self._items(pair)}

    def add(self, pair: SentencePair) -> None:
        for item in self._items(pair):
            if item in self._in_train:
                self._in_train[item] = True

    def sides_in_train(self, pair: SentencePair) -> Iterator[str]:
        """The sides of a pair of an evaluation set that train has too, as `Overlap` calls them."""
        return (item[0] for item in self._items(pair) if self._in_train[item])

    def _items(self, pair: SentencePair) -> Iterator[tuple[str, object]]:
        yield "src", pair.src_text
        yield "src_nearly", sentence_key(pair.src_text)
        yield "tgt", pair.tgt_text
        yield "pair", pair


class _SideCounts:
    """The figures of one side, while its texts are added."""

    def __init__(self, lang: str, tokenizer: Tokenizer | None) -> None:
        self.lang = lang
        self._tokenizer = tokenizer
        self._n_unknown = 0
        self._words, self.pieces = array("I"), array("I")

    def add(self, texts: Sequence[str]) -> None:
        self._words.extend(len(text.split()) for text in texts)
        if self._tokenizer is not None:
            ids = self._tokenizer.encode_batch(texts)
            self._n_unknown += sum(row.count(UNK_ID) for row in ids)
            self.pieces.extend(map(len, ids))

    def report(self) -> SideReport:
        words = Lengths.of(self._words)
        if self._tokenizer is None:
            return SideReport(self.lang, words, None, None)
        return SideReport(self.lang, words, Lengths.of(self.pieces), self._n_unknown)
