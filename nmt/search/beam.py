"""The steps of a search: from the rows of a beam to their continuations, until none is left.

What no option of the search asks for is not computed: each is None or empty from the start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.models.base import State, StepOutput
from nmt.search.back_pointers import Candidates, SearchStep
from nmt.search.constraints import Constraints
from nmt.search.repetition import without
from nmt.search.search_config import SearchConfig
from nmt.search.selection import Rows, has_all_words, selection, with_needed
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

StepFunction = Callable[[Int[Tensor, " R"], State], StepOutput]
"""`Seq2Seq.step`, or the step of a decoder over another memory than words."""


class Draw(NamedTuple):
    """A choice of one piece for each row, in place of the most probable ones.

    `choose` gets the `n_pieces` best pieces of each row, their log-probabilities, the rows' slots
    and the length with the new piece, and returns a column for each row.
    """

    n_pieces: int
    choose: Callable[[Float[Tensor, "R K"], Int[Tensor, " R"], int], Int[Tensor, "R 1"]]


def search_steps(
    step: StepFunction,
    rows: Rows,
    bounds: Sequence[int],
    config: SearchConfig,
    draw: Draw | None,
    constraints: Constraints | None,
) -> list[SearchStep]:
    """All steps, until no row can change the n best hypotheses.

    All steps stay on the device of `rows`. The host waits for it several times a step: for the
    number of rows that remain, and for what options such as a repetition ban look at.
    """
    device, dtype = rows.totals.device, rows.totals.dtype
    score = config.score
    penalties = [score.length_penalty(n) for n in range(max(bounds) + 1)]
    bound_penalties = torch.tensor([[penalties[n]] for n in bounds], dtype=dtype, device=device)
    length_bounds = torch.tensor(bounds, device=device).unsqueeze(1)
    best_scores = rows.totals.new_full((len(bounds), config.n_best), -torch.inf)
    must = rows.words is not None and any(words.must for words in rows.words.words)
    select = selection(config, len(bounds), must)
    best_pieces = _BestPieces.of(config, device, must, draw, constraints)
    steps: list[SearchStep] = []
    for length in range(1, max(bounds) + 1):
        state = rows.state
        if constraints is not None:
            state = constraints.attend(state, rows.slots, length - 1)
        out = step(rows.last_ids, state)
        log_probs, ids = best_pieces.of_rows(out, rows, length)
        candidates = select(rows, log_probs, ids, length)
        exists = candidates.totals > -torch.inf
        finished = exists & (candidates.ids == EOS_ID)
        cut = exists & ~finished & (length_bounds == length)
        if must and rows.words is not None and bool(cut.any()):
            cut &= has_all_words(rows.words, candidates)
        steps.append(SearchStep(rows.slots, out.weights, candidates, finished | cut))
        scores = candidates.totals / penalties[length]
        if rows.covered is not None:
            covered = rows.covered + out.weights[:, : rows.covered.shape[1]]
            rows = replace(rows, covered=covered)
            scores = scores + score.coverages(covered)[candidates.parents]
        scores = scores.masked_fill(~finished, -torch.inf)
        best_scores = torch.cat([best_scores, scores], dim=1).topk(config.n_best).values
        hopeless = candidates.totals / bound_penalties <= best_scores[:, -1:]
        going_on = exists & ~finished & (length_bounds > length) & ~hopeless
        slots = going_on.flatten().nonzero().squeeze(1)
        if len(slots) == 0:
            break
        # Greedy rows keep their order: if none has ended, the state need not be copied.
        unmoved = config.beam == 1 and len(slots) == len(rows.slots)
        rows = _next_rows(candidates, slots, out.state, rows, unmoved)
    return steps


@dataclass(frozen=True)
class _BestPieces:
    """The pieces among which a step chooses, as the options of the search want them.

    `forbidden_early` counts up to the length `min_length`, `forbidden` behind it.
    """

    n_pieces: int
    min_length: int
    forbidden: Int[Tensor, " N"]
    forbidden_early: Int[Tensor, " M"]
    must: bool
    draw: Draw | None
    constraints: Constraints | None

    @classmethod
    def of(
        cls,
        config: SearchConfig,
        device: torch.device,
        must: bool,
        draw: Draw | None,
        constraints: Constraints | None,
    ) -> "_BestPieces":
        """Build the filter of one search; with required words it looks at one piece more."""
        n_pieces = draw.n_pieces if draw else config.beam + must
        never = [PAD_ID, BOS_ID] if config.allow_unk else [PAD_ID, BOS_ID, UNK_ID]
        forbidden = torch.tensor(never, device=device)
        early = torch.tensor([*never, EOS_ID], device=device)
        return cls(n_pieces, config.min_length, forbidden, early, must, draw, constraints)

    def of_rows(
        self, out: StepOutput, rows: Rows, length: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """The pieces of each row and their log-probabilities, -infinity where one is blocked."""
        may_end = length > self.min_length
        forbidden = self.forbidden if may_end else self.forbidden_early
        log_probs, ids = _top_pieces(out, rows, self.n_pieces, forbidden)
        if self.draw is not None:
            column = self.draw.choose(log_probs, rows.slots, length)
            log_probs, ids = log_probs.gather(1, column), ids.gather(1, column)
        if self.must:
            every = out.logits.float().log_softmax(dim=1)
            log_probs, ids = with_needed(rows, every, log_probs, ids, may_end)
        if self.constraints is not None:
            return self.constraints.force(out, rows.slots, length - 1, log_probs, ids)
        return log_probs, ids


def _next_rows(
    candidates: Candidates, slots: Int[Tensor, " R"], state: State, before: Rows, unmoved: bool
) -> Rows:
    """The candidates in these slots as rows, each with its parent's state."""
    last_ids = candidates.ids.flatten()[slots]
    parents = candidates.parents.flatten()[slots]
    moved = None if unmoved else parents
    repetitions, words, covered = before.repetitions, before.words, before.covered
    return Rows(
        slots=slots,
        last_ids=last_ids,
        totals=candidates.totals.flatten()[slots],
        state=state if unmoved else state.select(parents),
        repetitions=None if repetitions is None else repetitions.after(moved, last_ids),
        words=None if words is None else words.after(moved, last_ids),
        covered=None if covered is None else covered[parents],
    )


def _top_pieces(
    out: StepOutput, rows: Rows, n_pieces: int, forbidden_ids: Int[Tensor, " N"]
) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """The `n_pieces` best pieces of each row (a beam needs as many) and their log-probabilities.

    Those that are blocked for the row have -infinity; there are as many more pieces.
    """
    blocked_rows: list[int] = []
    blocked_ids: list[int] = []
    for history in (rows.repetitions, rows.words):
        if history is not None:
            history_rows, history_ids = history.blocked()
            blocked_rows, blocked_ids = blocked_rows + history_rows, blocked_ids + history_ids
    if not blocked_rows:
        return out.vocabulary.top_k_log_probs(out.features, n_pieces, forbidden_ids)
    n_more = int(np.bincount(blocked_rows).max())
    log_probs, ids = out.vocabulary.top_k_log_probs(out.features, n_pieces + n_more, forbidden_ids)
    return without(log_probs, ids, blocked_rows, blocked_ids), ids
