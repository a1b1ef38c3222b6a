"""What a search leaves behind, and the way back from its ends to whole hypotheses.

Reordering a beam copies no histories: each step remembers which row every choice extends and
which choice every row was, so ids, log-probabilities and attention are read off backwards.
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


def length_penalty(n_pieces: int, alpha: float) -> float:
    """lp(T) = ((5 + T) / 6)^alpha (Wu et al. 2016, arXiv 1609.08144, eq. 14)."""
    return float(((5 + n_pieces) / 6) ** alpha)


@dataclass(frozen=True)
class Chosen:
    """What one step chose: a table of W places per sentence, best first.

    `parents` are the rows extended; a place whose sum of log-probabilities is -inf is void.
    """

    ids: Int[Tensor, "B W"]
    log_probs: Float[Tensor, "B W"]
    sums: Float[Tensor, "B W"]
    parents: Int[Tensor, "B W"]


@dataclass(frozen=True)
class Step:
    """One step: where its R rows lay in the table before (flattened), where they looked, what
    was chosen, and which of that has ended.
    """

    places: Int[Tensor, " R"]
    weights: Float[Tensor, "R S"]
    chosen: Chosen
    ended: Bool[Tensor, "B W"]


class _End(NamedTuple):
    """A hypothesis' last piece: its step and its place in the flattened table."""

    step: int
    place: int


class Trail:
    """The steps of a search, on the host."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.places = [_host(step.places) for step in steps]
        self.weights = [_host(step.weights.float()) for step in steps]
        self.ended = [_host(step.ended) for step in steps]
        self.ids = [_host(step.chosen.ids.flatten()) for step in steps]
        self.log_probs = [_host(step.chosen.log_probs.flatten()) for step in steps]
        self.sums = [_host(step.chosen.sums.flatten()) for step in steps]
        self.parents = [_host(step.chosen.parents.flatten()) for step in steps]

    def best(self, src_sizes: Sequence[int], n_best: int, alpha: float) -> list[list[Hypothesis]]:
        """The `n_best` best ends of every sentence: finished before cut, then by score.

        Of equal scores the shorter comes first, then the lower place. Raises NMTError where
        nothing ended, which only NaN can cause.
        """
        ends: list[list[_End]] = [[] for _ in src_sizes]
        for step, ended in enumerate(self.ended):
            for sentence, column in np.argwhere(ended).tolist():
                ends[sentence].append(_End(step, sentence * ended.shape[1] + column))
        found = []
        for size, candidates in zip(src_sizes, ends, strict=True):
            if not candidates:
                raise NMTError(
                    "search: the model's logits are not numbers (NaN); "
                    "the checkpoint is damaged or its training diverged"
                )
            order = sorted(candidates, key=lambda end: self._rank(end, alpha))
            found.append([self._walk_back(end, size, alpha) for end in order[:n_best]])
        return found

    def _rank(self, end: _End, alpha: float) -> tuple[bool, float]:
        unfinished = self.ids[end.step][end.place] != EOS_ID
        score = float(self.sums[end.step][end.place]) / length_penalty(end.step + 1, alpha)
        return bool(unfinished), -score

    def _walk_back(self, end: _End, src_size: int, alpha: float) -> Hypothesis:
        """The hypothesis that ends at `end`, its attention cut to its own source's positions."""
        ids, log_probs, looks = [], [], []
        place = end.place
        for step in range(end.step, -1, -1):
            row = self.parents[step][place]
            ids.append(int(self.ids[step][place]))
            log_probs.append(float(self.log_probs[step][place]))
            looks.append(self.weights[step][row, :src_size])
            place = self.places[step][row]
        return scored(ids[::-1], log_probs[::-1], np.stack(looks[::-1]), alpha)


def scored(
    ids: Sequence[int],
    log_probs: Sequence[float],
    attention: npt.NDArray[np.float32],
    alpha: float,
    heads: npt.NDArray[np.float32] | None = None,
) -> Hypothesis:
    """The Hypothesis of these parallel values; an empty one has score 0 and is unfinished."""
    return Hypothesis(
        ids=tuple(ids),
        log_probs=tuple(log_probs),
        score=sum(log_probs) / length_penalty(len(ids), alpha),
        attention=attention,
        finished=bool(ids) and ids[-1] == EOS_ID,
        heads=heads,
    )


def _host(values: Tensor) -> npt.NDArray[np.generic]:
    array: npt.NDArray[np.generic] = values.cpu().numpy()
    return array
