"""Linear layers by oneDNN on a CPU in fp32."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.ops.products import is_for_onednn, product
from nmt.ops.steps import Steps


def linear(
    steps: Steps,
    x: Float[Tensor, "*L I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None,
) -> Float[Tensor, "*L O"]:
    if torch.is_autocast_enabled(x.device.type) or not is_for_onednn(x):
        return nn.functional.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled():
        y = cast(Tensor, _Linear.apply(steps, rows, weight, bias))
    else:
        y = product(rows, weight.t(), bias)  # what _Linear computes, without its overhead
    return y.view(*x.shape[:-1], len(weight))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        steps: Steps,
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
        steps: Steps = ctx.steps
        transposed = grad.t()
        is_transposed = transposed.is_contiguous()  # as the fused operations leave it
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
