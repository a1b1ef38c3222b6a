"""Greedy and beam search over any Seq2Seq.

`search` knows a model by `encode`, `init_search_state`, `step` and `State.select` only.
`search_from` needs just the last two, so it decodes whatever memory its states were started from.
All sentences of a batch advance together. A row of the model is one unfinished hypothesis; it is
dropped as soon as it is finished or can no longer be among the n best.

Selection is deterministic: of equal candidates the lower beam slot wins, then the lower id.
Sentences of a batch share nothing: masks, length bounds, totals and stopping are per sentence,
totals of log-probabilities are fp64, and padding adds exact zeros. One thing is not guaranteed: a
matrix product over another number of rows may differ in its last bits. So log-probabilities may
differ by rounding (about 1e-6) between batch sizes, and with them the choice between two
candidates that are closer than that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from nmt.decoding.back_pointers import BackPointers, Candidates, SearchStep, length_penalty
from nmt.decoding.repetition import Repetitions, n_repetitions, without
from nmt.models.base import Seq2Seq, State, StepOutput
from nmt.ops.masks import keep_from_lengths
from nmt.settings.base import Config, conflict_error
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.types import Hypothesis

MAX_PIECES = 100_000
"""The highest bound of a translation's length, so that every search ends."""


class MBRConfig(Config):
    """Minimum Bayes risk: of several candidates the translation that is most like all of them."""

    samples: int | None = Field(
        default=32,
        ge=1,
        le=10_000,
        description="translations drawn per sentence as candidates; null: those of the beam",
    )
    epsilon: float = Field(
        default=0.02,
        ge=0,
        lt=1,
        description="pieces of lower probability are not drawn; 0: all may be",
    )
    utility: Literal["chrf", "bleu"] = Field(
        default="chrf", description="likeness of two translations: sacreBLEU's chrF2 or BLEU"
    )
    seed: int = Field(default=1, ge=0, description="seed of the samples")


class SearchConfig(Config):
    """How a search looks for the most probable translation."""

    beam: int = Field(
        default=5, ge=1, le=10_000, description="hypotheses kept per sentence; 1 is greedy"
    )
    n_best: int = Field(default=1, ge=1, description="hypotheses given per sentence; at most beam")
    length_penalty: float = Field(
        default=0.6,
        ge=0,
        le=10,
        description="alpha in score = log-probability / ((5 + pieces) / 6)^alpha; "
        "0 favours short translations",
    )
    max_length_factor: float = Field(
        default=2.0,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        description="a translation has at most max_length_factor * (source pieces, end "
        "included) + max_length_extra pieces",
    )
    max_length_extra: int = Field(
        default=10, ge=0, le=MAX_PIECES, description="pieces; see max_length_factor"
    )
    max_length: int = Field(
        default=1000,
        ge=1,
        le=MAX_PIECES,
        description="pieces a translation has at most, however long its source",
    )
    max_repeats: int | None = Field(
        default=3,
        ge=2,
        description="how often in a row a translation may have the same pieces, of any number; "
        "where its source repeats more often, as often as the source; null: no bound",
    )
    mbr: MBRConfig | None = Field(
        default=None, description="choice among candidates by minimum Bayes risk; null: by score"
    )
    batch_size: int = Field(default=64, ge=1, description="sentences translated at a time")
    allow_unk: bool = Field(default=True, description="whether <unk> may be produced")

    @model_validator(mode="after")
    def _n_best_within_beam(self) -> "SearchConfig":
        if self.n_best > self.beam:
            allowed = f"allowed: 1 to beam ({self.beam})"
            raise conflict_error([("n_best", f"got {self.n_best}, {allowed}")])
        return self

    def length_bound(self, src_length: int) -> int:
        """The most pieces, eos included, for a source of `src_length` ids, its eos included."""
        bound = int(self.max_length_factor * src_length + self.max_length_extra)
        return max(1, min(bound, self.max_length))


StepFunction = Callable[[Int[Tensor, " R"], State], StepOutput]
"""`Seq2Seq.step`, or the step of a decoder over another memory than words."""


class Draw(NamedTuple):
    """A choice of one piece for each row, in place of the most probable ones.

    `choose` gets the `n_pieces` best pieces of each row, their log-probabilities, the rows' slots
    and the length with the new piece, and returns a column for each row.
    """

    n_pieces: int
    choose: Callable[[Float[Tensor, "R K"], Int[Tensor, " R"], int], Int[Tensor, "R 1"]]


class Start(NamedTuple):
    """The first arguments of `search_from`, for B sentences."""

    step: StepFunction
    state: State
    first_ids: Int[Tensor, " B"]
    src_lengths: Sequence[int]
    allowed_repeats: Int[np.ndarray, " B"] | None


@dataclass(frozen=True)
class _Rows:
    """The R unfinished hypotheses that the next step extends.

    `slots` are their places in the flattened (B, W) beam, `totals` their log-probabilities.
    `repetitions` is None where these have no bound.
    """

    slots: Int[Tensor, " R"]
    last_ids: Int[Tensor, " R"]
    totals: Float[Tensor, " R"]
    state: State
    repetitions: Repetitions | None


@torch.inference_mode()
def search(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    on_step: Callable[[], None] | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first.

    Each step keeps the `beam` most probable continuations of a sentence; those that end with eos
    leave the beam as finished. Finished hypotheses come before those cut at the length bound
    (`SearchConfig.length_bound`), and both are ordered by score, sum(log p) / lp(T). A piece that
    would begin a repetition beyond `max_repeats` is left out (decoding/repetition.py). A row is
    dropped once it cannot be among the n best: its total only falls and lp only grows, so its
    score never exceeds total / lp(bound). A sentence has fewer than `n_best` hypotheses only
    where fewer sequences exist.

    `src_ids` end with eos, padding follows; pad and bos are never produced. `config.mbr` is left to
    the caller. The model should be in eval mode. `on_step` is called before each step; an
    exception that it raises ends the search. Raises NMTError for a sentence without a hypothesis,
    which happens if the model's logits are NaN.
    """
    alpha = config.length_penalty
    return search_penalties(model, src_ids, src_lengths, config, [alpha], on_step)[0]


@torch.inference_mode()
def search_penalties(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    penalties: Sequence[float],
    on_step: Callable[[], None] | None = None,
) -> list[list[list[Hypothesis]]]:
    """`search` with each of `penalties` in place of `config.length_penalty`, in one search.

    The beam is extended by totals alone. The penalty a only decides which rows are dropped: those
    of total t for which n finished hypotheses of total u and length T each have
    t / lp(bound)^a <= u / lp(T)^a, or |t| >= |u| (lp(bound) / lp(T))^a. As lp only grows, this
    also holds for every lower penalty: what the highest penalty drops, no other one needs. A
    dropped row leaves its places to rows of lower totals, which cannot be among the n best
    either. So the search with the highest penalty finds the n best hypotheses for all of them,
    and the others only order its finished hypotheses anew. Rounding is as between batch sizes.
    """
    if src_ids.shape[0] == 0:
        return [[] for _ in penalties]
    began = start(model, src_ids, src_lengths, config, on_step)
    found = trace(began, config.model_copy(update={"length_penalty": max(penalties)}))
    return [found.n_best(began.src_lengths, config.n_best, alpha) for alpha in penalties]


def start(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    on_step: Callable[[], None] | None,
) -> Start:
    """Encode the sources; the arguments are those of `search`."""
    keep = keep_from_lengths(src_lengths, src_ids.shape[1])
    state = model.init_search_state(model.encode(src_ids, keep))

    def step(last_ids: Int[Tensor, " R"], state: State) -> StepOutput:
        if on_step is not None:
            on_step()
        return model.step(last_ids, state)

    allowed = None
    if config.max_repeats is not None:
        allowed = n_repetitions(src_ids, keep, config.max_repeats)
    first_ids = torch.full_like(src_lengths, BOS_ID)
    return Start(step, state, first_ids, src_lengths.tolist(), allowed)


@torch.inference_mode()
def search_from(
    step: StepFunction,
    state: State,
    first_ids: Int[Tensor, " B"],
    src_lengths: Sequence[int],
    config: SearchConfig,
    allowed_repeats: Int[np.ndarray, " B"] | None = None,
) -> list[list[Hypothesis]]:
    """`search` from B initial states, whatever memory their decoder attends to.

    `first_ids` are what the decoder reads before the first piece: bos in translation.
    `src_lengths` say how many of the S positions belong to each row, and bound its length.
    `allowed_repeats` takes the place of `config.max_repeats`, unless that is None.
    """
    began = Start(step, state, first_ids, src_lengths, allowed_repeats)
    return trace(began, config).n_best(src_lengths, config.n_best, config.length_penalty)


def trace(began: Start, config: SearchConfig, draw: Draw | None = None) -> BackPointers:
    """All steps of a search. With `draw`, and a beam of 1, the pieces are those that it chooses."""
    step, state, first_ids, src_lengths, allowed_repeats = began
    bounds = [config.length_bound(length) for length in src_lengths]
    device = first_ids.device
    repetitions = None
    if config.max_repeats is not None and bounds:
        if allowed_repeats is None:
            allowed_repeats = np.full(len(bounds), config.max_repeats)
        repetitions = Repetitions.none_yet(allowed_repeats)
    rows = _Rows(
        slots=torch.arange(len(bounds), device=device) * config.beam,
        last_ids=first_ids,
        totals=torch.zeros(len(bounds), dtype=_total_dtype(device), device=device),
        state=state,
        repetitions=repetitions,
    )
    return BackPointers(_search_steps(step, rows, bounds, config, draw))


def _total_dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # mps has no fp64


def _search_steps(
    step: StepFunction,
    rows: _Rows,
    bounds: Sequence[int],
    config: SearchConfig,
    draw: Draw | None,
) -> list[SearchStep]:
    """All steps, until no row can change the n best hypotheses.

    After a step only the remaining rows and their last pieces are copied to the host.
    """
    device, dtype = rows.totals.device, rows.totals.dtype
    penalties = [length_penalty(n, config.length_penalty) for n in range(max(bounds) + 1)]
    bound_penalties = torch.tensor([[penalties[n]] for n in bounds], dtype=dtype, device=device)
    length_bounds = torch.tensor(bounds, device=device).unsqueeze(1)
    best_scores = rows.totals.new_full((len(bounds), config.n_best), -torch.inf)
    forbidden = [PAD_ID, BOS_ID] if config.allow_unk else [PAD_ID, BOS_ID, UNK_ID]
    forbidden_ids = torch.tensor(forbidden, device=device)
    steps: list[SearchStep] = []
    for length in range(1, max(bounds) + 1):
        out = step(rows.last_ids, rows.state)
        n_pieces = config.beam if draw is None else draw.n_pieces
        log_probs, ids = _top_pieces(out, rows, n_pieces, forbidden_ids)
        if draw is not None:
            column = draw.choose(log_probs, rows.slots, length)
            log_probs, ids = log_probs.gather(1, column), ids.gather(1, column)
        candidates = _extend(rows, log_probs, ids, len(bounds), config.beam)
        exists = candidates.totals > -torch.inf
        finished = exists & (candidates.ids == EOS_ID)
        cut = exists & ~finished & (length_bounds == length)
        steps.append(SearchStep(rows.slots, out.weights, candidates, finished | cut))
        scores = (candidates.totals / penalties[length]).masked_fill(~finished, -torch.inf)
        best_scores = torch.cat([best_scores, scores], dim=1).topk(config.n_best).values
        hopeless = candidates.totals / bound_penalties <= best_scores[:, -1:]
        slots = (exists & ~finished & ~cut & ~hopeless).flatten().nonzero().squeeze(1)
        if len(slots) == 0:
            break
        # Greedy rows keep their order: if none has ended, the state need not be copied.
        unmoved = config.beam == 1 and len(slots) == len(rows.slots)
        rows = _next_rows(candidates, slots, out.state, rows.repetitions, unmoved)
    return steps


def _next_rows(
    candidates: Candidates,
    slots: Int[Tensor, " R"],
    state: State,
    repetitions: Repetitions | None,
    unmoved: bool,
) -> _Rows:
    """The candidates in these slots as rows, each with its parent's state."""
    last_ids = candidates.ids.flatten()[slots]
    parents = candidates.parents.flatten()[slots]
    if repetitions is not None:
        repetitions = repetitions.after(None if unmoved else parents, last_ids)
    return _Rows(
        slots=slots,
        last_ids=last_ids,
        totals=candidates.totals.flatten()[slots],
        state=state if unmoved else state.select(parents),
        repetitions=repetitions,
    )


def _top_pieces(
    out: StepOutput, rows: _Rows, n_pieces: int, forbidden_ids: Int[Tensor, " N"]
) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """The `n_pieces` best pieces of each row (a beam needs as many) and their log-probabilities.

    Those that would repeat too often have -infinity; there are as many more pieces.
    """
    if rows.repetitions is None:
        return out.vocabulary.top_k_log_probs(out.features, n_pieces, forbidden_ids)
    blocked_rows, blocked_ids = rows.repetitions.blocked()
    if len(blocked_rows) == 0:
        return out.vocabulary.top_k_log_probs(out.features, n_pieces, forbidden_ids)
    n_more = int(np.bincount(blocked_rows).max())
    log_probs, ids = out.vocabulary.top_k_log_probs(out.features, n_pieces + n_more, forbidden_ids)
    return without(log_probs, ids, blocked_rows, blocked_ids), ids


def _extend(
    rows: _Rows,
    piece_log_probs: Float[Tensor, "R K"],
    piece_ids: Int[Tensor, "R K"],
    n_sentences: int,
    beam: int,
) -> Candidates:
    """The W = `beam` most probable continuations of each sentence's rows by their K best pieces.

    K is W, or the vocabulary where that is smaller: W pieces of one row fill the whole beam.
    """
    k = piece_ids.shape[1]
    totals = rows.totals.new_full((n_sentences * beam, k), -torch.inf)
    totals[rows.slots] = rows.totals.unsqueeze(1) + piece_log_probs
    row_of_slot = torch.zeros_like(totals[:, 0], dtype=torch.long)
    row_of_slot[rows.slots] = torch.arange(len(rows.slots), device=totals.device)
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
