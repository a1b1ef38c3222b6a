"""Beams, in which several rows of a search share the keys and values of one sentence."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Beams:
    """Maps R rows to the B sentences that they read: each row has a slot in a (B, W) table.

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
        """Put the queries of each sentence's rows side by side; unused slots get 0."""
        table = queries.new_zeros(self.n_sentences * self.width, *queries.shape[1:])
        table = table.index_copy(0, self.slots, queries)
        return table.view(self.n_sentences, -1, *queries.shape[2:])

    def ungroup(self, answers: Float[Tensor, "B W_and_Q *L"]) -> Float[Tensor, "R Q *L"]:
        """Invert `group_by_sentence`: return one row for each row of the search."""
        table = answers.reshape(self.n_sentences * self.width, -1, *answers.shape[2:])
        return table.index_select(0, self.slots)


def select_sentences(
    beams: Beams | None, n_sentences: int, rows: Int[Tensor, " R"]
) -> tuple[Beams | None, Int[Tensor, " B"] | None]:
    """Return the beams and the indices of the sentences that remain if a search keeps only `rows`.

    The returned beams map these rows to the remaining sentences. If beams are None, as an argument
    or as a result, row i reads sentence i. The indices are None if all sentences remain in order.

    On a CUDA GPU the beams are None and the indices give each row a copy of its sentence. Counting
    the rows of each sentence would make the host wait for the GPU, which takes longer.
    """
    sentence_ids = rows if beams is None else beams.sentences[rows]
    if rows.is_cuda:
        return None, sentence_ids
    indices, sentences, counts = torch.unique(sentence_ids, return_inverse=True, return_counts=True)
    numbers = torch.arange(len(rows), device=rows.device)
    if len(indices) == len(rows):  # one row per sentence
        is_same = len(rows) == n_sentences and torch.equal(sentence_ids, numbers)
        return None, None if is_same else sentence_ids
    width = int(counts.max())
    order = sentences.argsort(stable=True)
    ranks = torch.empty_like(numbers)
    ranks[order] = numbers - (counts.cumsum(0) - counts)[sentences[order]]
    beams = Beams(sentences * width + ranks, width, len(indices))
    return beams, None if len(indices) == n_sentences else indices
