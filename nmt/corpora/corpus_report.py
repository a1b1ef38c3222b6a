"""Statistics and faults of each split of a corpus, for `nmt corpus check` and `nmt init`."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from nmt.corpora.cleaning import CleaningRules, judge_pairs
from nmt.corpora.sources import DataConfig
from nmt.corpora.suspicions import Suspicions
from nmt.text.normalisation import sentence_key
from nmt.types import SentencePair

TRAIN = "train"

_OVERLAPS = {
    "src": "also in train: the source",
    "src_nearly": "  except case and punctuation",
    "tgt": "also in train: the target",
    "pair": "also in train: the pair",
}


@dataclass(frozen=True)
class LengthStatistics:
    """Statistics of the sentence lengths of one side, in words or pieces."""

    total: int
    mean: float
    median: int
    p90: int
    p99: int
    max: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "LengthStatistics":
        """Compute the statistics, with nearest-rank percentiles. All are 0 without lengths."""
        values = np.array(lengths or [0])
        median, p90, p99 = np.percentile(values, (50, 90, 99), method="inverted_cdf").tolist()
        return cls(int(values.sum()), float(values.mean()), median, p90, p99, int(values.max()))

    def __str__(self) -> str:
        return f"{self.mean:.1f} {self.median} {self.p90} {self.p99} {self.max}"


@dataclass(frozen=True)
class SplitReport:
    """Statistics and faults of one split. Words are separated by white space.

    `left_out` counts the pairs that `nmt corpus clean` leaves out, by reason. `in_train` counts the
    pairs of an evaluation set that share a part with train: the source, the source without case and
    punctuation (`sentence_key`), the target, or both sides. It is None for train itself, and in
    reports without train.
    """

    name: str
    pairs: int
    left_out: dict[str, int]
    src_words: LengthStatistics
    tgt_words: LengthStatistics
    in_train: dict[str, int] | None
    suspicions: tuple[str, ...]


def corpus_report(
    splits: Mapping[str, Iterable[SentencePair]], data: DataConfig
) -> list[SplitReport]:
    """Return a report for each split.

    `splits` maps names to pairs. The training split is called "train" and must come first. Only the
    other splits are held in memory. A sentence with n references has n pairs.
    """
    others = {name: list(pairs) for name, pairs in splits.items() if name != TRAIN}
    overlap = _Overlap(others.values()) if others and TRAIN in splits else None
    return [_report(name, others.get(name, pairs), data, overlap) for name, pairs in splits.items()]


def _report(
    name: str, pairs: Iterable[SentencePair], data: DataConfig, overlap: "_Overlap | None"
) -> SplitReport:
    """Report on a split. Pairs of train are added to `overlap`; other pairs are looked up in it."""
    langs = data.src_lang, data.tgt_lang
    suspicions = Suspicions(*langs)
    src_words, tgt_words = array("I"), array("I")
    reasons: Counter[str | None] = Counter()
    in_train = Counter(dict.fromkeys(_OVERLAPS, 0))
    for pair, reason in judge_pairs(pairs, CleaningRules(*langs)):
        reasons[reason] += 1
        suspicions.add(pair)
        src_words.append(len(pair.src_text.split()))
        tgt_words.append(len(pair.tgt_text.split()))
        if overlap is not None and name == TRAIN:
            overlap.add(pair)
        elif overlap is not None:
            in_train.update(overlap.parts_in_train(pair))
    return SplitReport(
        name=name,
        pairs=reasons.total(),
        left_out={reason: n for reason, n in reasons.most_common() if reason},
        src_words=LengthStatistics.of(src_words),
        tgt_words=LengthStatistics.of(tgt_words),
        in_train=None if overlap is None or name == TRAIN else dict(in_train),
        suspicions=tuple(suspicions.lines()),
    )


class _Overlap:
    """Texts and pairs of the evaluation sets, each with a flag: whether it is also in train."""

    def __init__(self, splits: Iterable[Sequence[SentencePair]]) -> None:
        pairs = chain.from_iterable(splits)
        self._in_train = {item: False for pair in pairs for item in self._items(pair)}

    def add(self, pair: SentencePair) -> None:
        for item in self._items(pair):
            if item in self._in_train:
                self._in_train[item] = True

    def parts_in_train(self, pair: SentencePair) -> Iterator[str]:
        """Yield the keys of _OVERLAPS for the parts of an evaluation pair that are in train."""
        return (item[0] for item in self._items(pair) if self._in_train[item])

    def _items(self, pair: SentencePair) -> Iterator[tuple[str, object]]:
        yield "src", pair.src_text
        yield "src_nearly", sentence_key(pair.src_text)
        yield "tgt", pair.tgt_text
        yield "pair", pair


def render_report(splits: Sequence[SplitReport]) -> str:
    """Render reports as a table with a column per split, followed by the suspicions."""
    reasons = dict.fromkeys(chain.from_iterable(split.left_out for split in splits))
    rows = [["", *(split.name for split in splits)]]
    rows.append(["pairs", *(f"{split.pairs:,}" for split in splits)])
    for reason in reasons:
        counts = (_part(split.left_out.get(reason, 0), split.pairs) for split in splits)
        rows.append([f"  {reason}", *counts])
    rows.append(["words of the source", *(f"{split.src_words.total:,}" for split in splits)])
    rows.append(["  mean, 50 %, 90 %, 99 %, max", *(str(split.src_words) for split in splits)])
    rows.append(["words of the target", *(f"{split.tgt_words.total:,}" for split in splits)])
    rows.append(["  mean, 50 %, 90 %, 99 %, max", *(str(split.tgt_words) for split in splits)])
    if any(split.in_train for split in splits):
        for key, label in _OVERLAPS.items():
            cells = (_part(s.in_train[key], s.pairs) if s.in_train else "-" for s in splits)
            rows.append([label, *cells])
    first, *widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], widths)]) for row in rows]
    doubts = [f"look at {split.name}: {doubt}" for split in splits for doubt in split.suspicions]
    return "\n".join([*lines, *([""] if doubts else []), *doubts])


def _part(count: int, total: int) -> str:
    return f"{count:,} ({count / max(total, 1):.2%})"
