"""Reranking: hypotheses of a beam, ordered by the scores of further models too.

A model of the same direction scores p(y | x), one of the other direction p(x | y), which is low
where the translation leaves something out (the noisy channel; Li and Jurafsky 2016, arXiv
1601.00372; Yee et al. 2019, arXiv 1908.05731). Unlike the members of an ensemble, such models need
no vocabulary in common with the one that searches, since each reads the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nmt.errors import ConfigError
from nmt.inference.drawn import DrawnTranslation

if TYPE_CHECKING:
    from nmt.inference.translator import Translator

DEFAULT_WEIGHT = 0.25
"""Weight of a reranker's score, where that of the search has 1."""

Scores = list[list[float | None]]
"""A score for each hypothesis of each translation; None where the model cannot read it."""


@dataclass(frozen=True)
class Reranker:
    """A model that scores the hypotheses of another, which searched.

    `backward` says that it translates the other way: it then scores the source, given a hypothesis.
    A score is the log-probability divided by the length penalty of the model's own SearchConfig.
    """

    translator: "Translator"
    backward: bool
    weight: float = DEFAULT_WEIGHT

    def scores(self, translations: Sequence[DrawnTranslation]) -> Scores:
        """Score all hypotheses. A backward model cannot read one without any piece: None."""
        texts = [each.src_text for each in translations for _ in each.hypotheses]
        hypotheses = [found.text for each in translations for found in each.hypotheses]
        pairs = (hypotheses, texts) if self.backward else (texts, hypotheses)
        forced = iter(self.translator.force(*pairs))
        return [
            [
                scored.hypotheses[0].hypothesis.score if scored.hypotheses else None
                for _, scored in zip(each.hypotheses, forced, strict=False)
            ]
            for each in translations
        ]


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


def reordered(
    translation: DrawnTranslation,
    scores: Sequence[Sequence[float | None]],
    weights: Sequence[float],
) -> DrawnTranslation:
    """The translation with its hypotheses ordered by the weighted mean of their scores.

    That of the search has weight 1; `scores` has a row and `weights` a number for each reranker.
    The mean becomes Hypothesis.score. Finished hypotheses come first, and those that a reranker
    could not read last, with the mean of the other scores.
    """
    ranked = []
    for found, *others in zip(translation.hypotheses, *scores, strict=True):
        total, weight = found.hypothesis.score, 1.0
        for score, share in zip(others, weights, strict=True):
            if score is not None:
                total, weight = total + share * score, weight + share
        mean = total / weight
        rank = (found.hypothesis.finished, None not in others, mean)
        ranked.append((rank, replace(found, hypothesis=replace(found.hypothesis, score=mean))))
    ranked.sort(key=lambda each: each[0], reverse=True)
    return replace(translation, hypotheses=tuple(found for _, found in ranked))


def rerank(
    translations: Sequence[DrawnTranslation], rerankers: Sequence[Reranker], n_best: int
) -> list[DrawnTranslation]:
    """The translations with their `n_best` hypotheses by all scores; see `reordered`."""
    scores = [reranker.scores(translations) for reranker in rerankers]
    weights = [reranker.weight for reranker in rerankers]
    found = []
    for translation, *own in zip(translations, *scores, strict=True):
        best = reordered(translation, own, weights)
        found.append(replace(best, hypotheses=best.hypotheses[:n_best]))
    return found
