"""The order of a GRU's gates, and a fast tanh."""

from torch import Tensor


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
