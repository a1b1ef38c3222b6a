"""Translations drawn from a model's distribution.

Ancestral sampling draws each piece from its distribution given the pieces before it. Epsilon
sampling (Hewitt et al. 2022, arXiv 2210.15191) leaves out pieces whose probability is below
epsilon, unless it is the highest.

The noise of a sample is a function of the seed, the source and the sample's number. So neither
the batch nor the order of the sentences changes a sample, except where rounding does
(decoding/search.py): a draw may differ where it falls within rounding of the border of two pieces.
"""

import sys
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.decoding.search import Draw, MBRConfig, SearchConfig, start, trace
from nmt.models.base import Seq2Seq
from nmt.types import Hypothesis


@torch.inference_mode()
def sample(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    config: SearchConfig,
    mbr: MBRConfig,
    on_step: Callable[[], None] | None = None,
) -> list[list[Hypothesis]]:
    """`mbr.samples` translations of each sentence, drawn independently; some may be equal.

    The bounds of `config` on length and repetitions hold, and so does `allow_unk`: what they
    exclude is never drawn. `log_probs` are the model's own. More samples begin with the same ones.
    The other arguments and errors are those of `search`.
    """
    n_samples = mbr.samples
    if len(src_ids) == 0 or n_samples is None:
        return [[] for _ in src_ids]
    began = start(model, src_ids, src_lengths, config, on_step)
    sizes = began.src_lengths
    noise = np.zeros((len(sizes), n_samples, max(map(config.length_bound, sizes))), np.float32)
    for b, (ids, size) in enumerate(zip(src_ids.tolist(), sizes, strict=True)):
        bound = config.length_bound(size)
        generator = np.random.default_rng([mbr.seed, *ids[:size]])
        noise[b, :, :bound] = generator.random((n_samples, bound), np.float32)
    rows = torch.arange(len(sizes), device=src_ids.device).repeat_interleave(n_samples)
    allowed, row_sizes = began.allowed_repeats, np.repeat(sizes, n_samples).tolist()
    each = began._replace(
        state=began.state.select(rows),
        first_ids=began.first_ids[rows],
        src_lengths=row_sizes,
        allowed_repeats=None if allowed is None else allowed.repeat(n_samples),
    )
    greedy = config.model_copy(update={"beam": 1, "n_best": 1})
    draw = _draw(torch.from_numpy(noise).flatten(0, 1).to(src_ids.device), mbr.epsilon)
    found = trace(each, greedy, draw).n_best(row_sizes, 1, config.length_penalty)
    return [[one for [one] in found[k : k + n_samples]] for k in range(0, len(found), n_samples)]


def _draw(noise: Float[Tensor, "N T"], epsilon: float) -> Draw:
    """The inverse of the distribution function at `noise`, uniform in [0, 1).

    At most 1 / epsilon pieces have a probability of epsilon, so no more are looked at.
    """

    def choose(
        log_probs: Float[Tensor, "R K"], slots: Int[Tensor, " R"], length: int
    ) -> Int[Tensor, "R 1"]:
        probs = log_probs.exp()
        highest = probs.amax(dim=1, keepdim=True)
        probs = probs.masked_fill(probs < highest.clamp(max=epsilon), 0)
        dtype = torch.float32 if probs.device.type == "mps" else torch.float64
        totals = probs.cumsum(dim=1, dtype=dtype)
        threshold = noise[slots, length - 1].unsqueeze(1) * totals[:, -1:]
        return (totals > threshold).byte().argmax(dim=1, keepdim=True)  # the first that is above

    return Draw(int(1 / epsilon) if epsilon else sys.maxsize, choose)
