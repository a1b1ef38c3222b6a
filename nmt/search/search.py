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
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nmt.models.base import Seq2Seq, State, StepOutput
from nmt.ops.masks import keep_from_lengths
from nmt.search.back_pointers import BackPointers
from nmt.search.beam import Draw, StepFunction, search_steps
from nmt.search.constraints import Constraint, Constraints
from nmt.search.repetition import Repetitions, n_repetitions
from nmt.search.search_config import MAX_PIECES, SearchConfig
from nmt.search.selection import Rows
from nmt.text.vocabulary import BOS_ID
from nmt.types import Hypothesis


class Start(NamedTuple):
    """The B sentences of a search, and how often each may repeat itself."""

    step: StepFunction
    state: State
    first_ids: Int[Tensor, " B"]
    src_lengths: Sequence[int]
    allowed_repeats: Int[np.ndarray, " B"]
    constraints: Constraints | None = None

    def bounds(self, config: SearchConfig) -> list[int]:
        """Return the most pieces of each translation, eos included."""
        bounds = [config.length_bound(length) for length in self.src_lengths]
        return bounds if self.constraints is None else self.constraints.length_bounds(bounds)


@torch.inference_mode()
def search(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    on_step: Callable[[], None] | None = None,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first.

    Each step keeps the `beam` most probable continuations of a sentence; those that end with eos
    leave the beam as finished. Finished hypotheses come before those cut at the length bound
    (`SearchConfig.length_bound`), and both are ordered by score. A piece that would begin a
    repetition beyond `max_repeats`, or repeat an n-gram, is left out (search/repetition.py). A row
    is dropped once it cannot be among the n best: its total only falls and the length penalty lp
    only grows, so its score never exceeds total / lp(bound). A sentence has fewer than `n_best`
    hypotheses only where fewer sequences exist.

    `src_ids` end with eos, padding follows; pad and bos are never produced. Of `config`, mbr,
    sampling and the texts of words are left to the caller. The model should be in eval mode.
    `on_step` is called before each step; an exception that it raises ends the search.
    `constraints` has one for each sentence, if any: its prefix is given whatever `config` forbids,
    and the length bound lies behind it and leaves room for its words. Raises NMTError for a
    sentence without a hypothesis: the model's logits are NaN, or the options leave no piece.
    """
    if src_ids.shape[0] == 0:
        return []
    began = start(model, src_ids, src_lengths, config, on_step, constraints)
    return trace(began, config).n_best(began.src_lengths, config.n_best, config.length_penalty)


def start(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    on_step: Callable[[], None] | None,
    constraints: Sequence[Constraint] = (),
) -> Start:
    """Encode the sources; the arguments are those of `search`."""
    keep = keep_from_lengths(src_lengths, src_ids.shape[1])
    state = model.init_search_state(model.encode(src_ids, keep))

    def step(last_ids: Int[Tensor, " R"], state: State) -> StepOutput:
        if on_step is not None:
            on_step()
        return model.step(last_ids, state)

    allowed = np.full(len(src_ids), MAX_PIECES)
    if config.max_repeats is not None:
        allowed = n_repetitions(src_ids, keep, config.max_repeats)
    first_ids = torch.full_like(src_lengths, BOS_ID)
    bound = Constraints(constraints, src_ids.shape[1], config.beam) if constraints else None
    return Start(step, state, first_ids, src_lengths.tolist(), allowed, bound)


@torch.inference_mode()
def search_from(
    step: StepFunction,
    state: State,
    first_ids: Int[Tensor, " B"],
    src_lengths: Sequence[int],
    config: SearchConfig,
) -> list[list[Hypothesis]]:
    """`search` from B initial states, whatever memory their decoder attends to.

    `first_ids` are what the decoder reads before the first piece: bos in translation.
    `src_lengths` say how many of the S positions belong to each row, and bound its length.
    """
    allowed = np.full(len(src_lengths), config.max_repeats or MAX_PIECES)
    began = Start(step, state, first_ids, src_lengths, allowed)
    return trace(began, config).n_best(src_lengths, config.n_best, config.length_penalty)


def trace(began: Start, config: SearchConfig, draw: Draw | None = None) -> BackPointers:
    """All steps of a search. With `draw`, and a beam of 1, the pieces are those that it chooses."""
    constraints, device, bounds = began.constraints, began.first_ids.device, began.bounds(config)
    repetitions = None
    if config.max_repeats is not None or config.no_repeat_ngram is not None:
        repetitions = Repetitions.none_yet(began.allowed_repeats, config.no_repeat_ngram)
    dtype = torch.float32 if device.type == "mps" else torch.float64  # mps has no fp64
    rows = Rows(
        slots=torch.arange(len(bounds), device=device) * config.beam,
        last_ids=began.first_ids,
        totals=torch.zeros(len(bounds), dtype=dtype, device=device),
        state=began.state,
        repetitions=repetitions,
        words=None if constraints is None else constraints.word_history(),
    )
    steps = search_steps(began.step, rows, bounds, config, draw, constraints)
    return BackPointers(steps)
