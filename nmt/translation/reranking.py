"""Reranking: order the hypotheses of a beam by the scores of additional models.

A model of the same direction scores p(y | x). A backward model scores p(x | y), which is low if the
translation omits a part of the source (noisy channel; Li and Jurafsky 2016, arXiv 1601.00372; Yee
et al. 2019, arXiv 1908.05731). Rerankers read texts, so that they may have other vocabularies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nmt.errors import ConfigError, DataError
from nmt.search.search_config import SearchConfig
from nmt.translation.drawn import DrawnTranslation

if TYPE_CHECKING:
    from nmt.translation.translator import Translator

DEFAULT_WEIGHT = 0.25  # weight of a reranker's score; the score of the search has weight 1
Scores = Sequence[Sequence[float | None]]  # of each hypothesis; None if the model cannot read it


@dataclass(frozen=True)
class Reranker:
    """A model that scores the hypotheses found by another model.

    A `backward` reranker scores the source given a hypothesis. Any other reranker scores the
    hypothesis given the source. `weight` is the weight of its scores in `reordered`.
    """

    translator: "Translator"
    backward: bool
    weight: float = DEFAULT_WEIGHT

    def scores(
        self,
        translations: Sequence[DrawnTranslation],
        readings: Sequence[str],
        search: SearchConfig,
    ) -> Scores:
        """Score all hypotheses by log-probability divided by the length penalty of `search`.

        `readings` are the sources as the search read them; no spelling is corrected here. The score
        is None if the text that the model reads, such as an empty hypothesis, has no pieces. Raises
        DataError if a text is too long for the model.
        """
        search = search.model_copy(update={"correct_spelling": False})
        scores: list[list[float | None]] = []
        # In small chunks, because forced decoding also returns attention weights.
        for start in range(0, len(translations), search.batch_size):
            chunk = translations[start : start + search.batch_size]
            rows = zip(readings[start:], chunk, strict=False)
            texts = [reading for reading, translation in rows for _ in translation.hypotheses]
            hypotheses = [output.text for translation in chunk for output in translation.hypotheses]
            pairs = (hypotheses, texts) if self.backward else (texts, hypotheses)
            try:
                forced = iter(self.translator.force(*pairs, search=search))
            except DataError as error:
                raise DataError(f"reranking by {self.translator.origin}: {error}") from None
            for translation in chunk:
                outputs = [next(forced).hypotheses for _ in translation.hypotheses]
                scores.append([best[0].hypothesis.score if best else None for best in outputs])
        return scores


def is_backward(langs: tuple[str, str], reranker_langs: tuple[str, str], name: str) -> bool:
    """Return whether a reranker translates in the opposite direction of `langs` (source, target).

    Raises ConfigError if the reranker has other languages; `name` names it in the error.
    """
    if reranker_langs not in (langs, langs[::-1]):
        theirs, same, opposite = map("-".join, (reranker_langs, langs, langs[::-1]))
        allowed = f"allowed to rerank {same}: {same} and {opposite}"
        raise ConfigError(f"{name}: it translates {theirs}; {allowed}")
    return reranker_langs != langs


def check_rerankable(search: SearchConfig) -> None:
    """Raise ConfigError if the result of `search` is not a beam of at least two hypotheses."""
    if search.mbr is not None or search.sampling is not None:
        key = "search.mbr" if search.sampling is None else "search.sampling"
        raise ConfigError(f"{key}: allowed with reranking, which orders a beam: null")
    if search.beam == 1:
        raise ConfigError("search.beam: got 1, allowed with reranking: at least 2")


def reordered(
    translation: DrawnTranslation, scores: Scores, weights: Sequence[float]
) -> DrawnTranslation:
    """Order the hypotheses of a translation by the weighted mean of their scores.

    `scores` has a row, and `weights` a number, for each reranker; the score of the search has
    weight 1. The mean becomes Hypothesis.score. Finished hypotheses come before unfinished ones. In
    both groups, hypotheses with a missing score come last; their mean is over the other scores. A
    reranker of weight 0 has no effect.
    """
    ranked = []
    for output, *others in zip(translation.hypotheses, *scores, strict=True):
        used = [(score, share) for score, share in zip(others, weights, strict=True) if share]
        known = [(score, share) for score, share in used if score is not None]
        total = output.hypothesis.score + sum(share * score for score, share in known)
        mean = total / (1 + sum(share for _, share in known))
        rank = (output.hypothesis.finished, len(known) == len(used), mean)
        ranked.append((rank, replace(output, hypothesis=replace(output.hypothesis, score=mean))))
    ranked.sort(key=lambda pair: pair[0], reverse=True)
    return replace(translation, hypotheses=tuple(output for _, output in ranked))


def rerank(
    translations: Sequence[DrawnTranslation],
    readings: Sequence[str],
    rerankers: Sequence[Reranker],
    search: SearchConfig,
) -> list[DrawnTranslation]:
    """Order each translation's hypotheses by all rerankers, and keep the `search.n_best` best."""
    scores = [reranker.scores(translations, readings, search) for reranker in rerankers]
    weights = [reranker.weight for reranker in rerankers]
    rows = zip(translations, *scores, strict=True)
    ordered = [reordered(translation, parts, weights) for translation, *parts in rows]
    return [replace(item, hypotheses=item.hypotheses[: search.n_best]) for item in ordered]
