"""Selection of the continuations that stay in a beam: the most probable ones, or by banks."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.batches.batching import pad_ids
from nmt.search.back_pointers import Candidates, Pieces
from nmt.search.repetition import Repetitions
from nmt.search.words import WordHistory
from nmt.text.vocabulary import EOS_ID, PAD_ID


@dataclass(frozen=True)
class Rows:
    """The R unfinished hypotheses that the next step extends.

    `slots` are their indices in the flattened (B, W) beam, `totals` their log-probabilities.
    `repetitions` and `words` are None if no option of the search needs them.
    """

    slots: Int[Tensor, " R"]
    last_ids: Int[Tensor, " R"]
    totals: Float[Tensor, " R"]
    repetitions: Repetitions | None
    words: WordHistory | None

    def after(
        self,
        slots: Int[Tensor, " N"],
        last_ids: Int[Tensor, " N"],
        totals: Float[Tensor, " N"],
        parents: Int[Tensor, " N"] | None,
    ) -> "Rows":
        """Return N rows that extend rows `parents` (None: all, in order)."""
        repetitions = self.repetitions and self.repetitions.after(parents, last_ids)
        words = self.words and self.words.after(parents, last_ids)
        return Rows(slots, last_ids, totals, repetitions, words)


def select(rows: Rows, pieces: Pieces, n_sentences: int, beam: int) -> Candidates:
    """Return the W = `beam` most probable continuations of each sentence.

    Each row has K candidates for its next piece. K is at least W, or the vocabulary size if that is
    smaller, because one row may fill the whole beam. Of equally probable continuations the one of
    the lower slot wins, then the one in the earlier column. If words must occur, the beam is
    shared among banks (Post and Vilar 2018, arXiv 1804.06609, dynamic beam allocation): a bank
    holds the continuations that lack the same number of these words' pieces.
    """
    piece_log_probs, piece_ids = pieces
    k, device = piece_ids.shape[1], piece_ids.device
    totals = rows.totals.new_full((n_sentences * beam, k), -torch.inf)
    totals[rows.slots] = rows.totals.unsqueeze(1) + piece_log_probs
    row_of_slot = torch.zeros_like(totals[:, 0], dtype=torch.long)
    row_of_slot[rows.slots] = torch.arange(len(rows.slots), device=device)
    ordered = totals.view(n_sentences, -1).sort(dim=1, descending=True, stable=True)
    values, picks = ordered.values, ordered.indices
    first_slots = torch.arange(n_sentences, device=device).unsqueeze(1) * beam
    if rows.words is not None and rows.words.has_required:
        parents = row_of_slot[first_slots + picks // k]
        ids = piece_ids[parents, picks % k]
        columns = _columns_by_bank(rows.words, parents, ids, values > -torch.inf, beam)
        values, picks = values.gather(1, columns), picks.gather(1, columns)
    values, picks = values[:, :beam], picks[:, :beam]
    at = row_of_slot[first_slots + picks // k], picks % k
    return Candidates(piece_ids[at], piece_log_probs[at], totals=values, parents=at[0])


def _columns_by_bank(
    words: WordHistory,
    parents: Int[Tensor, "B N"],
    ids: Int[Tensor, "B N"],
    exists: Bool[Tensor, "B N"],
    beam: int,
) -> Int[Tensor, "B W"]:
    """Return the columns of the candidates that each sentence's banks pick, then of empty ones."""
    columns = []
    for b, n in enumerate(exists.sum(dim=1).tolist()):
        lacking = map(words.n_lacking, parents[b, :n].tolist(), ids[b, :n].tolist())
        picks = select_across_banks([-count for count in lacking], beam)
        columns.append([*picks, *range(n, n + beam - len(picks))])
    return torch.tensor(columns, device=ids.device)


def add_required_pieces(
    words: WordHistory, all_log_probs: Float[Tensor, "R V"], pieces: Pieces, may_end: bool
) -> tuple[Float[Tensor, "R K2"], Int[Tensor, "R K2"]]:
    """Add the pieces that continue or start each row's missing words, even if they are blocked.

    A row that lacks a required word cannot end with eos. Any other row gets eos if `may_end`.
    """
    log_probs, ids = pieces
    additions = [words.needed(row) for row in range(len(ids))]
    lacks_word = torch.tensor([needed != [EOS_ID] for needed in additions], device=ids.device)
    log_probs = log_probs.masked_fill((ids == EOS_ID) & lacks_word.unsqueeze(1), -torch.inf)
    if not may_end:
        additions = [[id_ for id_ in needed if id_ != EOS_ID] for needed in additions]
    more = pad_ids(additions).to(ids.device)
    equal = (more.unsqueeze(2) == ids.unsqueeze(1)) & (log_probs > -torch.inf).unsqueeze(1)
    more_log_probs = all_log_probs.gather(1, more).to(log_probs.dtype)
    more_log_probs = more_log_probs.masked_fill((more == PAD_ID) | equal.any(dim=2), -torch.inf)
    return torch.cat([log_probs, more_log_probs], dim=1), torch.cat([ids, more], dim=1)


def select_across_banks(banks: Sequence[int], width: int) -> list[int]:
    """Return the indices, in order, of at most `width` candidates.

    `banks` has the bank of each candidate, best candidate first. Each bank gets an equal share of
    `width`; the highest banks get the remainder. Unfilled places go to the best other candidates.
    """
    highest_first = sorted(set(banks), reverse=True)
    share, left = divmod(width, max(1, len(highest_first)))
    quota = {bank: share + (rank < left) for rank, bank in enumerate(highest_first)}
    picks: list[int] = []
    others: list[int] = []
    for index, bank in enumerate(banks):
        quota[bank] -= 1
        (picks if quota[bank] >= 0 else others).append(index)
    return sorted(picks + others[: width - len(picks)])


def has_all_words(words: WordHistory, candidates: Candidates) -> Bool[Tensor, "B W"]:
    """Mark the candidates with all required words; in a sentence where none has them, mark all."""
    parents, ids = candidates.parents.flatten().tolist(), candidates.ids.flatten().tolist()
    flags = [words.n_lacking(*pair) == 0 for pair in zip(parents, ids, strict=True)]
    has = torch.tensor(flags, device=candidates.ids.device).view_as(candidates.ids)
    has &= candidates.totals > -torch.inf
    return has | ~has.any(dim=1, keepdim=True)
