"""The loop of a search: it extends the rows of a beam until no row is left.

It uses a model's `step`, `State.select` and, if attention weights are given,
`State.with_attention`. Therefore the states may attend to any memory.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.models.base import State, StepOutput
from nmt.search.back_pointers import Pieces, SearchStep, length_penalty, n_best
from nmt.search.constraints import Constraint, Constraints
from nmt.search.graphs import GraphedSteps, StepFunction
from nmt.search.repetition import Repetitions
from nmt.search.search_config import MAX_PIECES, SearchConfig
from nmt.search.selection import Rows, add_required_pieces, has_all_words, select
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.types import Hypothesis

_CHECK_EVERY = 4  # on a GPU, the number of steps between two checks whether any row remains


class PieceSampler(NamedTuple):
    """A function that samples each row's next piece, and the number of pieces that it needs.

    `choose` gets the log-probabilities of each row's most probable pieces (-infinity if blocked),
    the rows' slots, and the length including the new piece. It returns each row's chosen column.
    There are at least `n_pieces` columns, or one for each piece of a smaller vocabulary.
    """

    n_pieces: int
    choose: Callable[[Float[Tensor, "R K"], Int[Tensor, " R"], int], Int[Tensor, "R 1"]]


class SearchStart(NamedTuple):
    """The start of a search: B sentences and their initial states, which attend to any memory.

    `step` is called as Seq2Seq.step. `first_ids` are the first inputs of the decoder: bos in
    translation. `src_lengths` are the sentences' numbers of source positions, at most
    `n_positions`; the bounds on the length of hypotheses depend on them. `max_repeats_by_sentence`
    replaces the config's `max_repeats` (None: no replacement). `constraints` has one item per
    sentence, or is empty. `on_step` is called before each step.
    """

    step: StepFunction
    state: State
    first_ids: Int[Tensor, " B"]
    src_lengths: Sequence[int]
    n_positions: int
    max_repeats_by_sentence: Int[np.ndarray, " B"] | None = None
    constraints: Sequence[Constraint] = ()
    on_step: Callable[[], None] = lambda: None

    def bounds(self, config: SearchConfig) -> list[int]:
        """Return the maximum length of each translation, in pieces with eos."""
        bounds = [config.length_bound(length) for length in self.src_lengths]
        minima = [constraint.n_pieces for constraint in self.constraints] or bounds
        return list(map(max, bounds, minima))


@torch.inference_mode()
def search_from(
    start: SearchStart, config: SearchConfig, sampler: PieceSampler | None = None
) -> list[list[Hypothesis]]:
    """Search until no row can change the n best hypotheses, and return these.

    `sampler`, which needs a beam of 1, chooses the pieces (None: the most probable ones). Finished
    rows are dropped, except in a search without constraints on a GPU: there they stay, with a total
    log-probability of -infinity, so that all steps have the same shapes. The host then waits for
    the GPU only every few steps, unless an option such as a repetition bound needs the pieces.
    """
    bounds, constraints = start.bounds(config), None
    if start.constraints:
        constraints = Constraints(start.constraints, start.n_positions, config.beam)
    rows, state = _first_rows(start, config, constraints), start.state
    device, dtype = rows.totals.device, rows.totals.dtype
    keeps_all = _keeps_all_rows(device) and constraints is None
    step = GraphedSteps(start.step, keeps_all and device.type == "cuda")
    all_slots = torch.arange(len(bounds) * config.beam, device=device)
    parents: Tensor | None = None
    penalties = [length_penalty(n, config.length_penalty) for n in range(max(bounds) + 1)]
    bound_penalties = torch.tensor([[penalties[n]] for n in bounds], dtype=dtype, device=device)
    length_bounds = torch.tensor(bounds, device=device).unsqueeze(1)
    best_scores = rows.totals.new_full((len(bounds), config.n_best), -torch.inf)
    best_pieces = _BestPieces(config, device, sampler, constraints)
    steps: list[SearchStep] = []
    for length in range(1, max(bounds) + 1):
        start.on_step()
        if constraints is not None:
            state = constraints.attend(state, rows.slots, length - 1)
        out = step(rows.last_ids, state, parents)
        pieces = best_pieces.of_rows(out, rows, length)
        candidates = select(rows, pieces, len(bounds), config.beam)
        exists = candidates.totals > -torch.inf
        finished = exists & (candidates.ids == EOS_ID)
        cut = exists & ~finished & (length_bounds == length)
        if rows.words is not None and rows.words.has_required and bool(cut.any()):
            cut &= has_all_words(rows.words, candidates)
        steps.append(SearchStep(rows.slots, out.weights, candidates, finished | cut))
        scores = (candidates.totals / penalties[length]).masked_fill(~finished, -torch.inf)
        best_scores = torch.cat([best_scores, scores], dim=1).topk(config.n_best).values
        hopeless = candidates.totals / bound_penalties <= best_scores[:, -1:]
        active = exists & ~finished & (length_bounds > length) & ~hopeless
        if keeps_all:
            if length % _CHECK_EVERY == 0 and not bool(active.any()):
                break
            totals = candidates.totals.masked_fill(~active, -torch.inf).flatten()
            parents, state = candidates.parents.flatten(), out.state
            rows = rows.after(all_slots, candidates.ids.flatten(), totals, parents)
            continue
        slots = active.flatten().nonzero().squeeze(1)
        if len(slots) == 0:
            break
        # Greedy rows keep their order: if none has ended, the state need not be copied.
        unmoved = config.beam == 1 and len(slots) == len(rows.slots)
        sources = None if unmoved else candidates.parents.flatten()[slots]
        state = out.state if sources is None else out.state.select(sources)
        last_ids, totals = candidates.ids.flatten()[slots], candidates.totals.flatten()[slots]
        rows = rows.after(slots, last_ids, totals, sources)
    return n_best(steps, start.src_lengths, config.n_best, config.length_penalty)


def _first_rows(start: SearchStart, config: SearchConfig, constraints: Constraints | None) -> Rows:
    n, device, repetitions = len(start.src_lengths), start.first_ids.device, None
    if config.max_repeats is not None or config.no_repeat_ngram is not None:
        allowed = start.max_repeats_by_sentence
        if allowed is None:
            allowed = np.full(n, config.max_repeats or MAX_PIECES)
        repetitions = Repetitions.initial(allowed, config.no_repeat_ngram)
    dtype = torch.float32 if device.type == "mps" else torch.float64  # mps has no fp64
    return Rows(
        slots=torch.arange(n, device=device) * config.beam,
        last_ids=start.first_ids,
        totals=torch.zeros(n, dtype=dtype, device=device),
        repetitions=repetitions,
        words=None if constraints is None else constraints.word_history(),
    )


class _BestPieces:
    """Selects the candidate pieces of each step, subject to the options of the search."""

    def __init__(
        self,
        config: SearchConfig,
        device: torch.device,
        sampler: PieceSampler | None,
        constraints: Constraints | None,
    ) -> None:
        never = [PAD_ID, BOS_ID] if config.allow_unk else [PAD_ID, BOS_ID, UNK_ID]
        self.forbidden = torch.tensor(never, device=device)
        self.forbidden_early = torch.tensor([*never, EOS_ID], device=device)
        self.config, self.sampler, self.constraints = config, sampler, constraints

    def of_rows(self, out: StepOutput, rows: Rows, length: int) -> Pieces:
        """Return each row's candidate pieces and their log-probabilities; -infinity if blocked."""
        may_end = length > self.config.min_length
        must = rows.words is not None and rows.words.has_required
        if self.sampler is not None:
            log_probs, ids = self._unblocked(out, rows, self.sampler.n_pieces, may_end)
            column = self.sampler.choose(log_probs, rows.slots, length)
            pieces = log_probs.gather(1, column), ids.gather(1, column)
        else:
            # A row may fill the beam; one more piece, because eos is excluded if it lacks a word.
            n_pieces = self.config.beam + 1 if must else self.config.beam
            pieces = self._unblocked(out, rows, n_pieces, may_end)
        if rows.words is not None and must:
            all_log_probs = out.logits.float().log_softmax(dim=1)
            pieces = add_required_pieces(rows.words, all_log_probs, pieces, may_end)
        if self.constraints is None:
            return pieces
        return self.constraints.force(pieces, out, rows.slots, length - 1)

    def _unblocked(self, out: StepOutput, rows: Rows, n_pieces: int, may_end: bool) -> Pieces:
        """Return each row's `n_pieces` best unblocked pieces, among others at -infinity."""
        forbidden = self.forbidden if may_end else self.forbidden_early
        histories = [history for history in (rows.repetitions, rows.words) if history is not None]
        blocked = [
            pair for history in histories for pair in zip(*history.blocked_pieces(), strict=True)
        ]
        if not blocked:
            return out.vocabulary.top_k_log_probs(out.features, n_pieces, forbidden)
        indices, pieces = torch.tensor(blocked, device=rows.slots.device).unbind(dim=1)
        n_most = n_pieces + int(np.bincount([row for row, _ in blocked]).max())
        log_probs, ids = out.vocabulary.top_k_log_probs(out.features, n_most, forbidden)
        equal = (ids[indices] == pieces.unsqueeze(1)).long()
        is_blocked = torch.zeros_like(ids).index_add_(0, indices, equal) > 0
        # Other rows have more blocked pieces, which must not give this one more candidates.
        is_extra = (~is_blocked).cumsum(dim=1) > n_pieces
        return log_probs.masked_fill(is_blocked | is_extra, -torch.inf), ids


def _keeps_all_rows(device: torch.device) -> bool:
    """Return whether finished rows stay, so that nothing waits for the number of the others."""
    return device.type == "cuda"
