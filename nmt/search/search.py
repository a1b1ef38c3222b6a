"""Beam search, greedy search and sampling over any Seq2Seq.

`search` uses a model only by `encode`, `init_search_state`, `step`, `State.select` and, if
attention weights are given, `State.with_attention`. All sentences of a batch advance together. A
row of the model is one unfinished hypothesis.

Selection is deterministic: of equal candidates the lower beam slot wins, then the lower id.
Sentences of a batch share nothing: masks, length bounds, totals and stopping are per sentence,
totals of log-probabilities are fp64, and padding adds exact zeros. But the last bits of a matrix
product may depend on its number of rows. So log-probabilities may differ by rounding (about 1e-6)
between batch sizes, and with them the choice between candidates that are closer than that.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.search.beam import SearchStart, search_from
from nmt.search.constraints import Constraint
from nmt.search.repetition import n_repetitions
from nmt.search.sampling import sample
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import BOS_ID
from nmt.types import Hypothesis


@torch.inference_mode()
def search(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    on_step: Callable[[], None] | None = None,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Return the `n_best` best hypotheses of each sentence, best first.

    Each step keeps the `beam` most probable continuations of a sentence. A continuation that ends
    with eos leaves the beam as finished. Finished hypotheses come before those cut at the length
    bound (`SearchConfig.length_bound`), and both are ordered by score. A piece that would begin a
    repetition beyond `max_repeats`, or repeat an n-gram, is excluded (search/repetition.py). A row
    is dropped once it cannot be among the n best: its total never rises and the length penalty lp
    never falls, so its score never exceeds total / lp(bound). A sentence has fewer than `n_best`
    hypotheses only if fewer sequences exist. With `config.sampling`, `n_best` hypotheses are
    sampled instead, and returned in the order of sampling (see `sample`).

    `src_ids` end with eos, followed by padding; pad and bos are never produced. `config.mbr`,
    `config.must` and `config.must_not` have no effect here: `constraints` holds the words. It has
    an item for each sentence, or is empty. A prefix is produced whatever `config` forbids, and the
    length bound leaves room for it and for the required words. The model should be in eval mode.
    `on_step` is called before each step; an exception from it ends the search. Raises NMTError if a
    sentence has no hypothesis: the model's logits are NaN, or the options leave no piece.
    """
    if len(src_ids) == 0:
        return []
    keep, allowed = keep_from_lengths(src_lengths, src_ids.shape[1]), None
    if config.max_repeats is not None:
        allowed = n_repetitions(src_ids, keep, config.max_repeats)
    start = SearchStart(
        model.step,
        state=model.init_search_state(model.encode(src_ids, keep)),
        first_ids=torch.full_like(src_lengths, BOS_ID),
        src_lengths=src_lengths.tolist(),
        n_positions=src_ids.shape[1],
        max_repeats_by_sentence=allowed,
        constraints=constraints,
        on_step=on_step or (lambda: None),
    )
    if config.sampling is not None:
        return sample(start, src_ids, config, config.sampling)
    return search_from(start, config)
