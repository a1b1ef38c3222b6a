"""No attention: the same context vector for every query."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import torch

from nmt.models.attention.base import Attention, AttentionState
from nmt.models.attention.weighting import Weighting, WeightingOutput, masked_argmax_one_hot
from nmt.models.base import Memory
from nmt.models.shapes import HeadScores, Keys, Mask, Queries, Scores
from nmt.ops.backend import BackendName
from nmt.settings.base import Config, Conflict


class NoAttentionConfig(Config):
    """No attention: at every step, the context is the encoder's summary of the whole source.

    This is the encoder-decoder of arXiv 1406.1078 and 1409.3215, a baseline for attention. A
    bidirectional encoder's summary is [forward state after the last word; backward state after the
    first].
    """

    kind: Literal["none"] = "none"

    def build(self, query_size: int, memory_size: int, backend: BackendName = "auto") -> Attention:
        return NoAttention(memory_size)

    def conflicts(self, query_size: int, memory_size: int) -> Iterator[Conflict]:
        yield from ()


class NoAttention(Attention):
    """The context is always `Memory.final` of the top layer, independent of attention weights.

    The last kept position, which is eos, gets all weight, so that alignments have no links.
    """

    def __init__(self, memory_size: int) -> None:
        super().__init__(key_size=memory_size)
        self.weighting = _LargestWeighting()

    def init_state(self, memory: Memory) -> AttentionState:
        summary = memory.final[:, -1:].expand_as(memory.values)
        return replace(super().init_state(memory), values=summary)

    def score(self, query: Queries, keys: Keys) -> Scores:
        positions = torch.arange(keys.shape[1], device=keys.device, dtype=keys.dtype)
        return positions.expand(query.shape[0], query.shape[1], -1)


class _LargestWeighting(Weighting):
    def forward(self, scores: HeadScores, keep: Mask) -> WeightingOutput:
        return WeightingOutput(masked_argmax_one_hot(scores, keep))
