"""Back-pointers: the record of each search step, and the hypotheses collected from it.

Reordering a beam copies no histories. Each step stores which row every candidate extends. The ids,
log-probabilities and attention of a hypothesis are collected backwards from its last step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.errors import NMTError
from nmt.text.vocabulary import EOS_ID
from nmt.types import Hypothesis

Pieces = tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]
"""The log-probabilities (-infinity if blocked) and ids of K pieces that may continue each row."""


@dataclass(frozen=True)
class Candidates:
    """The beam after a step: the W best continuations for each of B sentences, best first.

    `ids` and `log_probs` belong to the new pieces. `totals` are the log-probabilities of the
    hypotheses so far. `parents` are the indices of the rows that the new pieces extend. A slot
    whose total is -infinity is empty.
    """

    ids: Int[Tensor, "B W"]
    log_probs: Float[Tensor, "B W"]
    totals: Float[Tensor, "B W"]
    parents: Int[Tensor, "B W"]


@dataclass(frozen=True)
class SearchStep:
    """One step of a search over R rows, which are the unfinished hypotheses.

    `slots` are the rows' indices in the flattened (B, W) beam before the step. `weights` are the
    rows' attention. `ended` marks the candidates that are finished or cut at the length bound.
    """

    slots: Int[Tensor, " R"]
    weights: Float[Tensor, "R S"]
    candidates: Candidates
    ended: Bool[Tensor, "B W"]


def n_best(
    steps: Sequence[SearchStep], src_lengths: Sequence[int], n: int, alpha: float
) -> list[list[Hypothesis]]:
    """Return the `n` best hypotheses of each sentence: finished before cut ones, then by score.

    Of equal scores the shorter hypothesis comes first, then the lower slot. `alpha` is the exponent
    of the length penalty. Raises NMTError if a sentence has no hypothesis: the model's logits are
    NaN, or the options exclude all pieces.
    """
    ended = _stack([step.ended for step in steps])
    ids = _stack([step.candidates.ids for step in steps])
    totals = _stack([step.candidates.totals for step in steps])
    beam = ids.shape[1] // len(src_lengths)
    ends: list[list[tuple[bool, float, int, int]]] = [[] for _ in src_lengths]
    for step, slot in np.argwhere(ended).tolist():
        score = float(totals[step, slot]) / length_penalty(step + 1, alpha)
        ends[slot // beam].append((bool(ids[step, slot] != EOS_ID), -score, step, slot))
    if not all(ends):
        raise NMTError(
            "search: the model's logits are not numbers (NaN); the checkpoint is damaged or its "
            "training diverged. Or no piece is left that search.min_length, no_repeat_ngram and "
            "must_not allow"
        )
    best = [sorted(candidates)[:n] for candidates in ends]
    positions = [(step, slot) for hypotheses in best for _, _, step, slot in hypotheses]
    sizes = [size for size, hypotheses in zip(src_lengths, best, strict=True) for _ in hypotheses]
    traces = _trace_back(steps, ids, positions, sizes, alpha)
    return [list(islice(traces, len(hypotheses))) for hypotheses in best]


def _trace_back(
    steps: Sequence[SearchStep],
    ids: Int[np.ndarray, "T N"],
    ends: Sequence[tuple[int, int]],
    src_lengths: Sequence[int],
    alpha: float,
) -> Iterator[Hypothesis]:
    """Yield the hypotheses that end at these steps and slots; their attention has no padding."""
    log_probs = _stack([step.candidates.log_probs for step in steps])
    parents = _stack([step.candidates.parents for step in steps])
    # The rows of all steps are concatenated.
    first_rows = np.cumsum([0, *(len(step.slots) for step in steps)])
    slot_of_row = torch.cat([step.slots for step in steps]).cpu().numpy()
    weights = torch.cat([step.weights for step in steps]).float().cpu().numpy()

    lengths = np.array([step + 1 for step, _ in ends])
    current = np.array([slot for _, slot in ends])
    slots = np.zeros((len(ends), len(steps)), np.int64)
    rows = np.zeros_like(slots)
    for step in reversed(range(len(steps))):
        longer = np.flatnonzero(lengths > step)
        slots[longer, step] = current[longer]
        rows[longer, step] = first_rows[step] + parents[step, current[longer]]
        current[longer] = slot_of_row[rows[longer, step]]
    for length, size, path, row in zip(lengths, src_lengths, slots, rows, strict=True):
        at = np.arange(length), path[:length]
        attention = weights[row[:length], :size]
        yield make_hypothesis(ids[at].tolist(), log_probs[at].tolist(), attention, alpha)


def length_penalty(n_pieces: int, alpha: float) -> float:
    """Return ((5 + T) / 6)^alpha for T >= 1 pieces (arXiv 1609.08144, equation 14), else 1."""
    return float(((5 + max(n_pieces, 1)) / 6) ** alpha)


def make_hypothesis(
    ids: Sequence[int],
    log_probs: Sequence[float],
    attention: npt.NDArray[np.float32],
    alpha: float,
    heads: npt.NDArray[np.float32] | None = None,
    entropies: Sequence[float] = (),
) -> Hypothesis:
    """Build the Hypothesis of T ids; its score is its log-probability / length penalty."""
    return Hypothesis(
        ids=tuple(ids),
        log_probs=tuple(log_probs),
        score=sum(log_probs) / length_penalty(len(ids), alpha),
        attention=attention,
        finished=EOS_ID in ids[-1:],
        heads=heads,
        entropies=tuple(entropies),
    )


def _stack(values: list[Tensor]) -> npt.NDArray[np.generic]:
    """Return the (B, W) values of all steps, flattened into one row per step."""
    array: npt.NDArray[np.generic] = torch.stack(values).cpu().numpy()
    return array.reshape(len(array), -1)
