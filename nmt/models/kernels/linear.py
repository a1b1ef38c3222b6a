"""Linear layers by oneDNN on a CPU in fp32."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.models.kernels.products import is_for_onednn, product


def linear(
    x: Float[Tensor, "*L I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None
) -> Float[Tensor, "*L O"]:
    """W x + b, with a first derivative where one is asked for."""
    if torch.is_autocast_enabled(x.device.type) or not is_for_onednn(x):
        return nn.functional.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    made = cast(Tensor, _Linear.apply(rows, weight, bias))
    return made.view(*x.shape[:-1], len(weight))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Float[Tensor, "N I"], weight: Float[Tensor, "O I"], bias: Tensor | None
    ) -> Float[Tensor, "N O"]:
        ctx.save_for_backward(x, weight)
        return product(x, weight.t(), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,), (x, weight), wanted = grads, ctx.saved_tensors, ctx.needs_input_grad
        columns = grad.t()  # what left a fused operation lies that way round
        if columns.is_contiguous():
            of_x = torch.mm(grad, weight) if wanted[0] else None
            of_weight = product(columns, x) if wanted[1] else None
        else:
            of_x = product(grad, weight) if wanted[0] else None
            of_weight = torch.mm(columns, x) if wanted[1] else None
        return of_x, of_weight, grad.sum(0) if wanted[2] else None


class Linear(nn.Linear):
    """torch's layer by `linear`."""

    def forward(self, x: Float[Tensor, "*L I"]) -> Float[Tensor, "*L O"]:
        """See the function."""
        return linear(x, self.weight, self.bias)
