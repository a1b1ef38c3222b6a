"""Linear layers: by oneDNN on a CPU where no gradient is wanted, as in a search."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.models.kernels.products import product


def linear(
    x: Float[Tensor, "*L I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None
) -> Float[Tensor, "*L O"]:
    """W x + b, with a derivative where one is asked for."""
    if torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type):
        return nn.functional.linear(x, weight, bias)
    return product(x.reshape(-1, x.shape[-1]), weight.t(), bias).view(*x.shape[:-1], len(weight))


class Linear(nn.Linear):
    """torch's layer by `linear`."""

    def forward(self, x: Float[Tensor, "*L I"]) -> Float[Tensor, "*L O"]:
        """See the function."""
        return linear(x, self.weight, self.bias)
