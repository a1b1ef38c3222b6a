"""Back-pointers: what each step of a search leaves behind, and hypotheses read off from it.

Reordering a beam copies no histories. Each step stores which row every candidate extends, so
ids, log-probabilities and attention of a hypothesis are collected from its last step backwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.errors import NMTError
from nmt.text.vocabulary import EOS_ID
from nmt.types import Hypothesis


@dataclass(frozen=True)
class Candidates:
    """The beam after a step: the W best continuations of each of B sentences, best first.

    `log_probs` are those of the new piece, `totals` those of the hypothesis so far. `parents` are
    the rows extended. A slot whose total is -infinity is empty.
    """

    ids: Int[Tensor, "B W"]
    log_probs: Float[Tensor, "B W"]
    totals: Float[Tensor, "B W"]
    parents: Int[Tensor, "B W"]


@dataclass(frozen=True)
class SearchStep:
    """One step of a search over R rows, the unfinished hypotheses.

    `slots` are the rows' places in the flattened (B, W) beam before the step, and `weights` their
    attention. `ended` marks the candidates that are finished or cut at the length bound.
    """

    slots: Int[Tensor, " R"]
    weights: Float[Tensor, "R S"]
    candidates: Candidates
    ended: Bool[Tensor, "B W"]


class _End(NamedTuple):
    """The last piece of a hypothesis: its step, and its slot in the flattened beam."""

    step: int
    slot: int


class BackPointers:
    """The steps of a search as NumPy arrays, from which hypotheses are traced back."""

    def __init__(self, steps: Sequence[SearchStep]) -> None:
        self.slots = [_to_numpy(step.slots) for step in steps]
        self.weights = [_to_numpy(step.weights.float()) for step in steps]
        self.ended = [_to_numpy(step.ended) for step in steps]
        self.ids = [_to_numpy(step.candidates.ids.flatten()) for step in steps]
        self.log_probs = [_to_numpy(step.candidates.log_probs.flatten()) for step in steps]
        self.totals = [_to_numpy(step.candidates.totals.flatten()) for step in steps]
        self.parents = [_to_numpy(step.candidates.parents.flatten()) for step in steps]

    def n_best(self, src_lengths: Sequence[int], n: int, alpha: float) -> list[list[Hypothesis]]:
        """The `n` best hypotheses of each sentence: finished before cut ones, then by score.

        Of equal scores the shorter comes first, then the lower slot. Raises NMTError for a
        sentence without any hypothesis: NaN in the model's logits, or options that leave none.
        """
        ends: list[list[_End]] = [[] for _ in src_lengths]
        for step, ended in enumerate(self.ended):
            for sentence, column in np.argwhere(ended).tolist():
                ends[sentence].append(_End(step, sentence * ended.shape[1] + column))
        hypotheses = []
        for src_length, finished in zip(src_lengths, ends, strict=True):
            if not finished:
                raise NMTError(
                    "search: the model's logits are not numbers (NaN); "
                    "the checkpoint is damaged or its training diverged. Or no piece is left that "
                    "search.min_length, no_repeat_ngram and must_not allow"
                )
            best = sorted(finished, key=lambda end: self._rank(end, alpha))[:n]
            hypotheses.append([self._trace_back(end, src_length, alpha) for end in best])
        return hypotheses

    def _rank(self, end: _End, alpha: float) -> tuple[bool, float]:
        is_cut = self.ids[end.step][end.slot] != EOS_ID
        total = float(self.totals[end.step][end.slot])
        return bool(is_cut), -total / length_penalty(end.step + 1, alpha)

    def _trace_back(self, end: _End, src_length: int, alpha: float) -> Hypothesis:
        """The hypothesis that ends at `end`; its attention has no columns of padding."""
        ids, log_probs, attention = [], [], []
        slot = end.slot
        for step in range(end.step, -1, -1):
            parent = self.parents[step][slot]
            ids.append(int(self.ids[step][slot]))
            log_probs.append(float(self.log_probs[step][slot]))
            attention.append(self.weights[step][parent, :src_length])
            slot = self.slots[step][parent]
        return make_hypothesis(ids[::-1], log_probs[::-1], np.stack(attention[::-1]), alpha)


def length_penalty(n_pieces: int, alpha: float) -> float:
    """Return ((5 + T) / 6)^alpha (Wu et al. 2016, arXiv 1609.08144, equation 14), at least 1."""
    return float(((5 + max(n_pieces, 1)) / 6) ** alpha)


def make_hypothesis(
    ids: Sequence[int],
    log_probs: Sequence[float],
    attention: npt.NDArray[np.float32],
    alpha: float,
    heads: npt.NDArray[np.float32] | None = None,
) -> Hypothesis:
    """Build the Hypothesis of T ids; its score is its log-probability over the length penalty."""
    return Hypothesis(
        ids=tuple(ids),
        log_probs=tuple(log_probs),
        score=sum(log_probs) / length_penalty(len(ids), alpha),
        attention=attention,
        finished=EOS_ID in ids[-1:],
        heads=heads,
    )


def _to_numpy(values: Tensor) -> npt.NDArray[np.generic]:
    array: npt.NDArray[np.generic] = values.cpu().numpy()
    return array
