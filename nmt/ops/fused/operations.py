"""The operations with hand-written backward passes, on top of torch's operations."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from nmt.ops.fused.gru import GRU, AttentionalGRU
from nmt.ops.fused.linear_cross_entropy import ChunkedLoss, LinearCrossEntropy
from nmt.ops.products import product, uses_onednn
from nmt.ops.reference import (
    AdditiveMemory,
    DecoderWeights,
    Operations,
    allowed_log_probs,
    read_directions,
)
from nmt.ops.steps import GRUSteps


class FusedOperations(Operations):
    """Operations with hand-written backward passes. On a GPU, torch computes the GRUs."""

    steps_type: type[GRUSteps] = GRUSteps
    chunks_type: type[ChunkedLoss] = ChunkedLoss

    def __init__(self, dtype: torch.dtype, device_type: str) -> None:
        self.steps = self.steps_type(dtype)
        self.has_gru_layer = self.has_attentional_gru = device_type == "cpu"

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return W x + b, computed by oneDNN for fp32 on a CPU."""
        if torch.is_autocast_enabled(x.device.type) or not uses_onednn(x):
            return nn.functional.linear(x, weight, bias)
        rows = x.reshape(-1, x.shape[-1])
        if torch.is_grad_enabled():
            y = cast(Tensor, _Linear.apply(self.steps, rows, weight, bias))
        else:
            y = product(rows, weight.t(), bias)  # what _Linear computes, without its overhead
        return y.view(*x.shape[:-1], len(weight))

    def gru_layer(
        self, x: Tensor, lengths: Tensor, weights: Sequence[tuple[Tensor, ...]]
    ) -> tuple[Tensor, Tensor]:
        readers = [partial(GRU.apply, self.steps, *direction) for direction in weights]
        return read_directions(x, lengths, readers)

    def attentional_gru(
        self, gates: Tensor, hidden: Tensor, memory: AdditiveMemory, weights: DecoderWeights
    ) -> tuple[Tensor, Tensor, Tensor]:
        outputs = AttentionalGRU.apply(self.steps, gates, hidden, *memory, *weights)
        return cast(tuple[Tensor, Tensor, Tensor], outputs)

    def linear_cross_entropy(
        self, x: Tensor, table: Tensor, bias: Tensor, targets: Tensor, keep: Tensor,
        n_real: int, smoothing: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Compute only kept rows on a CPU, but all on a GPU, where a selection blocks the host."""
        options = n_real, smoothing, torch.is_grad_enabled()
        apply = partial(LinearCrossEntropy.apply, self.chunks_type, self.steps)
        if x.device.type == "cpu":
            loss, nlls = apply(x[keep], table, bias, targets[keep], None, *options)
            return loss, nlls.new_zeros(keep.shape).masked_scatter_(keep, nlls)
        rows = x.flatten(0, -2), targets.flatten(), keep.flatten()
        loss, nlls = apply(rows[0], table, bias, *rows[1:], *options)
        return loss, nlls.view(keep.shape)

    def top_k_log_probs(
        self, logits: Tensor, k: int, banned_ids: Tensor, n_real: int
    ) -> tuple[Tensor, Tensor]:
        return top_k(allowed_log_probs(logits, banned_ids, n_real), k)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        steps: GRUSteps,
        x: Float[Tensor, "N I"],
        weight: Float[Tensor, "O I"],
        bias: Tensor | None,
    ) -> Float[Tensor, "N O"]:
        ctx.save_for_backward(x, weight)
        ctx.steps = steps
        return product(x, weight.t(), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,), (x, weight), needs = grads, ctx.saved_tensors, ctx.needs_input_grad[1:]
        steps: GRUSteps = ctx.steps
        transposed = grad.t()
        is_transposed = transposed.is_contiguous()  # as the fused operations return it
        grad_x: Tensor | None = None
        grad_weight: Tensor | None = None
        if needs[0] and is_transposed:
            grad_x = product(steps.transpose(weight), transposed).t()
        elif needs[0]:
            grad_x = product(grad, weight)
        if needs[1]:
            rows = transposed if is_transposed else steps.transpose(grad.contiguous())
            grad_weight = product(rows, x)
        return None, grad_x, grad_weight, grad.sum(0) if needs[2] else None


_GROUP = 64  # divides the number of rows of a vocabulary's table, so grouping logits copies nothing


def top_k(
    values: Float[Tensor, "R V"], k: int
) -> tuple[Float[Tensor, "R {k}"], Int[Tensor, "R {k}"]]:
    """Return the k largest fp32 values of each row and their positions, largest first; k <= V.

    The row is divided into groups of 64 values. The k largest values are in the k groups with the
    largest maxima, or the first of the groups with equal maxima. Only these groups and one more are
    searched, because `torch.topk` takes half the time if there are at least 64 times as many
    numbers as results.
    """
    if values.shape[1] % _GROUP:
        values = pad(values, (0, -values.shape[1] % _GROUP), value=-torch.inf)
    groups = values.view(-1, _GROUP)
    maxima = groups.amax(dim=1).view(len(values), -1)
    best = _positions(maxima, min(k + 1, maxima.shape[1])).sort(dim=1).values
    starts = torch.arange(0, maxima.numel(), maxima.shape[1], device=values.device)
    members = groups.index_select(0, (best + starts.unsqueeze(1)).flatten()).view(len(values), -1)
    at = _positions(members, k)
    return members.gather(1, at), best.gather(1, at // _GROUP) * _GROUP + at % _GROUP


def _positions(values: Float[Tensor, "R N"], k: int) -> Int[Tensor, "R {k}"]:
    """Return the positions of the k largest values; of equal values, the lower position is first.

    `torch.topk` does not define the order of ties. If the k + 1 largest values are distinct, there
    are no ties; on a CPU, this check costs nothing. Otherwise, values become distinct 64-bit keys.
    The upper 32 bits are those of the fp32 number as a signed integer, with the magnitude inverted
    if negative, which has the order of the numbers. The lower 32 bits are the negated position.
    """
    if values.device.type == "cpu" and k < values.shape[1]:
        greatest = values.topk(k + 1, dim=1)
        if not bool((greatest.values[:, 1:] == greatest.values[:, :-1]).any()):
            return greatest.indices[:, :k]
    bits = (values + 0.0).view(torch.int32).long()  # + 0.0 turns -0.0 into 0.0
    ordered = bits ^ ((bits >> 63) & 0x7FFFFFFF)
    keys = (ordered << 32) - torch.arange(values.shape[1], device=values.device)
    return keys.topk(k, dim=1).indices
