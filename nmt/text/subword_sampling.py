"""Random segmentation of words into pieces, for training.

BPE-dropout (Provilkov et al. 2020, arXiv 1910.13267) for pieces of byte-pair merges, subword
regularisation (Kudo 2018, arXiv 1804.10959) for those of a unigram language model. SentencePiece's
own samplers draw from one generator of the process; these draw from the one that they are given,
so that a sentence's pieces do not depend on what was drawn before.
"""

import bisect
import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from pydantic import Field

from nmt.settings.base import Config
from nmt.text.vocabulary import Vocab

Ids = tuple[int, ...]

_CACHED_WORDS = 1 << 14
"""Words whose segmentations are kept: 100 MB a side with 64 segmentations each."""


class SubwordSamplingConfig(Config):
    """Other pieces of the same words in each epoch, for training only. `tokenizer.model_type` is
    the method: BPE-dropout (Provilkov et al. 2020, arXiv 1910.13267) or unigram sampling (Kudo
    2018, arXiv 1804.10959).
    """

    src: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="source side, bpe: probability that a merge is left out, drawn anew for each "
        "possible merge before each merge (the paper: 0.1); unigram: probability that a word is "
        "drawn and does not take its best pieces (the paper: 1)",
    )
    tgt: float = Field(default=0.0, ge=0, le=1, description="target side, likewise")
    alpha: float = Field(
        default=0.2,
        ge=0,
        le=100,
        description="unigram: exponent of a segmentation's probability; 0 draws all alike, a great "
        "one takes the best (the paper: 0.2 or 0.5)",
    )
    n_best: int = Field(
        default=64,
        ge=1,
        le=512,
        description="unigram: the number of best segmentations of a word that are drawn from (the "
        "paper: 64 of a sentence)",
    )


@runtime_checkable
class Segmenter(Protocol):
    """The part that a sampler needs of a SentencePiece tokenizer."""

    vocab: Vocab
    processor: Any

    def words(self, ids: Sequence[int]) -> list[str]:
        """The parts of a text that no piece crosses."""

    def word_text(self, word: str) -> str:
        """The text that the processor cuts into the pieces of one of `words`."""


class Sampler(ABC):
    """Draws segmentations of the words of a text."""

    def __init__(self, tokenizer: Segmenter) -> None:
        self._tokenizer = tokenizer
        processor, pieces = tokenizer.processor, tokenizer.vocab.pieces
        kinds = (processor.is_control, processor.is_unknown, processor.is_byte)
        known = set(pieces)  # a given model's symbols may have other letters
        self._special = frozenset(
            i
            for i, piece in enumerate(pieces)
            if any(is_kind(i) for is_kind in kinds) or not known.issuperset(piece)
        )

    def sample(self, ids: Ids, rng: random.Random) -> Ids:
        """Return other ids of the text that `ids` encode, drawn from `rng` alone.

        A text with an unknown piece, or with bytes for one, keeps its ids.
        """
        if not self._special.isdisjoint(ids):
            return ids
        return tuple(itertools.chain.from_iterable(self._draw(self._tokenizer.words(ids), rng)))

    @abstractmethod
    def _draw(self, words: Sequence[str], rng: random.Random) -> Iterator[Ids]:
        """Yield drawn ids of each word."""


class BPEDropout(Sampler):
    """Byte-pair merges, each left out with probability `rate` (Provilkov et al. 2020, algorithm 1).

    Until none is left: each possible merge of two neighbours is dropped with probability `rate`,
    and the best of the others is made, the leftmost of equal ones; the word is done when all are
    dropped. With rate 0 these are the pieces of the processor.
    """

    def __init__(self, tokenizer: Segmenter, rate: float) -> None:
        super().__init__(tokenizer)
        self._rate = rate
        pieces = enumerate(tokenizer.vocab.pieces)
        self._ids = {piece: i for i, piece in pieces if i not in self._special}
        get_score = tokenizer.processor.get_score
        self._scores = {piece: get_score(i) for piece, i in self._ids.items()}
        self._plain = lru_cache(_CACHED_WORDS)(self._plain_and_draws)

    def _draw(self, words: Sequence[str], rng: random.Random) -> Iterator[Ids]:
        drops = _Drops(self._rate, rng)
        for word in words:
            plain, n_draws = self._plain(word)
            if drops.kept_next >= n_draws:  # then no merge of this word is dropped
                drops.kept_next -= n_draws
                yield plain
            else:
                yield self._merged(word, drops)

    def _plain_and_draws(self, word: str) -> tuple[Ids, int]:
        """The ids without dropout, and the number of draws that it takes to get them."""
        drops = _Drops(0.0, random.Random())
        before = drops.kept_next
        ids = self._merged(word, drops)
        return ids, before - drops.kept_next

    def _merged(self, word: str, drops: "_Drops") -> Ids:
        pieces = list(word)
        scores = [self._scores.get(a + b) for a, b in itertools.pairwise(pieces)]
        while True:
            best, place = -math.inf, -1
            for i, score in enumerate(scores):
                if score is not None and not drops.next() and score > best:
                    best, place = score, i
            if place < 0:
                return tuple(self._ids[piece] for piece in pieces)
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
            del scores[place]
            for i in (place - 1, place):
                if 0 <= i < len(scores):
                    scores[i] = self._scores.get(pieces[i] + pieces[i + 1])


class _Drops:
    """Independent draws of one probability, made by the gap to the next success.

    The gap is geometric, so that a random number is needed a drop and not a draw. `kept_next` is
    the number of draws that fail before the next one succeeds.
    """

    def __init__(self, rate: float, rng: random.Random) -> None:
        self._log_kept = math.log1p(-rate) if rate < 1 else -math.inf
        self._rng = rng
        self.kept_next = self._gap()

    def next(self) -> bool:
        if self.kept_next:
            self.kept_next -= 1
            return False
        self.kept_next = self._gap()
        return True

    def _gap(self) -> int:
        if not self._log_kept:
            return 1 << 62
        return int(min(math.log1p(-self._rng.random()) / self._log_kept, 1e18))


class UnigramSampler(Sampler):
    """Segmentations drawn from the n best of a word (Kudo 2018, section 3.2).

    P(x_i | X) = P(x_i)^alpha / sum over the n best of P(x_j)^alpha. The words of a text are
    independent in a unigram model, so each is drawn apart: with a probability of `rate`, else
    it takes its best pieces.
    """

    def __init__(self, tokenizer: Segmenter, rate: float, config: SubwordSamplingConfig) -> None:
        super().__init__(tokenizer)
        self._rate = rate
        self._config = config
        self._choices = lru_cache(_CACHED_WORDS)(self._segmentations)

    def _draw(self, words: Sequence[str], rng: random.Random) -> Iterator[Ids]:
        for word in words:
            segmentations, ends = self._choices(word)
            place = 0
            if len(ends) > 1 and rng.random() < self._rate:
                place = bisect.bisect_right(ends, rng.random() * ends[-1], hi=len(ends) - 1)
            yield segmentations[place]

    def _segmentations(self, word: str) -> tuple[Sequence[Ids], Sequence[float]]:
        """The segmentations, the best one first, and the cumulative sums of their weights."""
        processor, text = self._tokenizer.processor, self._tokenizer.word_text(word)
        segmentations = processor.nbest_encode(text, nbest_size=self._config.n_best, out_type=int)
        logs = [sum(processor.get_score(ids)) for ids in segmentations]
        weights = [math.exp(self._config.alpha * (log - logs[0])) for log in logs]
        return list(map(tuple, segmentations)), list(itertools.accumulate(weights))
