"""Bounds on the repetitions of a hypothesis, so that no search runs into a loop.

On text unlike its training data, a model may give a loop the highest probability (Holtzman et al.
2020, arXiv 1904.09751, section 1). By default only immediate repetitions count. An optional ban on
every repeated n-gram (Paulus et al. 2017, arXiv 1705.04304, section 2.5) also forbids correct text.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from nmt.text.vocabulary import UNK_ID


@dataclass(frozen=True)
class Repetitions:
    """The pieces of R hypotheses so far, and the bounds on their repetitions.

    A sequence of pieces may occur at most `allowed` times in a row. No n-gram of `ngram` pieces may
    occur twice (None: n-grams may repeat). The arrays are NumPy's, whose small operations cost a
    search of one sentence less time.
    """

    pieces: Int[np.ndarray, "R T"]
    allowed: Int[np.ndarray, "R 1"]
    ngram: int | None = None

    @classmethod
    def initial(cls, allowed: Int[np.ndarray, " R"], ngram: int | None = None) -> "Repetitions":
        return cls(np.empty((len(allowed), 0), np.int64), allowed[:, None], ngram)

    def after(self, parents: Int[Tensor, " N"] | None, ids: Int[Tensor, " N"]) -> "Repetitions":
        """Return the history of N hypotheses that extend rows `parents` (None: all) by a piece."""
        pieces, allowed = self.pieces, self.allowed
        if parents is None:
            last = ids.cpu().numpy()
        else:
            rows, last = torch.stack([parents, ids]).cpu().numpy()  # one copy, one wait
            pieces, allowed = pieces[rows], allowed[rows]
        return Repetitions(np.concatenate((pieces, last[:, None]), axis=1), allowed, self.ngram)

    def blocked_pieces(self) -> tuple[list[int], list[int]]:
        """Return parallel lists of rows and of pieces that may not come next there.

        The piece would begin one repetition too many, or complete an n-gram that has occurred. A
        row with several such pieces has several entries.
        """
        rows, blocked = ([], []) if self.ngram is None else self._seen(self.ngram)
        same = self.pieces == self.pieces[:, -1:]
        # The last piece of a repeated sequence occurs `allowed` times. `same` counts the last
        # pieces themselves too. With few others, no row needs a sum.
        if np.count_nonzero(same) - len(same) < self.allowed.min() - 1:
            return rows, blocked
        for row in (same.sum(axis=1, keepdims=True) >= self.allowed).nonzero()[0].tolist():
            ids, k = self.pieces[row].tolist(), int(self.allowed[row, 0])
            for period in range(1, len(ids) // k + 1):
                if ids[-k * period : -period] == ids[(1 - k) * period :]:
                    rows.append(row)
                    blocked.append(ids[-period])
        return rows, blocked

    def _seen(self, n: int) -> tuple[list[int], list[int]]:
        """Return rows and last pieces of n-grams that begin with the row's last n - 1 pieces."""
        length = self.pieces.shape[1]
        if length < n:
            return [], []
        ngrams = np.lib.stride_tricks.sliding_window_view(self.pieces, n, axis=1)
        end = self.pieces[:, None, length - n + 1 :]
        rows, positions = (ngrams[:, :, :-1] == end).all(axis=2).nonzero()
        return rows.tolist(), ngrams[rows, positions, -1].tolist()


def n_repetitions(
    src_ids: Int[Tensor, "B S"], keep: Bool[Tensor, "B S"], at_least: int
) -> Int[np.ndarray, " B"]:
    """Return how many times in a row each source has the same pieces, or `at_least` if fewer.

    `keep` is false at padding. An incomplete repetition counts, so that a copy of known pieces is
    never blocked. Unknown pieces count as different: a source of only <unk> would allow any loop.
    """
    ids = src_ids.cpu().numpy()
    known = keep.cpu().numpy() & (ids != UNK_ID)
    ids = np.where(known, ids, -1 - np.arange(ids.shape[1]))
    most = np.full(len(ids), at_least)
    # More than `at_least` repetitions need a piece that occurs more often than that.
    ordered = np.sort(ids, axis=1)
    rows = (ordered[:, at_least:] == ordered[:, :-at_least]).any(axis=1).nonzero()[0]
    if len(rows) == 0:
        return most
    for period in range(1, (ids.shape[1] - 1) // at_least + 1):
        equal = ids[rows, period:] == ids[rows, :-period]
        if equal.sum() > (at_least - 1) * period:
            so_far = equal.cumsum(axis=1)
            n_equal = so_far - np.maximum.accumulate(np.where(equal, 0, so_far), axis=1)
            most[rows] = np.maximum(most[rows], (n_equal.max(axis=1) + period - 1) // period + 1)
    return most
