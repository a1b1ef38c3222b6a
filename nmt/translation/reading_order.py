"""Reversal of ids and hypotheses between reading order and the order of a right-to-left model.

A right-to-left model (data.reverse_target) writes a target from its last piece to its first (Liu et
al. 2016, doi 10.18653/v1/N16-1046). Each function is its own inverse.
"""

from collections.abc import Sequence
from dataclasses import replace

from nmt.text.vocabulary import EOS_ID
from nmt.types import Hypothesis


def reversed_ids(ids: Sequence[int]) -> tuple[int, ...]:
    """Reverse the ids of a target; an eos at the end stays there."""
    n = len(ids) - (EOS_ID in ids[-1:])
    return (*reversed(ids[:n]), *ids[n:])


def reversed_hypothesis(hypothesis: Hypothesis) -> Hypothesis:
    """Reverse the order of the target pieces in all fields; bos stays first, and eos last."""
    size = len(hypothesis.ids)
    n = size - hypothesis.finished
    rows, read = [*reversed(range(n)), *range(n, size)], [0, *range(n, 0, -1)]
    heads, self_heads = hypothesis.heads, dict(hypothesis.self_heads)
    if "decoder" in self_heads:
        self_heads["decoder"] = self_heads["decoder"][:, read][:, :, read]
    attribution = hypothesis.attribution
    if attribution is not None:
        prefix = attribution.prefix_scores[rows]
        prefix = prefix[:, read[: prefix.shape[1]]]  # without columns if there are no scores
        attribution = replace(attribution, scores=attribution.scores[rows], prefix_scores=prefix)
    return replace(
        hypothesis,
        ids=reversed_ids(hypothesis.ids),
        log_probs=tuple(hypothesis.log_probs[row] for row in rows),
        attention=hypothesis.attention[rows],
        heads=None if heads is None else heads[:, rows],
        self_heads=self_heads,
        attribution=attribution,
        entropies=tuple(hypothesis.entropies[row] for row in rows if hypothesis.entropies),
    )
