"""Linear layers by oneDNN on a CPU in fp32."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.ops.products import is_for_onednn, product
from nmt.ops.steps import Steps
from nmt.ops.ways import steps_for


def linear(
    x: Float[Tensor, "*L I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None
) -> Float[Tensor, "*L O"]:
    """W x + b, with a first derivative where one is asked for."""
    if torch.is_autocast_enabled(x.device.type) or not is_for_onednn(x):
        return nn.functional.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled():
        made = cast(Tensor, _Linear.apply(steps_for(x), rows, weight, bias))
    else:
        made = product(rows, weight.t(), bias)
    return made.view(*x.shape[:-1], len(weight))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        by: Steps,
        x: Float[Tensor, "N I"],
        weight: Float[Tensor, "O I"],
        bias: Tensor | None,
    ) -> Float[Tensor, "N O"]:
        ctx.save_for_backward(x, weight)
        ctx.by = by
        return product(x, weight.t(), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,), (x, weight), wanted = grads, ctx.saved_tensors, ctx.needs_input_grad[1:]
        by: Steps = ctx.by
        columns = grad.t()
        is_turned = columns.is_contiguous()  # what left a fused operation lies that way round
        of_x: Tensor | None = None
        of_weight: Tensor | None = None
        if wanted[0]:
            of_x = product(by.columns(weight), columns).t() if is_turned else product(grad, weight)
        if wanted[1]:
            rows = columns if is_turned else by.columns(grad.contiguous())
            of_weight = product(rows, x)
        return None, of_x, of_weight, grad.sum(0) if wanted[2] else None


class Linear(nn.Linear):
    """torch's layer by `linear`."""

    def forward(self, x: Float[Tensor, "*L I"]) -> Float[Tensor, "*L O"]:
        """See the function."""
        return linear(x, self.weight, self.bias)
