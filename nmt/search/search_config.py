"""SearchConfig: how a search looks for translations, and how it chooses among them."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from nmt.settings.base import Config, Conflict, conflict_error

MAX_PIECES = 100_000
"""The highest bound of a translation's length, so that every search ends."""


class SamplingConfig(Config):
    """Translations drawn from the model's distribution, in place of a search for the best."""

    temperature: float = Field(
        default=1.0,
        gt=0,
        le=100,
        description="logits are divided by it; below 1 what is probable becomes more so",
    )
    top_k: int | None = Field(
        default=None,
        ge=1,
        description="only the k most probable pieces are drawn (arXiv 1805.04833); null: all",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="only the most probable pieces that have this probability together are drawn "
        "(nucleus, arXiv 1904.09751), of those that top_k leaves",
    )
    epsilon: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="pieces of lower probability are not drawn (arXiv 2210.15191)",
    )
    seed: int = Field(default=1, ge=0, description="seed of the draws")


class MBRConfig(Config):
    """Minimum Bayes risk: of several candidates the translation that is most like all of them."""

    samples: int | None = Field(
        default=32,
        ge=1,
        le=10_000,
        description="translations drawn per sentence as candidates; null: those of the beam",
    )
    epsilon: float = Field(
        default=0.02,
        ge=0,
        lt=1,
        description="pieces of lower probability are not drawn; 0: all may be",
    )
    utility: Literal["chrf", "bleu"] = Field(
        default="chrf", description="likeness of two translations: sacreBLEU's chrF2 or BLEU"
    )
    seed: int = Field(default=1, ge=0, description="seed of the samples")

    @property
    def sampling(self) -> SamplingConfig:
        """How the candidates are drawn."""
        return SamplingConfig(epsilon=self.epsilon, seed=self.seed)


class SearchConfig(Config):
    """How a search looks for the most probable translation."""

    beam: int = Field(
        default=5, ge=1, le=10_000, description="hypotheses kept per sentence; 1 is greedy"
    )
    n_best: int = Field(
        default=1,
        ge=1,
        description="hypotheses given per sentence; at most beam, or with sampling any number",
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
        description="pieces a translation has at least, its end not counted",
    )
    max_length_factor: float = Field(
        default=2.0,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        description="a translation has at most max_length_factor * (source pieces, end "
        "included) + max_length_extra pieces",
    )
    max_length_extra: int = Field(
        default=10, ge=0, le=MAX_PIECES, description="pieces; see max_length_factor"
    )
    max_length: int = Field(
        default=1000,
        ge=1,
        le=MAX_PIECES,
        description="pieces a translation has at most, however long its source",
    )
    max_repeats: int | None = Field(
        default=3,
        ge=2,
        description="how often in a row a translation may have the same pieces, of any number; "
        "where its source repeats more often, as often as the source; null: no bound",
    )
    no_repeat_ngram: int | None = Field(
        default=None,
        ge=1,
        description="a translation has no n-gram of so many pieces twice (arXiv 1705.04304); "
        "null: it may",
    )
    must: tuple[str, ...] = Field(
        default=(),
        description="words that each translation has (arXiv 1804.06609), written as in the text",
    )
    must_not: tuple[str, ...] = Field(
        default=(), description="words that no translation has, written as in the text"
    )
    sampling: SamplingConfig | None = Field(
        default=None, description="translations are drawn; null: searched for by beam"
    )
    mbr: MBRConfig | None = Field(
        default=None, description="choice among candidates by minimum Bayes risk; null: by score"
    )
    batch_size: int = Field(default=64, ge=1, description="sentences translated at a time")
    allow_unk: bool = Field(default=True, description="whether <unk> may be produced")

    @model_validator(mode="after")
    def _agree(self) -> "SearchConfig":
        if conflicts := list(self._conflicts()):
            raise conflict_error(conflicts)
        return self

    def _conflicts(self) -> Iterator[Conflict]:
        if self.n_best > self.beam and self.sampling is None:
            yield "n_best", f"got {self.n_best}, allowed: 1 to beam ({self.beam})"
        if self.min_length >= self.max_length:
            yield "min_length", f"got {self.min_length}, allowed: below max_length"
        if self.sampling is not None and self.mbr is not None:
            yield "sampling", "mbr draws by itself: leave out one of them"
        if self.must and self.draws:
            yield "must", "got words for what is drawn, allowed: in a beam search"
        for word in (*self.must, *self.must_not):
            if not word.strip():
                yield "must" if word in self.must else "must_not", "got an empty word"
        if both := set(self.must) & set(self.must_not):
            yield "must_not", f"got '{min(both)}', which must has too"

    @property
    def draws(self) -> bool:
        """Whether translations, or the candidates of `mbr`, are drawn and not searched for."""
        return self.sampling is not None or (self.mbr is not None and self.mbr.samples is not None)

    def of_candidates(self) -> "SearchConfig":
        """Return the search for the candidates of `mbr`; without it, this search."""
        if self.mbr is None:
            return self
        samples = self.mbr.samples
        sampling = None if samples is None else self.mbr.sampling
        update = {"mbr": None, "sampling": sampling, "n_best": samples or self.beam}
        return self.model_copy(update=update)

    def plain_beam(self, beam: int) -> "SearchConfig":
        """The search by a plain beam of this size for one translation, nothing drawn."""
        return self.model_copy(update={"beam": beam, "n_best": 1, "sampling": None, "mbr": None})

    def length_bound(self, src_length: int) -> int:
        """The most pieces, eos included, for a source of `src_length` ids, its eos included."""
        bound = int(self.max_length_factor * src_length + self.max_length_extra)
        return max(1, min(max(bound, self.min_length + 1), self.max_length))
