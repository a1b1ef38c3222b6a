"""Scores that compare one query with one key: additive, multiplicative, and by distance."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from nmt.device import CACHED_NUMBERS
from nmt.models.attention.base import Attention, AttentionState, Look
from nmt.models.attention.options import AttentionOptions
from nmt.models.attention.weighting import SoftWeighting
from nmt.ops.linear import Linear
from nmt.ops.native.search import compiled_search
from nmt.settings.base import Conflict

_SIZE = "units of the hidden layer that compares query and key; unset: as many as the query has"


class AdditiveConfig(AttentionOptions):
    """Additive attention (Bahdanau et al. 2015): w_v^T tanh(W_q q + W_k k)."""

    kind: Literal["additive"] = "additive"
    size: int | None = Field(default=None, gt=0, description=_SIZE)

    def module(self, query_size: int, memory_size: int) -> Attention:
        """See AttentionOptions."""
        return AdditiveAttention(query_size, memory_size, self.size or query_size)


class AdditiveAttention(Attention):
    """score(q, k) = w_v^T tanh(W_q q + W_k k), no bias (arXiv 1409.0473, appendix A.1.2)."""

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__(key_size=size)
        self.W_q = Linear(query_size, size, bias=False)
        self.W_k = Linear(memory_size, size, bias=False)
        self.w_v = nn.Linear(size, 1, bias=False)

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """W_k k for every annotation."""
        keys: Tensor = self.W_k(values)
        return keys

    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"]:
        """w_v^T tanh(W_q q + keys), every query against every key."""
        return _compared(self.W_q(query), keys, self.w_v)

    @property
    def is_plain(self) -> bool:
        """Whether weights are the softmax of the scores over the whole source, and of no more."""
        is_soft = isinstance(self.weighting, SoftWeighting)
        return is_soft and self.span is None and self.coverage is None

    def forward(self, query: Float[Tensor, "B Q H"], state: AttentionState) -> Look:
        """See Attention. One query a row, as a search asks them, goes by compiled code."""
        v = self.w_v.weight.squeeze(0)
        is_step = not torch.is_grad_enabled() and query.shape[1] == 1 and self.is_plain
        by = compiled_search(query, state.keys, state.values, v) if is_step else None
        if by is None:
            return super().forward(query, state)
        rows = torch.arange(len(query)) if state.beams is None else state.beams.sentences
        queries = self.W_q(query).squeeze(1)
        context, weights = by.look(queries, rows, state.keys, state.values, state.keep, v)
        after = replace(state, queries=state.queries + 1)
        return Look(context.unsqueeze(1), weights[:, None, None], after, None)


class ConcatConfig(AttentionOptions):
    """Luong's concat: v^T tanh(W [q; k]). Additive attention with its two matrices as one."""

    kind: Literal["concat"] = "concat"
    size: int | None = Field(default=None, gt=0, description=_SIZE)

    def module(self, query_size: int, memory_size: int) -> Attention:
        """See AttentionOptions."""
        return ConcatAttention(query_size, memory_size, self.size or query_size)


class ConcatAttention(Attention):
    """score(q, k) = v_a^T tanh(W_a [q; k]) (arXiv 1508.04025, section 3.1).

    W_a [q; k] is the sum of the products with the two halves of W_a, so that the keys' half is
    computed once per sentence here too. What differs from the additive kind is the initial
    weights: one matrix of size + memory columns is drawn smaller than two.
    """

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__(key_size=size)
        self.query_size = query_size
        self.W_a = nn.Linear(query_size + memory_size, size, bias=False)
        self.v_a = nn.Linear(size, 1, bias=False)

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """The product of every annotation with its half of W_a."""
        return nn.functional.linear(values, self.W_a.weight[:, self.query_size :])

    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"]:
        """v_a^T tanh(the sum of the halves)."""
        projected = nn.functional.linear(query, self.W_a.weight[:, : self.query_size])
        return _compared(projected, keys, self.v_a)


def _compared(
    queries: Float[Tensor, "B Q K"], keys: Float[Tensor, "B S K"], v: nn.Linear
) -> Float[Tensor, "B Q S"]:
    """v^T tanh(q + k), every query against every key."""
    if _is_fast(queries):
        return _compared_fast(queries, keys, v.weight.squeeze(0))
    scores: Tensor = v((queries.unsqueeze(2) + keys.unsqueeze(1)).tanh_()).squeeze(-1)
    return scores


def _is_fast(queries: Float[Tensor, "B Q K"]) -> bool:
    """Whether to take `_compared_fast`: on a CPU, for results alone, in no low precision."""
    is_low = torch.finfo(queries.dtype).bits < 32
    return queries.device.type == "cpu" and not torch.is_grad_enabled() and not is_low


def _compared_fast(
    queries: Float[Tensor, "B Q K"], keys: Float[Tensor, "B S K"], v: Float[Tensor, " K"]
) -> Float[Tensor, "B Q S"]:
    """The same for a few sentences at a time, so that the energies stay in the cache.

    tanh(x) is 2 sigmoid(2 x) - 1, which torch computes six times as fast.
    """
    numbers_each = queries.shape[1] * queries.shape[2] * keys.shape[1]
    n_together = max(1, CACHED_NUMBERS // max(1, numbers_each))
    both = zip(torch.split(2 * queries, n_together), torch.split(keys, n_together), strict=True)
    parts = [
        torch.add(some.unsqueeze(2), own.unsqueeze(1), alpha=2).sigmoid_() @ v for some, own in both
    ]
    return torch.cat(parts).mul_(2).sub_(v.sum())


class GeneralConfig(AttentionOptions):
    """Bilinear attention (Luong et al. 2015): q^T W k, for any two sizes."""

    kind: Literal["general"] = "general"

    def module(self, query_size: int, memory_size: int) -> Attention:
        """See AttentionOptions."""
        return GeneralAttention(query_size, memory_size)


class GeneralAttention(Attention):
    """score(q, k) = q^T W_a k (arXiv 1508.04025, section 3.1)."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(key_size=query_size)
        self.W_a = nn.Linear(memory_size, query_size, bias=False)

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """W_a k for every annotation."""
        keys: Tensor = self.W_a(values)
        return keys

    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"]:
        """Every query times every key."""
        return torch.bmm(query, keys.transpose(1, 2))


class _SameSizes(AttentionOptions):
    """Base of the kinds without weights, which compare vectors of one space only."""

    def conflicts(self, query_size: int, memory_size: int) -> Iterator[Conflict]:
        """Queries and annotations must have one size."""
        if query_size != memory_size:
            kind = type(self).model_fields["kind"].default
            yield (
                "kind",
                f"'{kind}' needs queries and annotations of one size: got {query_size} (the "
                f"decoder's hidden) and {memory_size} (the encoder's, directions together); set "
                "encoder.hidden, or take 'general', which needs no equal sizes",
            )


class DotConfig(_SameSizes):
    """Dot-product attention (Luong et al. 2015): q^T k, for equal sizes."""

    kind: Literal["dot"] = "dot"

    def module(self, query_size: int, memory_size: int) -> Attention:
        """See AttentionOptions."""
        return DotAttention(memory_size, scale=1.0)


class ScaledDotConfig(_SameSizes):
    """Scaled dot-product attention (Vaswani et al. 2017): q^T k / sqrt(d), for equal sizes."""

    kind: Literal["scaled_dot"] = "scaled_dot"

    def module(self, query_size: int, memory_size: int) -> Attention:
        """See AttentionOptions."""
        return DotAttention(memory_size, scale=memory_size**-0.5)


class DotAttention(Attention):
    """score(q, k) = scale q^T k.

    scale = 1 is the dot of arXiv 1508.04025; scale = 1 / sqrt(d) that of arXiv 1706.03762,
    equation 1: of components with variance 1 it makes scores with variance 1, whatever d is.
    """

    def __init__(self, size: int, scale: float) -> None:
        super().__init__(key_size=size)
        self.scale = scale

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """The annotations themselves, times the scale, once for all queries."""
        return values if self.scale == 1 else values * self.scale

    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"]:
        """Every query times every key."""
        return torch.bmm(query, keys.transpose(1, 2))


class GaussianConfig(_SameSizes):
    """A Gaussian kernel with a learned width: Nadaraya-Watson regression as an attention."""

    kind: Literal["gaussian"] = "gaussian"
    width: float | None = Field(
        default=None,
        gt=0,
        description="w at the start of training, the inverse of a distance; unset: "
        "(2 size)^(-1/4), which gives scores of variance 1 to components of variance 1",
    )

    def module(self, query_size: int, memory_size: int) -> Attention:
        """See AttentionOptions."""
        return GaussianAttention(memory_size, self.width or (2 * memory_size) ** -0.25)


class GaussianAttention(Attention):
    """score(q, k) = -(||q - k|| w)^2 / 2 (Nadaraya 1964, Watson 1964; d2l.ai, section 11.2).

    w = width exp(theta), so that it stays positive; theta is learned and starts at 0.
    """

    def __init__(self, size: int, width: float) -> None:
        super().__init__(key_size=size)
        self.initial_width = width
        self.theta = nn.Parameter(torch.zeros(1))

    @property
    def width(self) -> Float[Tensor, " 1"]:
        """w as it is now."""
        return self.initial_width * self.theta.exp()

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """The annotations themselves."""
        return values

    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"]:
        """||q - k||^2 = ||q||^2 - 2 q^T k + ||k||^2, of which ||q||^2 is the same for every key."""
        products = torch.bmm(query, keys.transpose(1, 2))
        squares = query.square().sum(-1).unsqueeze(2) + keys.square().sum(-1).unsqueeze(1)
        distances = (squares - 2 * products).clamp(min=0)  # rounding may go below
        return -distances * self.width.square() / 2
