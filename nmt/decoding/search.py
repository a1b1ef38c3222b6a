"""Greedy and beam search, and forced decoding, over any Seq2Seq.

The search knows a model by `encode`, `init_search_state`, `step` and `State.select` only, and
`search_from` by the last two: it decodes whatever memory its states were started from. All
sentences of a batch advance together; a row of the model is one unfinished hypothesis, and a row
is dropped as soon as it has ended or can no longer matter.

What is guaranteed. Selection is deterministic: of equal candidates the lower place in the beam,
then the lower id wins. Nothing is shared between the sentences of a batch: masks, bounds, sums
and stopping are per sentence, sums of log-probabilities are fp64, and the padding of a batch
adds exact zeros. What is not: a matrix product over another number of rows may differ in the
last bits, so log-probabilities may differ by rounding (about 1e-6) from one batch size to
another, and the choice between two candidates that are closer than this may differ with them.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from nmt.decoding.back_pointers import Chosen, Step, Trail, length_penalty, scored
from nmt.device import CACHED_NUMBERS
from nmt.models.base import Seq2Seq, State, StepOutput
from nmt.ops.backend import operations
from nmt.ops.masks import keep_from_lengths
from nmt.settings.base import Config, conflict_error
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.types import Hypothesis

MAX_PIECES = 100_000
"""The highest bound of a translation's length, so that every search ends."""


class SearchConfig(Config):
    """How the most probable translation is looked for."""

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


Stepper = Callable[[Int[Tensor, " R"], State], StepOutput]
"""`Seq2Seq.step`, or the same of a decoder over another memory than words."""


@dataclass(frozen=True)
class _Rows:
    """The unfinished hypotheses: what the next model step reads.

    `places[r]` says where row r lies in the (B, W) table, flattened; `sums` are the
    log-probabilities of the rows so far.
    """

    places: Int[Tensor, " R"]
    last_ids: Int[Tensor, " R"]
    sums: Float[Tensor, " R"]
    state: State


@torch.inference_mode()
def search(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    vocab_size: int,
    check: Callable[[], None] | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of every sentence, best first.

    Every step keeps the `beam` most probable continuations of a sentence; those with eos leave
    the beam as finished. Finished hypotheses come before those cut at the length bound
    (`SearchConfig.length_bound`); either are ordered by score, sum(log p) / lp(T). A hypothesis
    is given up, exactly, once it cannot come among the n best: its sum can only fall and lp only
    grow, so its score cannot exceed sum / lp(bound). There are fewer than `n_best` only where
    fewer sequences exist.

    `src_ids` end with eos, padding follows. `vocab_size` counts the real target pieces: ids from
    there on, pad and bos are never produced. The model should be in eval mode. `check` is called
    before every step; what it raises ends the search. Raises NMTError where a sentence gets no
    hypothesis, because the model's logits are NaN.
    """
    if src_ids.shape[0] == 0:
        return []
    keep = keep_from_lengths(src_lengths, src_ids.shape[1])
    first_ids = torch.full_like(src_lengths, BOS_ID)
    state = model.init_search_state(model.encode(src_ids, keep))

    def step(last_ids: Int[Tensor, " R"], state: State) -> StepOutput:
        if check is not None:
            check()
        return model.step(last_ids, state)

    return search_from(step, state, first_ids, src_lengths.tolist(), config, vocab_size)


@torch.inference_mode()
def search_from(
    step: Stepper,
    state: State,
    first_ids: Int[Tensor, " B"],
    src_sizes: Sequence[int],
    config: SearchConfig,
    vocab_size: int,
) -> list[list[Hypothesis]]:
    """`search` from B started states, whatever the memory that their decoder looks at.

    `first_ids` are what the decoder reads before the first piece: bos in translation.
    `src_sizes` say how many of the S positions belong to each row, and bound its length.
    """
    bounds = [config.length_bound(size) for size in src_sizes]
    device = first_ids.device
    rows = _Rows(
        places=torch.arange(len(bounds), device=device) * config.beam,
        last_ids=first_ids,
        sums=torch.zeros(len(bounds), dtype=_sum_dtype(device), device=device),
        state=state,
    )
    steps = _advance(step, rows, bounds, config, vocab_size)
    return Trail(steps).best(src_sizes, config.n_best, config.length_penalty)


def _sum_dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # mps has no fp64


def _advance(
    step: Stepper, rows: _Rows, bounds: Sequence[int], config: SearchConfig, vocab_size: int
) -> list[Step]:
    """All steps, until no row is left that could still matter.

    Only the number of rows that live on goes to the host after a step; the rest stays put.
    """
    device, exact = rows.sums.device, rows.sums.dtype
    penalties = [length_penalty(n, config.length_penalty) for n in range(max(bounds) + 1)]
    last_penalties = torch.tensor([penalties[n] for n in bounds], dtype=exact, device=device)
    limits = torch.tensor(bounds, device=device).unsqueeze(1)
    best = torch.full((len(bounds), config.n_best), -torch.inf, dtype=exact, device=device)
    banned_ids = torch.tensor(
        [PAD_ID, BOS_ID] if config.allow_unk else [PAD_ID, BOS_ID, UNK_ID], device=device
    )
    steps: list[Step] = []
    for length in range(1, max(bounds) + 1):
        out = step(rows.last_ids, rows.state)
        best_pieces = _best_pieces(out, config.beam, banned_ids, vocab_size)
        chosen = _choose(*best_pieces, rows, (len(bounds), config.beam))
        exists = chosen.sums > -torch.inf
        finished = exists & (chosen.ids == EOS_ID)
        scores = (chosen.sums / penalties[length]).masked_fill(~finished, -torch.inf)
        best = torch.cat([best, scores], dim=1).topk(config.n_best).values
        cut = exists & ~finished & (limits == length)
        steps.append(Step(rows.places, out.weights, chosen, finished | cut))
        hopeless = chosen.sums / last_penalties.unsqueeze(1) <= best[:, -1:]
        places = (exists & ~finished & ~cut & ~hopeless).flatten().nonzero().squeeze(1)
        if len(places) == 0:
            break
        # Greedy rows keep their order: with none lost, the memory need not be copied.
        unmoved = config.beam == 1 and len(places) == len(rows.places)
        parents = chosen.parents.flatten()[places]
        rows = _Rows(
            places=places,
            last_ids=chosen.ids.flatten()[places],
            sums=chosen.sums.flatten()[places],
            state=out.state if unmoved else out.state.select(parents),
        )
    return steps


def _choose(
    piece_log_probs: Float[Tensor, "R K"],
    piece_ids: Int[Tensor, "R K"],
    rows: _Rows,
    table: tuple[int, int],
) -> Chosen:
    """The W most probable extensions of each sentence's rows, of the K best pieces of each row.

    K is W, where there are as many pieces: no sentence can take more than W of one row.
    """
    n_sentences, beam = table
    width = piece_ids.shape[1]
    sums = rows.sums.new_full((n_sentences * beam, width), -torch.inf)
    sums[rows.places] = rows.sums.unsqueeze(1) + piece_log_probs
    row_of_place = torch.zeros_like(sums[:, 0], dtype=torch.long)
    row_of_place[rows.places] = torch.arange(len(rows.places), device=sums.device)
    ordered = sums.view(n_sentences, -1).sort(dim=1, descending=True, stable=True)
    picks = ordered.indices[:, :beam]
    first_places = torch.arange(n_sentences, device=sums.device).unsqueeze(1) * beam
    parents = row_of_place[first_places + picks // width]
    return Chosen(
        ids=piece_ids[parents, picks % width],
        log_probs=piece_log_probs[parents, picks % width],
        sums=ordered.values[:, :beam],
        parents=parents,
    )


def _best_pieces(
    out: StepOutput, beam: int, banned_ids: Int[Tensor, " N"], vocab_size: int
) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """The log-probabilities and ids of the W most probable pieces that may be produced, by row.

    On a CPU a few rows at a time: what fits its cache is not written to memory.
    """
    # Twice a cache's size: half as many small operations are worth more than the cache's rest.
    n_numbers = 2 * CACHED_NUMBERS if out.features.device.type == "cpu" else sys.maxsize
    own = operations(out.vocabulary.backend, out.features)
    best = [
        own.top_k_log_probs(logits, min(beam, logits.shape[1]), banned_ids, vocab_size)
        for logits in out.vocabulary.in_parts(out.features, n_numbers)
    ]
    return torch.cat([values for values, _ in best]), torch.cat([ids for _, ids in best])


@torch.inference_mode()
def force(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    tgt_ids: Sequence[Sequence[int]],
    alpha: float,
    with_heads: bool = False,
) -> list[Hypothesis]:
    """What the model says of given translations: log-probabilities, score and attention.

    `tgt_ids` are one translation per source, each with its own length and with eos where it is
    to be scored as finished; `alpha` is the exponent of the length penalty. Equal to what
    `search` reports of the same ids, up to rounding. `with_heads` gives each head's weights too.
    """
    longest = max((len(ids) for ids in tgt_ids), default=0)
    src_sizes: list[int] = src_lengths.tolist()
    if longest == 0:
        n_heads = len(model.head_names)
        none = [np.zeros((n_heads, 0, size), np.float32) for size in src_sizes]
        return [scored([], [], w[0], alpha, w if with_heads else None) for w in none]
    padded = [list(ids) + [PAD_ID] * (longest - len(ids)) for ids in tgt_ids]
    tgt_out = torch.tensor(padded, device=src_ids.device)
    tgt_in = torch.cat([torch.full_like(tgt_out[:, :1], BOS_ID), tgt_out[:, :-1]], dim=1)
    keep = keep_from_lengths(src_lengths, src_ids.shape[1])
    out = model(src_ids, keep, tgt_in, with_weights=True)
    logits = out.logits.float()
    log_probs = logits.gather(2, tgt_out.unsqueeze(2)).squeeze(2) - logits.logsumexp(dim=2)
    weights = out.weights.float().cpu().numpy()
    heads = out.heads.float().cpu().numpy() if with_heads else [None] * len(weights)
    return [
        scored(
            ids,
            row[: len(ids)],
            look[: len(ids), :size].copy(),
            alpha,
            None if of_heads is None else of_heads[:, : len(ids), :size].copy(),
        )
        for ids, row, look, of_heads, size in zip(
            tgt_ids, log_probs.tolist(), weights, heads, src_sizes, strict=True
        )
    ]
