"""A bound on how often a hypothesis repeats itself, so that no search runs into a loop.

A model that meets text unlike its training data may give a loop the highest probability
(Holtzman et al. 2020, arXiv 1904.09751, section 1). A ban on every repeated n-gram, as tools
offer it, also forbids what is right, such as an article before each noun. Here only repetitions
without anything between them count.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.text.vocabulary import UNK_ID

_NOTHING = -1  # the id of the places before the first piece


@dataclass(frozen=True)
class Repetitions:
    """The last P pieces of R hypotheses, and for each period p <= P how long they repeat.

    `pieces[:, p - 1]` is the piece p places before the next one. `n_equal[:, p - 1]` counts the
    last pieces that each equal the piece p places before: (k - 1) * p of them where the last p
    pieces have come k times in a row. `allowed` is the highest k. The arrays are NumPy's, for
    whose small operations a search of one sentence waits less.
    """

    pieces: Int[np.ndarray, "R P"]
    n_equal: Int[np.ndarray, "R P"]
    allowed: Int[np.ndarray, "R 1"]

    @classmethod
    def none_yet(cls, allowed: Int[np.ndarray, " R"], longest: int) -> "Repetitions":
        """Those of R empty hypotheses, which will have at most `longest` pieces."""
        n_periods = (longest - 1) // int(allowed.min())  # longer ones never come too often
        pieces = np.full((len(allowed), n_periods), _NOTHING)
        return cls(pieces, np.zeros_like(pieces), allowed[:, None])

    def after(self, parents: Int[Tensor, " N"] | None, ids: Int[Tensor, " N"]) -> "Repetitions":
        """Those of N hypotheses that extend rows `parents` (None: every row) by one piece each."""
        rows = slice(None) if parents is None else parents.cpu().numpy()
        last = ids.cpu().numpy()[:, None]
        pieces = self.pieces[rows]
        n_equal = (self.n_equal[rows] + 1) * (pieces == last)
        shifted = np.concatenate([last, pieces], axis=1)[:, : pieces.shape[1]]
        return Repetitions(shifted, n_equal, self.allowed[rows])

    def blocked(self) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
        """Rows, and the piece that would begin a repetition more than `allowed`, of each.

        A row comes as often as it has periods that have been repeated `allowed` times.
        """
        most = (self.allowed - 1) * np.arange(1, self.pieces.shape[1] + 1)
        rows, columns = np.nonzero(self.n_equal == most)
        return rows, self.pieces[rows, columns]


def n_repetitions(
    src_ids: Int[Tensor, "B S"], keep: Bool[Tensor, "B S"], at_least: int
) -> Int[np.ndarray, " B"]:
    """How often in a row each source has the same pieces, of any number; or `at_least`.

    A repetition that has only begun counts, so that a copy of the source is never blocked. Unknown
    pieces count as different from each other.
    """
    ids = src_ids.cpu().numpy()
    known = keep.cpu().numpy() & (ids != UNK_ID)
    most = np.full(len(ids), at_least)
    for period in range(1, (ids.shape[1] - 1) // at_least + 1):
        equal = (ids[:, period:] == ids[:, :-period]) & known[:, period:]
        if equal.sum() > (at_least - 1) * period:
            so_far = equal.cumsum(axis=1)
            n_equal = so_far - np.maximum.accumulate(np.where(equal, 0, so_far), axis=1)
            most = np.maximum(most, (n_equal.max(axis=1) + period - 1) // period + 1)
    return most


def without(
    log_probs: Float[Tensor, "R K"],
    ids: Int[Tensor, "R K"],
    rows: Int[np.ndarray, " N"],
    blocked: Int[np.ndarray, " N"],
) -> Float[Tensor, "R K"]:
    """`log_probs` with -infinity where a row would go on with a piece that is blocked for it."""
    places, pieces = (torch.from_numpy(each).to(ids.device) for each in (rows, blocked))
    hits = torch.zeros_like(ids).index_add_(0, places, (ids[places] == pieces[:, None]).long())
    return log_probs.masked_fill(hits > 0, -torch.inf)
