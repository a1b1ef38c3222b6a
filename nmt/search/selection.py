"""The choice of the continuations that stay in a beam: the most probable, by groups or banks.

A `Select` gets the rows, their best pieces with log-probabilities, and the length with the new
piece. All of them order candidates stably, so that the lower slot wins where two are equal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.models.base import State
from nmt.search.back_pointers import Candidates
from nmt.search.repetition import Repetitions
from nmt.search.search_config import SearchConfig
from nmt.search.words import WordHistory
from nmt.text.vocabulary import EOS_ID


@dataclass(frozen=True)
class Rows:
    """The R unfinished hypotheses that the next step extends.

    `slots` are their places in the flattened (B, W) beam, `totals` their log-probabilities.
    What no option of the search asks for is None: `repetitions`, `words`, and `covered`, the
    attention that each place of the source has had, 1 for padding.
    """

    slots: Int[Tensor, " R"]
    last_ids: Int[Tensor, " R"]
    totals: Float[Tensor, " R"]
    state: State
    repetitions: Repetitions | None
    words: WordHistory | None = None
    covered: Float[Tensor, "R S"] | None = None


Select = Callable[[Rows, Float[Tensor, "R K"], Int[Tensor, "R K"], int], Candidates]


def selection(config: SearchConfig, n_sentences: int, with_banks: bool) -> Select:
    """The selection that `config` asks for; by banks where words must occur."""
    if with_banks:
        return partial(_in_banks, n_sentences, config.beam)
    if config.diversity_groups > 1:
        groups = config.diversity_groups, config.diversity_strength
        return partial(_in_groups, n_sentences, config.beam, *groups)
    return partial(_best, n_sentences, config.beam)


def _table(
    rows: Rows, piece_log_probs: Float[Tensor, "R K"], n_sentences: int, beam: int
) -> tuple[Float[Tensor, "BW K"], Int[Tensor, " BW"]]:
    """The totals of all continuations by slot, -infinity where there is no row; each slot's row."""
    totals = rows.totals.new_full((n_sentences * beam, piece_log_probs.shape[1]), -torch.inf)
    totals[rows.slots] = rows.totals.unsqueeze(1) + piece_log_probs
    row_of_slot = torch.zeros_like(totals[:, 0], dtype=torch.long)
    row_of_slot[rows.slots] = torch.arange(len(rows.slots), device=totals.device)
    return totals, row_of_slot


def _best(
    n_sentences: int,
    beam: int,
    rows: Rows,
    piece_log_probs: Float[Tensor, "R K"],
    piece_ids: Int[Tensor, "R K"],
    length: int,
) -> Candidates:
    """The W = `beam` most probable continuations of each sentence's rows by their K best pieces.

    K is W, or the vocabulary where that is smaller: W pieces of one row fill the whole beam.
    """
    k = piece_ids.shape[1]
    totals, row_of_slot = _table(rows, piece_log_probs, n_sentences, beam)
    ordered = totals.view(n_sentences, -1).sort(dim=1, descending=True, stable=True)
    picks = ordered.indices[:, :beam]
    first_slots = torch.arange(n_sentences, device=totals.device).unsqueeze(1) * beam
    parents = row_of_slot[first_slots + picks // k]
    return Candidates(
        ids=piece_ids[parents, picks % k],
        log_probs=piece_log_probs[parents, picks % k],
        totals=ordered.values[:, :beam],
        parents=parents,
    )


def _in_groups(  # noqa: PLR0913 - two settings more than the others
    n_sentences: int,
    beam: int,
    n_groups: int,
    strength: float,
    rows: Rows,
    piece_log_probs: Float[Tensor, "R K"],
    piece_ids: Int[Tensor, "R K"],
    length: int,
) -> Candidates:
    """Diverse beam search (Vijayakumar et al. 2018, arXiv 1610.02424, algorithm 1).

    Each of G groups has W / G slots and extends its own rows. A piece loses `strength` for each
    hypothesis of an earlier group that takes it at this step. The loss counts for this choice
    only: totals stay the model's. At most W - W / G pieces lose anything, so that K = W
    pieces of a row are enough.
    """
    k, width = piece_ids.shape[1], beam // n_groups
    totals, row_of_slot = _table(rows, piece_log_probs, n_sentences, beam)
    in_groups = totals.view(n_sentences, n_groups, width * k)
    rows_of_groups = row_of_slot.view(n_sentences, n_groups, width)
    if length == 1:  # the empty hypothesis, at the first slot, belongs to every group
        in_groups = in_groups[:, :1].expand(-1, n_groups, -1)
        rows_of_groups = rows_of_groups[:, :1].expand(-1, n_groups, -1)
    taken = piece_ids.new_zeros(n_sentences, 0)
    groups: list[Candidates] = []
    for group_totals, group_rows in zip(in_groups.unbind(1), rows_of_groups.unbind(1), strict=True):
        pieces = piece_ids[group_rows].view(n_sentences, -1)
        n_taken = (pieces.unsqueeze(2) == taken.unsqueeze(1)).sum(dim=2)
        losing = group_totals - strength * n_taken
        picks = losing.sort(dim=1, descending=True, stable=True).indices[:, :width]
        parents = group_rows.gather(1, picks // k)
        ids, group_totals = pieces.gather(1, picks), group_totals.gather(1, picks)
        groups.append(Candidates(ids, piece_log_probs[parents, picks % k], group_totals, parents))
        nothing = group_totals == -torch.inf
        taken = torch.cat([taken, ids.masked_fill(nothing, -1)], dim=1)
    return Candidates(
        ids=torch.cat([group.ids for group in groups], dim=1),
        log_probs=torch.cat([group.log_probs for group in groups], dim=1),
        totals=torch.cat([group.totals for group in groups], dim=1),
        parents=torch.cat([group.parents for group in groups], dim=1),
    )


def with_needed(
    rows: Rows,
    all_log_probs: Float[Tensor, "R V"],
    log_probs: Float[Tensor, "R K"],
    ids: Int[Tensor, "R K"],
    may_end: bool,
) -> tuple[Float[Tensor, "R K2"], Int[Tensor, "R K2"]]:
    """The best pieces of each row, and those that its words still need.

    A row that lacks a word does not end. What a word needs is there whatever blocks it.
    """
    assert rows.words is not None
    needed = [rows.words.needed(row) for row in range(len(ids))]
    unmet = [pieces != [EOS_ID] for pieces in needed]
    if not may_end:
        needed = [[id_ for id_ in pieces if id_ != EOS_ID] for pieces in needed]
    width = max(map(len, needed))
    padded = [pieces + [EOS_ID] * (width - len(pieces)) for pieces in needed]
    more = torch.tensor(padded, device=ids.device, dtype=torch.long).view(len(ids), width)
    real = [[True] * len(pieces) + [False] * (width - len(pieces)) for pieces in needed]
    is_real = torch.tensor(real, device=ids.device, dtype=torch.bool).view(len(ids), width)
    is_early = (ids == EOS_ID) & torch.tensor(unmet, device=ids.device).unsqueeze(1)
    log_probs = log_probs.masked_fill(is_early, -torch.inf)
    there = (more.unsqueeze(2) == ids.unsqueeze(1)) & (log_probs > -torch.inf).unsqueeze(1)
    needed_log_probs = all_log_probs.gather(1, more).to(log_probs.dtype)
    needed_log_probs = needed_log_probs.masked_fill(~is_real | there.any(dim=2), -torch.inf)
    return torch.cat([log_probs, needed_log_probs], dim=1), torch.cat([ids, more], dim=1)


def _in_banks(
    n_sentences: int,
    beam: int,
    rows: Rows,
    piece_log_probs: Float[Tensor, "R K"],
    piece_ids: Int[Tensor, "R K"],
    length: int,
) -> Candidates:
    """Dynamic beam allocation (Post & Vilar 2018, arXiv 1804.06609, section 3).

    A bank is the candidates that have written as many pieces of the words that must occur. The
    banks share the beam alike; the fullest get what is left over, and one slot at least where the
    beam is smaller than their number. Slots that a bank cannot fill go to the most probable others.
    """
    assert rows.words is not None
    k = piece_ids.shape[1]
    totals, row_of_slot = _table(rows, piece_log_probs, n_sentences, beam)
    ordered = totals.view(n_sentences, -1).sort(dim=1, descending=True, stable=True)
    first_slots = torch.arange(n_sentences, device=totals.device).unsqueeze(1) * beam
    parents = row_of_slot[first_slots + ordered.indices // k]
    ids = piece_ids[parents, ordered.indices % k]
    picks = []
    for b, n in enumerate((ordered.values > -torch.inf).sum(dim=1).tolist()):
        both = zip(parents[b, :n].tolist(), ids[b, :n].tolist(), strict=True)
        banks = [rows.words.n_written(row, id_) for row, id_ in both]
        picked = shared_among_banks(banks, beam)
        rest = (i for i in range(n, ordered.values.shape[1]))  # empty ones
        picks.append(picked + [next(rest) for _ in range(beam - len(picked))])
    columns = torch.tensor(picks, device=totals.device)
    parents, ids = parents.gather(1, columns), ids.gather(1, columns)
    return Candidates(
        ids=ids,
        log_probs=piece_log_probs[parents, ordered.indices.gather(1, columns) % k],
        totals=ordered.values.gather(1, columns),
        parents=parents,
    )


def shared_among_banks(banks: Sequence[int], width: int) -> list[int]:
    """The indices of at most `width` candidates, in order; `banks` are theirs, best first."""
    fullest_first = sorted(set(banks), reverse=True)
    share, left = divmod(width, max(1, len(fullest_first)))
    quota = {bank: share + (rank < left) for rank, bank in enumerate(fullest_first)}
    picked: list[int] = []
    others: list[int] = []
    for index, bank in enumerate(banks):
        quota[bank] -= 1
        (picked if quota[bank] >= 0 else others).append(index)
    return sorted(picked + others[: width - len(picked)])


def has_all_words(words: WordHistory, candidates: Candidates) -> Bool[Tensor, "B W"]:
    """Mark the candidates that have every required word, where any of their sentence do.

    Where no candidate of a sentence has them, all count.
    """
    pairs = zip(
        candidates.parents.flatten().tolist(), candidates.ids.flatten().tolist(), strict=True
    )
    having = [words.has_all(row, id_) for row, id_ in pairs]
    has = torch.tensor(having, device=candidates.ids.device).view_as(candidates.ids)
    has = has & (candidates.totals > -torch.inf)
    return has | ~has.any(dim=1, keepdim=True)
