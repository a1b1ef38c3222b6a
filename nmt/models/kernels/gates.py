"""The pointwise part of a GRU step and its derivative, on gates that products have made.

    r = sigmoid(x_r + h_r);  z = sigmoid(x_z + h_z);  n = tanh(x_n + r h_n);  h' = (1 - z) n + z h

as in torch.nn.GRUCell. Units come before rows here, (H, B) and not (B, H): the BLAS of a CPU
multiplies a weight by few columns a quarter faster than few rows by a weight.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Gates(NamedTuple):
    """What the derivative of a step needs: [r; z; h_n] in one piece, n, and the state before."""

    r_z_hn: Float[Tensor, "*L G B"]
    n: Float[Tensor, "*L H B"]
    state: Float[Tensor, "*L H B"]


def gru_gates_(
    x: Float[Tensor, "*L G B"], h: Float[Tensor, "*L G B"], state: Float[Tensor, "*L H B"]
) -> tuple[Float[Tensor, "*L H B"], Float[Tensor, "*L H B"]]:
    """The next state and n, from the shares of input and state in the gates [r; z; n], G = 3 H.

    In place: the first two thirds of `h` become r and z, so that it is what `Gates` keeps.
    """
    size = state.shape[-2]
    rz, h_n = h[..., : 2 * size, :], h[..., 2 * size :, :]
    rz.add_(x[..., : 2 * size, :]).sigmoid_()
    r, z = rz[..., :size, :], rz[..., size:, :]
    n = tanh_(torch.addcmul(x[..., 2 * size :, :], r, h_n))
    return torch.lerp(n, state, z), n


def gru_gates_backward(
    grad: Float[Tensor, "*L H B"], gates: Gates, shares: Float[Tensor, "*L F B"]
) -> Float[Tensor, "*L H B"]:
    """The gradient of the state but for its way through the gates, given that of h'.

    What goes through the gates is written into `shares`, F = 4 H: of x_n, then of r, z and h_n.
    The first 3 H are the gradient of x in the order [n; r; z], the last 3 H that of h in its own.
    """
    size = gates.n.shape[-2]
    thirds: tuple[Tensor, ...] = gates.r_z_hn.unflatten(-2, (3, size)).unbind(-3)
    r, z, h_n = thirds
    kept = grad * z
    grad_n = torch.ops.aten.tanh_backward(grad - kept, gates.n)
    shares[..., :size, :] = grad_n
    shares[..., size : 2 * size, :] = torch.ops.aten.sigmoid_backward(grad_n * h_n, r)
    shares[..., 2 * size : 3 * size, :] = torch.ops.aten.sigmoid_backward(
        grad * (gates.state - gates.n), z
    )
    shares[..., 3 * size :, :] = grad_n * r
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
