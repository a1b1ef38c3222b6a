"""Beams: several rows of a search share the keys and values of the sentence that they read."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Beams:
    """Maps R rows to the B sentences that they read, by the rows' slots in a (B, W) table.

    `slots[r]` is the flat index of row r in the table. W is `width`, the largest number of rows of
    any sentence. A sentence with fewer rows has unused slots.
    """

    slots: Int[Tensor, " R"]
    width: int
    n_sentences: int

    @property
    def sentences(self) -> Int[Tensor, " R"]:
        """The index of each row's sentence."""
        return self.slots // self.width

    def group_by_sentence(self, queries: Float[Tensor, "R Q *L"]) -> Float[Tensor, "B W_and_Q *L"]:
        """Return the queries of all rows of each sentence side by side; 0 in unused slots."""
        table = queries.new_zeros(self.n_sentences * self.width, *queries.shape[1:])
        table = table.index_copy(0, self.slots, queries)
        return table.view(self.n_sentences, -1, *queries.shape[2:])

    def ungroup(self, answers: Float[Tensor, "B W_and_Q *L"]) -> Float[Tensor, "R Q *L"]:
        """Invert `group_by_sentence`: return one row for each row of the search."""
        table = answers.reshape(self.n_sentences * self.width, -1, *answers.shape[2:])
        return table.index_select(0, self.slots)


def select_or_all(
    x: Float[Tensor, "B *L"] | Bool[Tensor, "B *L"], left: Int[Tensor, " N"] | None
) -> Tensor:
    """Return the sentences of `x` at the indices `left`, or `x` itself if `left` is None."""
    return x if left is None else x.index_select(0, left)


def select_sentences(
    beams: Beams | None, n_sentences: int, rows: Int[Tensor, " R"]
) -> tuple[Beams | None, Int[Tensor, " B"] | None]:
    """Return the beams and the indices of the sentences that remain if a search keeps only `rows`.

    The returned beams map these rows to the remaining sentences. Beams of None, as an argument or a
    result, mean that every row i reads sentence i. The indices are None if all sentences remain, in
    order.

    On a CUDA GPU each row gets a copy of its sentence. Counting the rows of each sentence would
    make the host wait for the GPU, which takes longer.
    """
    sentence_ids = rows if beams is None else beams.sentences[rows]
    if rows.is_cuda:
        return None, sentence_ids
    left, sentences, counts = torch.unique(sentence_ids, return_inverse=True, return_counts=True)
    numbers = torch.arange(len(rows), device=rows.device)
    if len(left) == len(rows):  # one row per sentence
        is_same = len(rows) == n_sentences and torch.equal(sentence_ids, numbers)
        return None, None if is_same else sentence_ids
    width = int(counts.max())
    order = sentences.argsort(stable=True)
    ranks = torch.empty_like(numbers)
    ranks[order] = numbers - (counts.cumsum(0) - counts)[sentences[order]]
    beams = Beams(sentences * width + ranks, width, len(left))
    return beams, None if len(left) == n_sentences else left
