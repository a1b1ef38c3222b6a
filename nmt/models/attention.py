"""Attention over a memory: a kind writes `score`; mask, softmax and weighted sum live once.

To add a kind: a config class, its module with `project` and `score`, and its name in the union
at the foot; tests/laws then hold it to the same laws as the others.
"""

import abc
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from nmt.models.masks import softmax_where
from nmt.schema import Config


class Attention(nn.Module, abc.ABC):
    """From a query and a memory to a context vector and the weights it was made with.

    weights = softmax(score(query, keys)) over the kept positions; context = weights @ values.
    """

    @abc.abstractmethod
    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """The keys of a memory; called once per sentence."""

    @abc.abstractmethod
    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"]:
        """How well each query fits each key, unbounded and unmasked."""

    def forward(
        self,
        query: Float[Tensor, "B Q H"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
    ) -> tuple[Float[Tensor, "B Q M"], Float[Tensor, "B Q S"]]:
        """The context and the weights; weights are 0 wherever `keep` is False."""
        weights = softmax_where(self.score(query, keys), keep)
        return torch.bmm(weights, values), weights


class AdditiveConfig(Config):
    """Additive attention (Bahdanau et al. 2015): w_v^T tanh(W_q q + W_k k)."""

    kind: Literal["additive"] = "additive"
    size: int | None = Field(
        default=None,
        gt=0,
        description="units of the hidden layer that compares query and key; "
        "unset: as many as the decoder has hidden units",
    )

    def build(self, query_size: int, memory_size: int) -> Attention:
        """The module for queries and annotations of these sizes."""
        return AdditiveAttention(query_size, memory_size, self.size or query_size)


class AdditiveAttention(Attention):
    """score(q, k) = w_v^T tanh(W_q q + W_k k), no bias (arXiv 1409.0473, appendix A.1.2)."""

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__()
        self.W_q = nn.Linear(query_size, size, bias=False)
        self.W_k = nn.Linear(memory_size, size, bias=False)
        self.w_v = nn.Linear(size, 1, bias=False)

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """W_k k for every annotation."""
        keys: Tensor = self.W_k(values)
        return keys

    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"]:
        """w_v^T tanh(W_q q + keys), every query against every key."""
        energy = torch.tanh(self.W_q(query).unsqueeze(2) + keys.unsqueeze(1))
        scores: Tensor = self.w_v(energy).squeeze(-1)
        return scores


class FixedConfig(Config):
    """No attention: the same context at every step, the annotation of the last source position.

    The encoder-decoder that attention was invented for (arXiv 1406.1078, 1409.3215), as the
    baseline beside it.
    """

    kind: Literal["none"] = "none"

    def build(self, query_size: int, memory_size: int) -> Attention:
        """The module for queries and annotations of these sizes."""
        return FixedContext()


class FixedContext(Attention):
    """All the weight on the last kept position, whatever the query."""

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """The annotations themselves; nothing is compared with them."""
        return values

    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"]:
        """The later, the higher; `forward` rounds it off to the last kept position alone."""
        positions = torch.arange(keys.shape[1], device=keys.device, dtype=keys.dtype)
        return positions.expand(query.shape[0], query.shape[1], -1)

    def forward(
        self,
        query: Float[Tensor, "B Q H"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
    ) -> tuple[Float[Tensor, "B Q M"], Float[Tensor, "B Q S"]]:
        """The last kept annotation, and a weight of exactly 1 on it."""
        scores = self.score(query, keys).masked_fill(~keep.unsqueeze(1), -1)
        last = scores.argmax(dim=-1, keepdim=True)
        weights = torch.zeros_like(scores).scatter(-1, last, 1.0)
        return torch.bmm(weights, values), weights


AttentionConfig = Annotated[AdditiveConfig | FixedConfig, Field(discriminator="kind")]
