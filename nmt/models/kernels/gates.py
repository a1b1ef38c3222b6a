"""The pointwise part of a GRU step and its derivative, on gates that products have made.

    r = sigmoid(x_r + h_r);  z = sigmoid(x_z + h_z);  n = tanh(x_n + r h_n);  h' = (1 - z) n + z h

as in torch.nn.GRUCell. The state's shares come in the order [h_n; h_r; h_z], the input's as
[x_r; x_z; x_n]: of r and z both have the same gradient, so that those of all shares are the two
ends of one tensor. Units come before rows here, (H, B) and not (B, H): a CPU multiplies a weight
by few columns faster than few rows by a weight.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Gates(NamedTuple):
    """What the derivative of a step needs: [h_n; r; z] in one piece, n, and the state before."""

    hn_r_z: Float[Tensor, "*L G B"]
    n: Float[Tensor, "*L H B"]
    state: Float[Tensor, "*L H B"]


def gru_gates_(
    x: Float[Tensor, "*L G B"], h: Float[Tensor, "*L G B"], state: Float[Tensor, "*L H B"]
) -> tuple[Float[Tensor, "*L H B"], Float[Tensor, "*L H B"]]:
    """The next state and n, from the shares of input and state in the gates, G = 3 H.

    In place: the last two thirds of `h` become r and z, so that it is what `Gates` keeps.
    """
    size = state.shape[-2]
    h_n, rz = h.split([size, 2 * size], dim=-2)
    x_rz, x_n = x.split([2 * size, size], dim=-2)
    r, z = rz.add_(x_rz).sigmoid_().chunk(2, dim=-2)
    n = tanh_(torch.addcmul(x_n, r, h_n))
    return torch.lerp(n, state, z), n


def gru_gates_backward(
    grad: Float[Tensor, "*L H B"], gates: Gates, shares: Float[Tensor, "*L F B"]
) -> Float[Tensor, "*L H B"]:
    """The gradient of the state but for its way through the gates, given that of h'.

    What goes through the gates is written into `shares`, F = 4 H: of h_n, r, z, and x_n.
    The first 3 H are the gradient of `h` in gru_gates_, the last 3 H that of `x`.
    """
    h_n, r, z = gates.hn_r_z.chunk(3, dim=-2)
    of_h_n, of_r, of_z, of_n = shares.chunk(4, dim=-2)
    sigmoid_backward = torch.ops.aten.sigmoid_backward
    kept: Tensor = grad * z
    grad_n = torch.ops.aten.tanh_backward(grad - kept, gates.n)
    of_n.copy_(grad_n)
    torch.mul(grad_n, r, out=of_h_n)
    sigmoid_backward(grad_n * h_n, r, grad_input=of_r)
    sigmoid_backward(grad * (gates.state - gates.n), z, grad_input=of_z)
    return kept


def n_first(gates: Tensor, dim: int = 0) -> Tensor:
    """[r; z; n] along `dim` as [n; r; z]."""
    return gates.roll(gates.shape[dim] // 3, dim)


def n_last(gates: Tensor, dim: int = 0) -> Tensor:
    """[n; r; z] along `dim` as [r; z; n]."""
    return gates.roll(-(gates.shape[dim] // 3), dim)


def tanh_(x: Tensor) -> Tensor:
    """tanh in place, as 2 sigmoid(2 x) - 1: torch's own takes six times as long on a CPU.

    The error is absolute, of the order of the dtype's epsilon, and not relative as tanh's is.
    """
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)
