"""Statistics of a corpus, split by split: the numbers of `nmt corpus check`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmt.data.corpora import sentence_key
from nmt.data.file_report import FileReport
from nmt.data.sources import DataConfig
from nmt.data.suspicions import suspicions
from nmt.text.characters import OddCharacter, odd_characters
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.types import SentencePair

TRAIN = "train"


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
    """One split; `over_limit` counts pairs longer than data.max_pieces on either side."""

    name: str
    pairs: int
    repeated_pairs: int
    src: SideReport
    tgt: SideReport
    over_limit: int | None
    in_train: Overlap | None
    suspicions: tuple[str, ...] = ()


@dataclass(frozen=True)
class CorpusReport:
    """Every split of a run, and the unusual characters over all of them."""

    max_pieces: int
    splits: tuple[SplitReport, ...]
    src_characters: tuple[OddCharacter, ...]
    tgt_characters: tuple[OddCharacter, ...]
    files: tuple[FileReport, ...] = ()


def corpus_report(
    splits: Mapping[str, Sequence[SentencePair]],
    data: DataConfig,
    tokenizers: Tokenizers | None,
    files: Sequence[FileReport] = (),
) -> CorpusReport:
    """Count everything. Without `tokenizers` all figures in pieces are None. A pure function.

    `splits` are by name; the training split is called "train". A sentence with n references counts
    as n pairs. `files` are the files that the splits are read from.
    """
    train = _Seen(splits[TRAIN]) if TRAIN in splits else None
    return CorpusReport(
        max_pieces=data.max_pieces,
        splits=tuple(
            _split_report(name, pairs, data, tokenizers, None if name == TRAIN else train)
            for name, pairs in splits.items()
        ),
        src_characters=tuple(odd_characters([p.src_text for s in splits.values() for p in s])),
        tgt_characters=tuple(odd_characters([p.tgt_text for s in splits.values() for p in s])),
        files=tuple(files),
    )


class _Seen:
    """Lookup tables of the training split."""

    def __init__(self, pairs: Sequence[SentencePair]) -> None:
        self.pairs = set(pairs)
        self.src_texts = {pair.src_text for pair in pairs}
        self.tgt_texts = {pair.tgt_text for pair in pairs}
        self.src_keys = set(map(sentence_key, self.src_texts))

    def overlap(self, pairs: Sequence[SentencePair]) -> Overlap:
        return Overlap(
            src=sum(pair.src_text in self.src_texts for pair in pairs),
            src_nearly=sum(sentence_key(pair.src_text) in self.src_keys for pair in pairs),
            tgt=sum(pair.tgt_text in self.tgt_texts for pair in pairs),
            pair=sum(pair in self.pairs for pair in pairs),
        )


def _split_report(
    name: str,
    pairs: Sequence[SentencePair],
    data: DataConfig,
    tokenizers: Tokenizers | None,
    train: _Seen | None,
) -> SplitReport:
    src_tokenizer, tgt_tokenizer = (tokenizers.src, tokenizers.tgt) if tokenizers else (None, None)
    src, src_lengths = _side_report(data.src_lang, [p.src_text for p in pairs], src_tokenizer)
    tgt, tgt_lengths = _side_report(data.tgt_lang, [p.tgt_text for p in pairs], tgt_tokenizer)
    longest = map(max, src_lengths, tgt_lengths)
    return SplitReport(
        name=name,
        pairs=len(pairs),
        repeated_pairs=len(pairs) - len(set(pairs)),
        src=src,
        tgt=tgt,
        over_limit=sum(n > data.max_pieces for n in longest) if tokenizers else None,
        in_train=train.overlap(pairs) if train is not None else None,
        suspicions=tuple(suspicions(pairs, data.src_lang, data.tgt_lang)),
    )


def _side_report(
    lang: str, texts: Sequence[str], tokenizer: Tokenizer | None
) -> tuple[SideReport, list[int]]:
    """The report of a side, and the length in pieces of each of its texts."""
    word_types: set[str] = set()
    n_words = []
    for text in texts:
        words = text.split()
        word_types.update(words)
        n_words.append(len(words))
    ids = tokenizer.encode_batch(texts) if tokenizer is not None else []
    n_pieces = [len(row) for row in ids]
    report = SideReport(
        lang=lang,
        empty=sum(not text.strip() for text in texts),
        distinct=len(set(texts)),
        word_types=len(word_types),
        words=lengths_of(n_words),
        pieces=lengths_of(n_pieces) if tokenizer is not None else None,
        unknown_pieces=sum(row.count(UNK_ID) for row in ids) if tokenizer is not None else None,
    )
    return report, n_pieces


def lengths_of(values: Sequence[int]) -> Lengths:
    """Total, mean and percentiles (the p-th: the least value that p per cent do not exceed)."""
    ranked = sorted(values) or [0]
    median, p90, p99 = (ranked[max(0, -(-len(ranked) * q // 100) - 1)] for q in (50, 90, 99))
    return Lengths(sum(ranked), sum(ranked) / len(ranked), median, p90, p99, ranked[-1])
