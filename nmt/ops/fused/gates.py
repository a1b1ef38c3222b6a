"""The order of a GRU's gates."""

from torch import Tensor


def n_first(gates: Tensor, dim: int = 0) -> Tensor:
    """[r; z; n] along `dim` as [n; r; z]."""
    return gates.roll(gates.shape[dim] // 3, dim)


def n_last(gates: Tensor, dim: int = 0) -> Tensor:
    """[n; r; z] along `dim` as [r; z; n]."""
    return gates.roll(-(gates.shape[dim] // 3), dim)
