"""Several rows of a search read one sentence: its keys and values are stored once."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Beams:
    """The sentence, of B, that each of R rows reads: row r stands at `places[r]` of a (B, W) table.

    W is the most rows that a sentence has; where it has fewer, places are unused.
    """

    places: Int[Tensor, " R"]
    width: int
    n_sentences: int

    @property
    def sentences(self) -> Int[Tensor, " R"]:
        """The sentence of each row."""
        return self.places // self.width

    def group_by_sentence(self, queries: Float[Tensor, "R Q *L"]) -> Float[Tensor, "B W_and_Q *L"]:
        """The queries of all rows of a sentence side by side; zeros at unused places."""
        table = queries.new_zeros(self.n_sentences * self.width, *queries.shape[1:])
        table = table.index_copy(0, self.places, queries)
        return table.view(self.n_sentences, -1, *queries.shape[2:])

    def ungroup(self, answers: Float[Tensor, "B W_and_Q *L"]) -> Float[Tensor, "R Q *L"]:
        """The inverse of `group_by_sentence`: one row for each row of the search."""
        table = answers.reshape(self.n_sentences * self.width, -1, *answers.shape[2:])
        return table.index_select(0, self.places)


def select_or_all(
    x: Float[Tensor, "B *L"] | Bool[Tensor, "B *L"], left: Int[Tensor, " N"] | None
) -> Tensor:
    """`x` for the sentences `left`; None: for all, without a copy."""
    return x if left is None else x.index_select(0, left)


def select_sentences(
    beams: Beams | None, n_sentences: int, rows: Int[Tensor, " R"]
) -> tuple[Beams | None, Int[Tensor, " B"] | None]:
    """The sentences that remain when a search keeps `rows` only.

    Returns the beams of these rows over the remaining sentences (None: row i reads sentence i, as
    where `beams` is None), and the numbers of these sentences (None: all, in their order). A
    sentence that no row reads is dropped.

    On a CUDA GPU each row gets a copy of its sentence: the host would wait for the number of rows
    of each, which takes longer.
    """
    wanted = rows if beams is None else beams.sentences[rows]
    if rows.is_cuda:
        return None, wanted
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
