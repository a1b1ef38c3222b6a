"""Minimum Bayes risk decoding: choose the candidate with the highest expected utility.

The expected utility of a candidate h is estimated by E(h) = mean over the candidates r of u(h, r)
(Kumar and Byrne 2004, N04-1022; with samples: Eikema and Aziz 2020, arXiv 2005.10283). Epsilon
sampling with epsilon = 0.02 was best in Freitag et al. 2023 (arXiv 2305.09860).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from nmt.errors import ConfigError
from nmt.types import Hypothesis

Utility = Literal["chrf", "bleu"]


def expected_utilities(texts: Sequence[str], utility: Utility, tgt_lang: str) -> dict[str, float]:
    """Return the expected utility E(h) of each distinct text h.

    Each of several equal texts counts as a candidate r. The utility, 0 to 100, is sacreBLEU's
    chrF2, or its sentence BLEU with the tokenisation of the language. Raises ConfigError if a
    package for that tokenisation is missing.
    """
    counts = Counter(texts)
    if len(counts) == 1:
        return dict.fromkeys(counts, 100.0)
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    try:
        metric = CHRF() if utility == "chrf" else BLEU(trg_lang=tgt_lang, effective_order=True)
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"search.mbr.utility: got bleu for '{tgt_lang}': {reason}") from None
    lines = [metric._preprocess_segment(text) for text in counts]
    # n-grams are counted once for each reference: sacreBLEU has no public API for that
    references = [metric._extract_reference_info([line]) for line in lines]
    weights = np.array(list(counts.values())) / len(texts)

    def score(line: str, reference: dict[str, Any]) -> float:
        statistics = metric._compute_segment_statistics(line, reference)
        return float(metric._compute_score_from_stats(statistics).score)

    utilities = (weights @ [score(line, reference) for reference in references] for line in lines)
    return dict(zip(counts, map(float, utilities), strict=True))


def minimum_risk(
    candidates: Sequence[Hypothesis], texts: Sequence[str], utilities: dict[str, float]
) -> list[Hypothesis]:
    """Sort the candidates: finished ones first, then by expected utility, then by score.

    `texts` are the candidates' texts, and `utilities` has the expected utility of each text. Of
    several candidates with one text, only the best is returned.
    """
    ranks = [(h.finished, utilities[t], h.score) for t, h in zip(texts, candidates, strict=True)]
    best: dict[str, Hypothesis] = {}
    for i in sorted(range(len(ranks)), key=ranks.__getitem__, reverse=True):
        best.setdefault(texts[i], candidates[i])
    return list(best.values())
