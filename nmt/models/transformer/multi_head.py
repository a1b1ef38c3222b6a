"""Scaled dot-product attention with several heads."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nmt.models.attention.heads import join_heads, projected_value_norms, split_heads
from nmt.models.base import BatchFirst
from nmt.models.shapes import HeadScores
from nmt.ops.dropout import apply_dropout
from nmt.ops.masks import softmax_over_kept
from nmt.ops.precision import accumulate_dtype, compute_dtype

HeadVectors = Float[Tensor, "B N Q P"]  # vectors of N heads, of size P, for Q queries
HeadMask = Bool[Tensor, "#B #N #Q S"]  # True where a key may be attended


@dataclass(frozen=True)
class KeyValues(BatchFirst):
    """The keys and values of N heads at S positions, each of size P = size / heads."""

    keys: Float[Tensor, "B N S P"]
    values: Float[Tensor, "B N S P"]

    def concatenate(self, later: "KeyValues") -> "KeyValues":
        if self.keys.shape[2] == 0:
            return later
        keys = torch.cat([self.keys, later.keys], dim=2)
        return KeyValues(keys, torch.cat([self.values, later.values], dim=2))

    def last(self, n: int) -> "KeyValues":
        """Return the last `n` positions, or all positions if there are fewer."""
        first = max(self.keys.shape[2] - n, 0)
        return KeyValues(self.keys[:, :, first:], self.values[:, :, first:])


def attention_weights(
    query: HeadVectors,
    keys: Float[Tensor, "B N S P"],
    keep: HeadMask | None,
    scale: float,
    bias: HeadScores | None = None,
) -> HeadScores:
    """Return softmax(scale (q^T k + bias)) over the kept keys; 0 if a query has no kept keys."""
    products = query @ keys.mT
    scores = scale * (products if bias is None else products + bias)
    if keep is None:
        return scores.softmax(dim=-1)
    return softmax_over_kept(scores, keep.expand_as(scores))


def fused_attention(
    query: HeadVectors, memory: KeyValues, keep: HeadMask | None, dropout: float, scale: float
) -> HeadVectors:
    """Compute attention with torch's fused function, which never stores all weights.

    On a CPU, 16-bit inputs are converted to fp32, because for up to 60 positions the backward pass
    of torch 2.13 is 2 to 6 times slower in bf16.
    """
    attend = nn.functional.scaled_dot_product_attention
    dtype, keys, values = compute_dtype(query), memory.keys, memory.values
    sum_dtype = accumulate_dtype(dtype)
    if query.device.type != "cpu" or dtype == sum_dtype:
        return attend(query, keys, values, keep, dropout, scale=scale)
    query, keys, values = (x.to(sum_dtype) for x in (query, keys, values))
    with torch.autocast("cpu", enabled=False):
        return attend(query, keys, values, keep, dropout, scale=scale).to(dtype)


class MultiHead(nn.Module):
    """Scaled dot-product attention with several heads (arXiv 1706.03762, section 3.2).

        head_n = softmax(scale (W_q^n q)^T (W_k^n k)) W_v^n v;  W_o [head_1; ...; head_N]

    `size` is the size of the result and of all heads together; `heads` must divide it.
    `query_size`, `key_size` and `value_size` are the sizes of the inputs, by default `size`.
    `dropout` is the share of attention weights dropped in training. `scale` is 1 / sqrt(size /
    heads). Keys have no bias, because softmax would cancel it.
    """

    def __init__(  # noqa: PLR0913 - the sizes of three inputs
        self,
        size: int,
        heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        *,
        query_size: int | None = None,
        key_size: int | None = None,
        value_size: int | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (size // heads) ** -0.5
        self.dropout = dropout
        self.W_q = nn.Linear(query_size or size, size, bias)
        self.W_k = nn.Linear(key_size or size, size, bias=False)
        self.W_v = nn.Linear(value_size or size, size, bias)
        self.W_o = nn.Linear(size, size, bias)

    def project(
        self, keys: Float[Tensor, "B S K"], values: Float[Tensor, "B S M"] | None = None
    ) -> KeyValues:
        """Return the keys and values of all heads; if `values` is None, both come from `keys`."""
        values = keys if values is None else values
        return KeyValues(self.split(self.W_k(keys)), self.split(self.W_v(values)))

    def forward(
        self,
        query: Float[Tensor, "B Q X"],
        memory: KeyValues,
        keep: HeadMask | None = None,
        with_weights: bool = False,
        override: HeadScores | None = None,
    ) -> tuple[Float[Tensor, "B Q D"], HeadScores | None]:
        """Return the result of each query and, if `with_weights`, the weights of each head.

        A query without any kept key gets a sum of 0. If `keep` is None, all keys are kept.
        `override` replaces the attention weights, except where it is NaN.
        """
        sums, weights = self.attend(  # its input has no name, so that its memory is freed here
            self.split(self.W_q(query)), memory, keep, with_weights, override
        )
        return self.join(sums), weights

    def attend(
        self,
        query: HeadVectors,
        memory: KeyValues,
        keep: HeadMask | None,
        with_weights: bool,
        override: HeadScores | None = None,
    ) -> tuple[HeadVectors, HeadScores | None]:
        """Return each head's weighted sum of values and, if `with_weights`, its weights."""
        if with_weights or override is not None:
            weights = attention_weights(query, memory.keys, keep, self.scale)
            if override is not None:
                weights = torch.where(override.isnan(), weights, override)
            sums = self.drop(weights).to(memory.values.dtype) @ memory.values
            return sums, weights if with_weights else None
        dropout = self.dropout if self.training else 0.0
        return fused_attention(query, memory, keep, dropout, self.scale), None

    def value_norms(self, memory: KeyValues) -> Float[Tensor, "B N S"]:
        """Return ||W_o^n W_v^n v|| of each head n at each position."""
        return projected_value_norms(memory.values, self.W_o.weight)

    def drop(self, weights: HeadScores) -> HeadScores:
        return apply_dropout(weights, self.dropout, self.training)

    def split(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B N S P"]:
        return split_heads(x, self.heads)

    def join(self, sums: HeadVectors) -> Float[Tensor, "B Q D"]:
        """Return W_o [head_1; ...; head_N]."""
        return self.W_o(join_heads(sums))
