"""Translations sampled from a model's distribution.

Ancestral sampling draws each piece from its distribution given the previous pieces. Improbable
pieces may be excluded: all but the k most probable (Fan et al. 2018, arXiv 1805.04833), those
outside of a nucleus of probability p (Holtzman et al. 2020, arXiv 1904.09751), or those with a
probability below epsilon, except the most probable (Hewitt et al. 2022, arXiv 2210.15191).

The noise of a sample is a function of the seed, the source and the sample's number. So neither the
batch nor the order of the sentences changes a sample, except by rounding (search/search.py).
"""

import sys

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.search.beam import PieceSampler, SearchStart, search_from
from nmt.search.search_config import SamplingConfig, SearchConfig
from nmt.types import Hypothesis


def sample(
    start: SearchStart, src_ids: Int[Tensor, "B S"], config: SearchConfig, sampling: SamplingConfig
) -> list[list[Hypothesis]]:
    """Sample `n_best` translations of each sentence independently; some may be equal.

    They are in the order of sampling; a larger `n_best` only appends samples. The bounds of
    `config` on length and repetitions, `allow_unk` and forbidden words apply: what they exclude is
    never sampled. Required words are not supported. `log_probs` do not depend on the temperature.
    """
    n, sizes, bounds = config.n_best, start.src_lengths, start.bounds(config)
    noise = np.zeros((len(sizes), n, max(bounds)), np.float32)
    for b, (ids, size) in enumerate(zip(src_ids.tolist(), sizes, strict=True)):
        generator = np.random.default_rng([sampling.seed, *ids[:size]])
        noise[b, :, : bounds[b]] = generator.random((n, bounds[b]), np.float32)
    rows = torch.arange(len(sizes), device=src_ids.device).repeat_interleave(n)
    allowed = start.max_repeats_by_sentence
    samples = start._replace(
        state=start.state.select(rows),
        first_ids=start.first_ids[rows],
        src_lengths=[size for size in sizes for _ in range(n)],
        max_repeats_by_sentence=None if allowed is None else allowed.repeat(n),
        constraints=[constraint for constraint in start.constraints for _ in range(n)],
    )
    sampler = _piece_sampler(torch.from_numpy(noise).flatten(0, 1).to(src_ids.device), sampling)
    hypotheses = [best for [best] in search_from(samples, config.plain_beam(1), sampler)]
    return [hypotheses[k : k + n] for k in range(0, len(hypotheses), n)]


def _piece_sampler(noise: Float[Tensor, "N T"], sampling: SamplingConfig) -> PieceSampler:
    """Return a sampler by the inverse distribution function at `noise`, uniform in [0, 1).

    At most 1 / epsilon pieces have a probability of at least epsilon, so only these are examined.
    """

    def choose(
        log_probs: Float[Tensor, "R K"], slots: Int[Tensor, " R"], length: int
    ) -> Int[Tensor, "R 1"]:
        dtype = torch.float32 if log_probs.device.type == "mps" else torch.float64
        if sampling.top_k is not None:  # there are more columns if pieces are blocked
            best = log_probs.topk(min(sampling.top_k, log_probs.shape[1]), dim=1).values
            log_probs = log_probs.masked_fill(log_probs < best[:, -1:], -torch.inf)
        if sampling.temperature != 1:
            log_probs = (log_probs / sampling.temperature).log_softmax(dim=1)
        probs = log_probs.exp()
        highest = probs.amax(dim=1, keepdim=True)
        probs = probs.masked_fill(probs < highest.clamp(max=sampling.epsilon), 0)
        totals = probs.cumsum(dim=1, dtype=dtype)
        if sampling.top_p < 1:  # pieces are sorted: keep those up to the end of the nucleus
            outside = totals - probs >= sampling.top_p * totals[:, -1:]
            totals = probs.masked_fill(outside, 0).cumsum(dim=1, dtype=dtype)
        threshold = noise[slots, length - 1].unsqueeze(1) * totals[:, -1:]
        return (totals > threshold).byte().argmax(dim=1, keepdim=True)  # the first one above

    is_plain = sampling.temperature == 1  # otherwise probabilities need all pieces' logits
    n_likely = int(1 / sampling.epsilon) if sampling.epsilon and is_plain else sys.maxsize
    return PieceSampler(min(n_likely, sampling.top_k or sys.maxsize), choose)
