"""SearchConfig: the settings of a search for translations and of the choice among them."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from nmt.settings.base import Config, Conflict

MAX_PIECES = 100_000  # the largest bound of a translation's length, so that every search ends


class SamplingConfig(Config):
    """Sampling of translations from the model's distribution, instead of a search for the best."""

    temperature: float = Field(
        default=1.0,
        gt=0,
        le=100,
        description="divisor of the logits; below 1, probable pieces become more probable",
    )
    top_k: int | None = Field(
        default=None,
        ge=1,
        description="sample from the k most probable pieces (arXiv 1805.04833); null: from all",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="sample from the most probable pieces that together have this probability "
        "(nucleus, arXiv 1904.09751), among those that top_k leaves",
    )
    epsilon: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="pieces of lower probability are not sampled (arXiv 2210.15191)",
    )
    seed: int = Field(default=1, ge=0, description="random seed of sampling")


class MBRConfig(Config):
    """Minimum Bayes risk: choose the candidate with the highest mean similarity to all."""

    samples: int | None = Field(
        default=32,
        ge=1,
        le=10_000,
        description="translations sampled per sentence as candidates; null: beam hypotheses",
    )
    epsilon: float = Field(
        default=0.02,
        ge=0,
        lt=1,
        description="pieces of lower probability are not sampled; 0: no limit",
    )
    utility: Literal["chrf", "bleu"] = Field(
        default="chrf", description="similarity of two translations: sacreBLEU's chrF2 or BLEU"
    )
    seed: int = Field(default=1, ge=0, description="random seed of the samples")


class SearchConfig(Config):
    """The settings of a beam search for translations, or of sampling in its place."""

    beam: int = Field(
        default=5, ge=1, le=10_000, description="hypotheses kept per sentence; 1: greedy search"
    )
    n_best: int = Field(
        default=1,
        ge=1,
        description="hypotheses per sentence: up to beam or mbr.samples; any number with sampling",
    )
    length_penalty: float = Field(
        default=0.6,
        ge=0,
        le=10,
        description="alpha in score = log-probability / ((5 + pieces) / 6)^alpha (arXiv "
        "1609.08144); 0 favours short translations",
    )
    min_length: int = Field(
        default=0,
        ge=0,
        le=MAX_PIECES,
        description="smallest number of pieces of a translation, eos not counted",
    )
    max_length_factor: float = Field(
        default=2.0,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        description="a translation has at most max_length_factor * (source pieces, eos "
        "included) + max_length_extra pieces",
    )
    max_length_extra: int = Field(
        default=10, ge=0, le=MAX_PIECES, description="pieces; see max_length_factor"
    )
    max_length: int = Field(
        default=1000,
        ge=1,
        le=MAX_PIECES,
        description="largest number of pieces of a translation, however long its source",
    )
    max_repeats: int | None = Field(
        default=3,
        ge=2,
        description="how often in a row a translation may have the same sequence of pieces; as "
        "often as its source if the source repeats one more often; null: no bound",
    )
    no_repeat_ngram: int | None = Field(
        default=None,
        ge=1,
        description="n: no n-gram of pieces occurs twice in a translation (arXiv 1705.04304); "
        "null: no such ban",
    )
    must: tuple[str, ...] = Field(
        default=(),
        description="words that must occur (arXiv 1804.06609), written as in the text",
    )
    must_not: tuple[str, ...] = Field(
        default=(), description="words that must not occur, written as in the text"
    )
    keep_numbers: bool = Field(
        default=False,
        description="whether beam search translates a sentence again, with its numbers as required "
        "words, if the translation lacks a number that the source has in digits; samples are never "
        "changed",
    )
    correct_spelling: bool = Field(
        default=False,
        description="whether a source word that the training text lacks is read as one that it has "
        "if a typing slip is the likely difference (docs/search.md)",
    )
    sampling: SamplingConfig | None = Field(
        default=None, description="sample translations; null: beam search"
    )
    mbr: MBRConfig | None = Field(
        default=None, description="choose among candidates by minimum Bayes risk; null: by score"
    )
    batch_size: int = Field(default=64, ge=1, description="sentences translated at a time")
    allow_unk: bool = Field(default=True, description="whether <unk> may be produced")

    def _conflicts(self) -> Iterator[Conflict]:
        if self.n_best > self.max_n_best and self.sampling is None:
            limit = "mbr.samples" if self.uses_sampling else "beam"
            yield "n_best", f"got {self.n_best}, allowed: 1 to {limit} ({self.max_n_best})"
        if self.min_length >= self.max_length:
            yield "min_length", f"got {self.min_length}, allowed: below max_length"
        if self.sampling is not None and self.mbr is not None:
            yield "sampling", "mbr samples by itself: remove sampling or mbr"
        if self.must and self.uses_sampling:
            yield "must", "got words with sampling, allowed: only with beam search"
        for word in (*self.must, *self.must_not):
            if not word.strip():
                yield "must" if word in self.must else "must_not", f"got '{word}', allowed: a word"
        if both := set(self.must) & set(self.must_not):
            yield "must_not", f"got '{min(both)}', which is also in must"

    @property
    def uses_sampling(self) -> bool:
        """Whether translations, or the candidates of `mbr`, are sampled instead of searched for."""
        return self.sampling is not None or (self.mbr is not None and self.mbr.samples is not None)

    @property
    def max_n_best(self) -> int:
        """The largest `n_best` without `sampling`: `mbr.samples` if set, otherwise `beam`."""
        return (self.mbr and self.mbr.samples) or self.beam

    def candidate_search(self) -> "SearchConfig":
        """Return the search for the candidates of `mbr`; without `mbr`, this search."""
        if self.mbr is None:
            return self
        sampling = None
        if self.uses_sampling:
            sampling = SamplingConfig(epsilon=self.mbr.epsilon, seed=self.mbr.seed)
        update = {"mbr": None, "sampling": sampling, "n_best": self.max_n_best}
        return self.model_copy(update=update)

    def plain_beam(self, beam: int) -> "SearchConfig":
        """Return this config with the size `beam` and `n_best` 1, without `sampling` and `mbr`."""
        return self.model_copy(update={"beam": beam, "n_best": 1, "sampling": None, "mbr": None})

    def length_bound(self, src_length: int) -> int:
        """Return the largest number of pieces for a source of this length; both include eos."""
        bound = int(self.max_length_factor * src_length + self.max_length_extra)
        return max(1, min(max(bound, self.min_length + 1), self.max_length))
