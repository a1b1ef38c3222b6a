"""Rows that read one sentence: what is known of the sentence is held once for all of them."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Beams:
    """Which of B sentences each of R rows reads: row r stands at `places[r]` of a (B, W) table.

    W is the most rows that a sentence has; where it has fewer, places are void.
    """

    places: Int[Tensor, " R"]
    width: int
    n_sentences: int

    @property
    def sentences(self) -> Int[Tensor, " R"]:
        """The sentence of each row."""
        return self.places // self.width

    def together(self, queries: Float[Tensor, "R Q *L"]) -> Float[Tensor, "B W_and_Q *L"]:
        """What all rows of a sentence ask of it, side by side; zeros at void places."""
        table = queries.new_zeros(self.n_sentences * self.width, *queries.shape[1:])
        table = table.index_copy(0, self.places, queries)
        return table.view(self.n_sentences, -1, *queries.shape[2:])

    def apart(self, answers: Float[Tensor, "B W_and_Q *L"]) -> Float[Tensor, "R Q *L"]:
        """The answers to `together`, row by row again."""
        table = answers.reshape(self.n_sentences * self.width, -1, *answers.shape[2:])
        return table.index_select(0, self.places)


def only(x: Float[Tensor, "B *L"] | Bool[Tensor, "B *L"], left: Int[Tensor, " N"] | None) -> Tensor:
    """`x` of the sentences `left` (None: all, not copied)."""
    return x if left is None else x.index_select(0, left)


def select_sentences(
    beams: Beams | None, n_sentences: int, rows: Int[Tensor, " R"]
) -> tuple[Beams | None, Int[Tensor, " B"] | None]:
    """What selecting `rows` leaves of the sentences that they read.

    The beams of these rows over the sentences left (None: row i reads sentence i, as it does
    where `beams` is None), and which sentences these are (None: all, as they lie). A sentence
    is left out as soon as no row reads it.
    """
    wanted = rows if beams is None else beams.sentences[rows]
    left, sentences, counts = torch.unique(wanted, return_inverse=True, return_counts=True)
    numbers = torch.arange(len(rows), device=rows.device)
    if len(left) == len(rows):  # a row each
        same = len(rows) == n_sentences and torch.equal(wanted, numbers)
        return None, None if same else wanted
    width = int(counts.max())
    order = sentences.argsort(stable=True)
    ranks = torch.empty_like(numbers)
    ranks[order] = numbers - (counts.cumsum(0) - counts)[sentences[order]]
    beams = Beams(sentences * width + ranks, width, len(left))
    return beams, None if len(left) == n_sentences else left
