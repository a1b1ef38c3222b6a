"""Random segmentation of words into pieces, for training.

A BPE model uses BPE-dropout (Provilkov et al. 2020, arXiv 1910.13267), a unigram model subword
regularisation (Kudo 2018, arXiv 1804.10959). SentencePiece's own samplers share one random
generator per process. The samplers here take a generator as an argument, so the pieces of a
sentence do not depend on earlier draws.
"""

import bisect
import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import Field

from nmt.settings.base import Config
from nmt.types import Ids

if TYPE_CHECKING:
    from nmt.text.sentencepiece_tokenizer import SentencePieceTokenizer

_CACHED_WORDS = 1 << 14  # 100 MB per side with 64 segmentations each


class SubwordSamplingConfig(Config):
    """Random segmentation of words into pieces, drawn in each epoch, for training only.

    `tokenizer.model_type` determines the method: BPE-dropout (Provilkov et al. 2020, arXiv
    1910.13267) or unigram sampling (Kudo 2018, arXiv 1804.10959).
    """

    src: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="source side; bpe: probability that a possible merge is dropped at each step "
        "of merging (0.1 in the paper); unigram: probability that a word's segmentation is sampled "
        "instead of the best one (1 in the paper)",
    )
    tgt: float = Field(default=0.0, ge=0, le=1, description="the same for the target side")
    alpha: float = Field(
        default=0.2,
        ge=0,
        le=100,
        description="unigram: exponent of the segmentation probabilities; 0 samples uniformly, a "
        "large value takes the best segmentation (0.2 or 0.5 in the paper)",
    )
    n_best: int = Field(
        default=64,
        ge=1,
        le=512,
        description="unigram: number of best segmentations of a word to sample from (64 of a "
        "sentence in the paper)",
    )

    @property
    def is_on(self) -> bool:
        return self.src > 0 or self.tgt > 0


class Sampler(ABC):
    """Base class of samplers, which draw segmentations of the words of a text."""

    def __init__(self, tokenizer: "SentencePieceTokenizer", rate: float) -> None:
        self._tokenizer, self._rate = tokenizer, rate
        processor, pieces = tokenizer.processor, tokenizer.vocab.pieces
        kinds = (processor.is_control, processor.is_unknown, processor.is_byte)
        known = set(pieces)  # letters of symbols in a user's model need not be pieces
        self._special = frozenset(
            i
            for i, piece in enumerate(pieces)
            if any(is_kind(i) for is_kind in kinds) or not known.issuperset(piece)
        )

    def sample(self, ids: Ids, rng: random.Random) -> Ids:
        """Return the ids of a segmentation of the text of `ids`, drawn from `rng`.

        If the text has an unknown piece or a byte piece, `ids` are returned unchanged.
        """
        if not self._special.isdisjoint(ids):
            return ids
        return tuple(itertools.chain.from_iterable(self._draw(self._tokenizer.words(ids), rng)))

    @abstractmethod
    def _draw(self, words: Sequence[str], rng: random.Random) -> Iterator[Ids]:
        """Yield the sampled ids of each word."""


class BPEDropout(Sampler):
    """BPE-dropout (Provilkov et al. 2020, algorithm 1).

    At each step, every possible merge of two adjacent pieces is dropped with probability `rate`,
    and the best remaining merge is applied (the leftmost among equals). The word is done if no
    merge remains. With rate 0, the result is the segmentation of SentencePiece.
    """

    def __init__(self, tokenizer: "SentencePieceTokenizer", rate: float) -> None:
        super().__init__(tokenizer, rate)
        pieces = enumerate(tokenizer.vocab.pieces)
        self._ids = {piece: i for i, piece in pieces if i not in self._special}
        self._scores = {piece: tokenizer.processor.get_score(i) for piece, i in self._ids.items()}
        self._plain = lru_cache(_CACHED_WORDS)(self._plain_and_draws)

    def _draw(self, words: Sequence[str], rng: random.Random) -> Iterator[Ids]:
        drops = _Drops(self._rate, rng)
        for word in words:
            plain, n_draws = self._plain(word)
            if drops.n_before_next >= n_draws:  # no merge of this word is dropped
                drops.n_before_next -= n_draws
                yield plain
            else:
                yield self._merged(word, drops)

    def _plain_and_draws(self, word: str) -> tuple[Ids, int]:
        """Return the ids without dropout, and the number of draws if none is a drop."""
        drops = _Drops(0.0, random.Random())
        before = drops.n_before_next
        ids = self._merged(word, drops)
        return ids, before - drops.n_before_next

    def _merged(self, word: str, drops: "_Drops") -> Ids:
        pieces = list(word)
        scores = [self._scores.get(a + b) for a, b in itertools.pairwise(pieces)]
        while True:
            best, index = -math.inf, -1
            for i, score in enumerate(scores):
                if score is not None and not drops.next() and score > best:
                    best, index = score, i
            if index < 0:
                return tuple(self._ids[piece] for piece in pieces)
            pieces[index : index + 2] = [pieces[index] + pieces[index + 1]]
            del scores[index]
            for i in (index - 1, index):
                if 0 <= i < len(scores):
                    scores[i] = self._scores.get(pieces[i] + pieces[i + 1])


class _Drops:
    """A sequence of independent draws, each a drop with probability `rate`.

    The number of draws before the next drop, `n_before_next`, is sampled from the geometric
    distribution. This takes one random number per drop instead of one per draw.
    """

    def __init__(self, rate: float, rng: random.Random) -> None:
        self._log_keep = math.log1p(-rate) if rate < 1 else -math.inf
        self._rng = rng
        self.n_before_next = self._gap()

    def next(self) -> bool:
        if self.n_before_next:
            self.n_before_next -= 1
            return False
        self.n_before_next = self._gap()
        return True

    def _gap(self) -> int:
        if not self._log_keep:
            return 1 << 62
        return int(min(math.log1p(-self._rng.random()) / self._log_keep, 1e18))


class UnigramSampler(Sampler):
    """Samples from the n best segmentations of a word (Kudo 2018, section 3.2).

    P(x_i | X) = P(x_i)^alpha / sum over the n best of P(x_j)^alpha. Words are independent in a
    unigram model, so each word is segmented separately. With probability `rate`, its segmentation
    is sampled, and otherwise it is the best one.
    """

    def __init__(
        self, tokenizer: "SentencePieceTokenizer", rate: float, config: SubwordSamplingConfig
    ) -> None:
        super().__init__(tokenizer, rate)
        self._config = config
        self._choices = lru_cache(_CACHED_WORDS)(self._segmentations)

    def _draw(self, words: Sequence[str], rng: random.Random) -> Iterator[Ids]:
        for word in words:
            segmentations, sums = self._choices(word)
            index = 0
            if len(sums) > 1 and rng.random() < self._rate:
                index = bisect.bisect_right(sums, rng.random() * sums[-1], hi=len(sums) - 1)
            yield segmentations[index]

    def _segmentations(self, word: str) -> tuple[Sequence[Ids], Sequence[float]]:
        """Return the segmentations, best first, and the cumulative sums of their weights."""
        processor, text = self._tokenizer.processor, self._tokenizer.word_text(word)
        segmentations = processor.nbest_encode(text, nbest_size=self._config.n_best, out_type=int)
        logs = [sum(processor.get_score(ids)) for ids in segmentations]
        weights = [math.exp(self._config.alpha * (log - logs[0])) for log in logs]
        return list(map(tuple, segmentations)), list(itertools.accumulate(weights))
