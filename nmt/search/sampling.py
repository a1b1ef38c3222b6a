"""Translations drawn from a model's distribution.

Ancestral sampling draws each piece from its distribution given the pieces before it. What is
improbable may be left out: all but k pieces (Fan et al. 2018, arXiv 1805.04833), what is beyond a
nucleus of probability p (Holtzman et al. 2020, arXiv 1904.09751), or pieces whose probability is
below epsilon, unless it is the highest (Hewitt et al. 2022, arXiv 2210.15191).

The noise of a sample is a function of the seed, the source and the sample's number. So neither
the batch nor the order of the sentences changes a sample, except where rounding does
(search/search.py): a draw may differ where it falls within rounding of the border of two pieces.
"""

import sys
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.models.base import Seq2Seq
from nmt.search.beam import Draw
from nmt.search.constraints import Constraint, Constraints
from nmt.search.search import start, trace
from nmt.search.search_config import SamplingConfig, SearchConfig
from nmt.types import Hypothesis


@torch.inference_mode()
def sample(  # noqa: PLR0913 - those of search, and what is drawn
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    sampling: SamplingConfig,
    n_samples: int,
    on_step: Callable[[], None] | None = None,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """`n_samples` translations of each sentence, drawn independently; some may be equal.

    The bounds of `config` on length and repetitions hold, and so do `allow_unk` and words that
    must not occur: what they exclude is never drawn. Words that must occur are not supported.
    `log_probs` are the model's own, whatever the temperature. More samples begin with the same
    ones. The other arguments and errors are those of `search`.
    """
    if len(src_ids) == 0:
        return []
    began = start(model, src_ids, src_lengths, config, on_step, constraints)
    sizes = began.src_lengths
    bounds = began.bounds(config)
    noise = np.zeros((len(sizes), n_samples, max(bounds)), np.float32)
    for b, (ids, size) in enumerate(zip(src_ids.tolist(), sizes, strict=True)):
        generator = np.random.default_rng([sampling.seed, *ids[:size]])
        noise[b, :, : bounds[b]] = generator.random((n_samples, bounds[b]), np.float32)
    rows = torch.arange(len(sizes), device=src_ids.device).repeat_interleave(n_samples)
    row_sizes = np.repeat(sizes, n_samples).tolist()
    repeated = [constraint for constraint in constraints for _ in range(n_samples)]
    samples = began._replace(
        state=began.state.select(rows),
        first_ids=began.first_ids[rows],
        src_lengths=row_sizes,
        allowed_repeats=began.allowed_repeats.repeat(n_samples),
        constraints=Constraints(repeated, src_ids.shape[1], beam=1) if repeated else None,
    )
    greedy = config.plain_beam(1)
    draw = _draw(torch.from_numpy(noise).flatten(0, 1).to(src_ids.device), sampling)
    traced = trace(samples, greedy, draw)
    drawn = [best for [best] in traced.n_best(row_sizes, 1, config.length_penalty)]
    return [drawn[k : k + n_samples] for k in range(0, len(drawn), n_samples)]


def _draw(noise: Float[Tensor, "N T"], sampling: SamplingConfig) -> Draw:
    """The inverse of the distribution function at `noise`, uniform in [0, 1).

    At most 1 / epsilon pieces have a probability of epsilon, so no more are looked at.
    """

    def choose(
        log_probs: Float[Tensor, "R K"], slots: Int[Tensor, " R"], length: int
    ) -> Int[Tensor, "R 1"]:
        dtype = torch.float32 if log_probs.device.type == "mps" else torch.float64
        if sampling.top_k is not None:  # there are more where some are blocked
            best = log_probs.topk(min(sampling.top_k, log_probs.shape[1]), dim=1).values
            log_probs = log_probs.masked_fill(log_probs < best[:, -1:], -torch.inf)
        if sampling.temperature != 1:
            log_probs = (log_probs / sampling.temperature).log_softmax(dim=1)
        probs = log_probs.exp()
        highest = probs.amax(dim=1, keepdim=True)
        probs = probs.masked_fill(probs < highest.clamp(max=sampling.epsilon), 0)
        totals = probs.cumsum(dim=1, dtype=dtype)
        if sampling.top_p < 1:  # the pieces are ordered: up to the first that completes the nucleus
            outside = totals - probs >= sampling.top_p * totals[:, -1:]
            totals = probs.masked_fill(outside, 0).cumsum(dim=1, dtype=dtype)
        threshold = noise[slots, length - 1].unsqueeze(1) * totals[:, -1:]
        return (totals > threshold).byte().argmax(dim=1, keepdim=True)  # the first that is above

    is_plain = sampling.temperature == 1  # else the probabilities need the logits of all pieces
    n_likely = int(1 / sampling.epsilon) if sampling.epsilon and is_plain else sys.maxsize
    return Draw(min(n_likely, sampling.top_k or sys.maxsize), choose)
