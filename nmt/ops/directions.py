"""One or two directions of a recurrent layer over padded sentences."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

Reader = Callable[[int, Float[Tensor, "N I"]], Float[Tensor, "N H"]]
"""The states after each of S steps of B rows, from a state of 0; N = S B, steps first."""

Reorder = Callable[[Float[Tensor, "N C"], Int[Tensor, " N"]], Float[Tensor, "N C"]]
"""x[order], for an order that is its own inverse."""


def take_rows(x: Float[Tensor, "N C"], order: Int[Tensor, " N"]) -> Float[Tensor, "N C"]:
    """x[order] with autograd's own derivative."""
    return x.index_select(0, order)


def in_directions(
    x: Float[Tensor, "B S I"],
    lengths: Int[Tensor, " B"],
    readers: Sequence[Reader],
    reorder: Reorder = take_rows,
) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
    """The states at every position, 0 at padding, and each direction's state after its last word.

    There are 1 or 2 readers; the second reads each sentence from its own end. Their states lie
    side by side, forward first. Padding is read after all words, so that it reaches no state that
    is returned and gets no gradient.
    """
    n_rows, n_steps = x.shape[:2]
    rows = torch.arange(n_rows, device=x.device)
    positions = torch.arange(n_steps, device=x.device).unsqueeze(1)
    inside = positions < lengths
    mirrored = torch.where(inside, lengths - 1 - positions, positions) * n_rows + rows
    order = mirrored.flatten()  # row t B + b of the other direction; its own inverse
    steps = x.transpose(0, 1).reshape(n_steps * n_rows, -1)
    last = (lengths - 1) * n_rows + rows
    outputs: list[Tensor] = []
    finals: list[Tensor] = []
    for direction, read in enumerate(readers):
        states = read(n_steps, reorder(steps, order) if direction else steps)
        finals.append(states[last])
        outputs.append(reorder(states, order) if direction else states)
    annotations = torch.cat(outputs, dim=1) * inside.flatten().unsqueeze(1)
    return annotations.view(n_steps, n_rows, -1).transpose(0, 1), torch.cat(finals, dim=1)
