"""Connections of the positions of a layer, and paths of a signal, read from the layer itself.

A path is counted in hops. A hop is one application of the layer to a signal: a stacked layer, or a
step of a recurrence (arXiv 1706.03762, section 4: the path between any two input and output
positions).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from nmt.lab.sequence_layers import SequenceLayer

Connections = npt.NDArray[np.bool_]
"""(n, n): whether output i, of the row, depends directly on position j, of the column."""


@dataclass(frozen=True)
class Paths:
    """The shortest paths from every input j to every output i of a stack of layers.

    `hops[h][i, p]` says whether hop h + 1 leads from position p to i; the first goes from inputs to
    outputs. `lengths[i, j]` is the number of hops from j to i, 0 where they are not connected.
    `within` says whether later hops are steps inside the same layer rather than further layers.
    """

    hops: tuple[Connections, ...]
    lengths: npt.NDArray[np.int64]
    within: bool

    @property
    def longest(self) -> int:
        """The greatest number of hops between two positions that are connected."""
        return int(self.lengths.max())

    def between(self, first: int, last: int) -> list[int]:
        """The positions of a shortest path: `first`, then the one after each hop, up to `last`."""
        path = [last]
        for hop in range(int(self.lengths[last, first]) - 1, 0, -1):
            known = (self.lengths[:, first] > 0) & (self.lengths[:, first] <= hop)
            path.append(int(np.flatnonzero(self.hops[hop][path[-1]] & known)[0]))
        return [first, *reversed(path)]


def connections(layer: SequenceLayer, n: int, size: int) -> tuple[Connections, Connections]:
    """Direct connections of outputs with inputs, and with other outputs of the same layer.

    A connection is a gradient of one `sweep` that is not 0, at random vectors of `size` numbers.
    """
    x, before = (torch.randn(n, n, size).to(_weight(layer)).requires_grad_() for _ in range(2))
    y = layer.sweep(x, before)
    # Sequence i of the batch is asked for its output i alone.
    asked = y[torch.arange(n), torch.arange(n)].sum()
    gradients = torch.autograd.grad(asked, (x, before), allow_unused=True, materialize_grads=True)
    inputs, outputs = (gradient.any(dim=-1).numpy() for gradient in gradients)
    return inputs, outputs


def shortest_paths(layer: SequenceLayer, n: int, size: int) -> Paths:
    """Follow the connections hop by hop until no further pair of positions is connected.

    Hops stay within the layer where its outputs depend on each other, else they go through a stack.
    """
    edges, steps = connections(layer, n, size)
    within = bool(steps.any())
    lengths = np.zeros((n, n), dtype=np.int64)
    reached, hops = edges, [edges]
    while np.any(new := reached & (lengths == 0)):
        lengths[new] = len(hops)
        if within:
            edges = steps
        elif (above := layer.above()) is not layer:
            layer, edges = above, connections(above, n, size)[0]
        hops.append(edges)
        reached = (edges.astype(np.float32) @ reached.astype(np.float32)) > 0
    return Paths(tuple(hops[:-1]), lengths, within)


def sequential_steps(layer: SequenceLayer, n: int, size: int) -> int:
    """The number of sweeps until every output is known.

    Outputs that are not known yet are NaN, which spreads to all that is computed from them.
    """
    with torch.no_grad():
        x = torch.randn(1, n, size).to(_weight(layer))
        y, steps = torch.full_like(x, torch.nan), 0
        while y.isnan().any():
            y, steps = layer.sweep(x, y), steps + 1
    return steps


def _weight(layer: SequenceLayer) -> Float[Tensor, "..."]:
    return next(layer.parameters())
