"""Reranking: hypotheses of a beam, ordered by the scores of further models too.

A model of the same direction scores p(y | x), one of the other direction p(x | y), which is low
where the translation leaves something out (the noisy channel; Li and Jurafsky 2016, arXiv
1601.00372; Yee et al. 2019, arXiv 1908.05731). Unlike the members of an ensemble, such models need
no vocabulary in common with the one that searches, since each reads the text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nmt.errors import ConfigError, DataError
from nmt.search.search_config import SearchConfig
from nmt.translation.drawn import DrawnTranslation

if TYPE_CHECKING:
    from nmt.translation.translator import Translator

DEFAULT_WEIGHT = 0.25
"""Weight of a reranker's score, where that of the search has 1."""

Scores = list[list[float | None]]
"""A score for each hypothesis of each translation; None where the model cannot read it."""


@dataclass(frozen=True)
class Reranker:
    """A model that scores the hypotheses of another, which searched.

    `backward` says that it translates the other way: it then scores the source, given a hypothesis.
    """

    translator: "Translator"
    backward: bool
    weight: float = DEFAULT_WEIGHT

    def scores(self, translations: Sequence[DrawnTranslation], search: SearchConfig) -> Scores:
        """Score all hypotheses of a search: log-probabilities, divided by its length penalty.

        A backward model cannot read a hypothesis without any piece: None. Raises DataError for a
        text that is longer than the model can read.
        """
        scores: Scores = []
        # A few at a time, for forced decoding makes attention weights, which are not kept.
        for start in range(0, len(translations), search.batch_size):
            chunk = translations[start : start + search.batch_size]
            texts = [one.src_text for one in chunk for _ in one.hypotheses]
            hypotheses = [output.text for one in chunk for output in one.hypotheses]
            pairs = (hypotheses, texts) if self.backward else (texts, hypotheses)
            try:
                forced = iter(self.translator.force(*pairs, search=search))
            except DataError as error:
                raise DataError(f"reranking by {self.translator.origin}: {error}") from None
            for one in chunk:
                read = [next(forced).hypotheses for _ in one.hypotheses]
                scores.append([scored[0].hypothesis.score if scored else None for scored in read])
        return scores


def is_backward(langs: tuple[str, str], reranker_langs: tuple[str, str], name: str) -> bool:
    """Whether a reranker translates the other way than `langs`, a source and a target language.

    Raises ConfigError, which names the reranker `name`, for other languages.
    """
    if reranker_langs == langs:
        return False
    if reranker_langs == langs[::-1]:
        return True
    src, tgt = langs
    raise ConfigError(
        f"{name}: it translates {'-'.join(reranker_langs)}; allowed to rerank {src}-{tgt}: "
        f"{src}-{tgt} and {tgt}-{src}"
    )


def check_rerankable(search: SearchConfig) -> None:
    """Raise ConfigError for a search whose result is no beam of several hypotheses."""
    if search.mbr is not None or search.sampling is not None:
        key = "search.mbr" if search.sampling is None else "search.sampling"
        raise ConfigError(f"{key}: allowed with reranking, which orders a beam: null")
    if search.beam == 1:
        raise ConfigError("search.beam: got 1, allowed with reranking: at least 2")


def check_weights(name: str, weights: Sequence[float]) -> None:
    """Raise ConfigError, which names `name`, for numbers that are no weights of rerankers."""
    if not all(0 <= weight < math.inf for weight in weights):
        got = ",".join(f"{weight:g}" for weight in weights)
        raise ConfigError(f"{name}: got {got}, allowed: numbers of at least 0 between commas")


def reordered(
    translation: DrawnTranslation,
    scores: Sequence[Sequence[float | None]],
    weights: Sequence[float],
) -> DrawnTranslation:
    """Order the hypotheses of a translation by the weighted mean of their scores.

    The score of the search has weight 1; `scores` has a row and `weights` a number for each
    reranker. The mean becomes Hypothesis.score. Finished hypotheses come first, and those that a
    reranker could not read last, with the mean of the other scores. A reranker of weight 0 changes
    nothing.
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
    translations: Sequence[DrawnTranslation], rerankers: Sequence[Reranker], search: SearchConfig
) -> list[DrawnTranslation]:
    """Return the translations with their `n_best` hypotheses by all scores; see `reordered`."""
    scores = [reranker.scores(translations, search) for reranker in rerankers]
    weights = [reranker.weight for reranker in rerankers]
    best = []
    for translation, *rows in zip(translations, *scores, strict=True):
        hypotheses = reordered(translation, rows, weights).hypotheses
        best.append(replace(translation, hypotheses=hypotheses[: search.n_best]))
    return best
