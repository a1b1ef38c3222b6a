"""Five layers that map a sequence to a sequence, and their theoretical costs.

The costs follow arXiv 1706.03762, table 1: operations, sequential steps, and the path length, which
is the number of layers or steps that connect the two ends of the sequence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.models.attention.multi_head import MultiHeadConfig
from nmt.models.attention.span import MonotonicConfig
from nmt.models.base import Memory
from nmt.models.transformer.multi_head import MultiHead

Vectors = Float[Tensor, "B n d"]
"""A batch of sequences of n vectors."""


@dataclass(frozen=True)
class TheoreticalCosts:
    """The theoretical costs of a layer for a sequence of length n.

    The three orders are in O() notation: `order` of the operations, `steps_order` of the sequential
    steps, and `path_order` of the path length. `exponent` is the power of n in `order`. `macs`
    counts the multiply-adds of a forward pass, including projections.
    """

    order: str
    exponent: int
    macs: Callable[[int], int]
    path_order: str
    path: Callable[[int], int]
    steps_order: str = "1"
    steps: Callable[[int], int] = lambda n: 1


class SequenceLayer(nn.Module):
    """Base class of the layers, each with its theoretical costs."""

    theory: TheoreticalCosts

    def sweep(self, x: Vectors, previous: Vectors) -> Vectors:
        """Take one sequential step at every position, given the outputs of the `previous` sweep.

        By default, outputs do not depend on other outputs, and one sweep is the forward pass.
        """
        return self(x)

    def above(self) -> "SequenceLayer":
        """Return the next layer of a stack. By default, this is the same layer."""
        return self


class Convolution(SequenceLayer):
    """Convolution over k positions. Each layer of a stack widens the receptive field by k - 1."""

    def __init__(self, d: int, kernel: int) -> None:
        super().__init__()
        assert kernel % 2 == 1, "an even kernel would change the length of the sequence"
        self.inner = nn.Conv1d(d, d, kernel, padding=kernel // 2, bias=False)
        self.theory = TheoreticalCosts(
            "k n d²", 1, lambda n: kernel * n * d * d,
            "n / k", lambda n: _layers_across(n, kernel // 2),
        )  # fmt: skip

    def forward(self, x: Vectors) -> Vectors:
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


class DilatedConvolution(SequenceLayer):
    """Causal convolution over k positions that are `dilation` apart (arXiv 1609.03499).

    In a stack, the dilations are 1, k, k^2, ... Each layer makes the receptive field k times as
    wide. Within it, a single path connects each position to the output.
    """

    def __init__(self, d: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.inner = nn.Conv1d(d, d, kernel, dilation=dilation, bias=False)
        self.theory = TheoreticalCosts(
            "k n d²", 1, lambda n: kernel * n * d * d,
            # the smallest p >= 1 with k^p >= n; a logarithm would have rounding errors
            "log_k n", lambda n: next(p for p in count(1) if kernel**p >= n),
        )  # fmt: skip

    def forward(self, x: Vectors) -> Vectors:
        (kernel,), (dilation,) = self.inner.kernel_size, self.inner.dilation
        padded = nn.functional.pad(x.transpose(1, 2), ((kernel - 1) * dilation, 0))
        return self.inner(padded).transpose(1, 2)

    def above(self) -> SequenceLayer:
        (kernel,), (dilation,) = self.inner.kernel_size, self.inner.dilation
        layer = DilatedConvolution(self.inner.in_channels, kernel, dilation * kernel)
        return layer.to(self.inner.weight)


class Recurrence(SequenceLayer):
    """A GRU: six matrix products per position, three of the input and three of the state."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.inner = nn.GRU(d, d, batch_first=True)
        self.theory = TheoreticalCosts(
            "n d²", 1, lambda n: 6 * n * d * d,
            "n", lambda n: n,
            "n", lambda n: n,
        )  # fmt: skip

    def forward(self, x: Vectors) -> Vectors:
        return self.inner(x)[0]

    def sweep(self, x: Vectors, previous: Vectors) -> Vectors:
        states = nn.functional.pad(previous, (0, 0, 1, 0))[:, :-1]
        y: Tensor = self.inner(x.flatten(0, 1).unsqueeze(1), states.flatten(0, 1).unsqueeze(0))[0]
        return y.view_as(x)


class SelfAttention(SequenceLayer):
    """Transformer self-attention with one head: every position attends to all positions.

    Without `with_weights`, fused attention computes the n x n weights block by block.
    """

    def __init__(self, d: int, with_weights: bool) -> None:
        super().__init__()
        self.inner = MultiHead(d, heads=1, bias=False)
        self.with_weights = with_weights
        self.theory = TheoreticalCosts(
            "n² d", 2, lambda n: 4 * n * d * d + 2 * n * n * d,
            "1", lambda n: 1,
        )  # fmt: skip

    def forward(self, x: Vectors) -> Vectors:
        return self.inner(x, self.inner.project(x), with_weights=self.with_weights)[0]


class LocalAttention(SequenceLayer):
    """One head of attention in which query i attends to w = 2 `reach` + 1 positions around i.

    The weights have the shape (n, w), whereas `Attention` expands them to (n, n).
    """

    def __init__(self, d: int, reach: int) -> None:
        super().__init__()
        config = MultiHeadConfig(heads=1, span=MonotonicConfig(window=reach))
        self.inner = config.build(query_size=d, memory_size=d)
        width = 2 * reach + 1
        self.theory = TheoreticalCosts(
            "n w d", 1, lambda n: 4 * n * d * d + 2 * n * width * d,
            "n / w", lambda n: _layers_across(n, reach),
        )  # fmt: skip

    def forward(self, x: Vectors) -> Vectors:
        state, span = self.inner.init_state(memory_of(x)), self.inner.span
        assert span is not None
        window = span(x, state.keep, state.queries)
        index = torch.arange(len(x))[:, None, None], window.positions
        scores = self.inner.score(x.flatten(0, 1).unsqueeze(1), state.keys[index].flatten(0, 1))
        weights = self.inner.weighting(scores, window.keep.flatten(0, 1)).weights
        return self.inner.mix(weights, state.values[index].flatten(0, 1)).view_as(x)


def memory_of(x: Vectors) -> Memory:
    """Return the Memory that attention reads, for a sequence that has no padding."""
    return Memory(x, torch.ones(x.shape[:2], dtype=torch.bool), x[:, :1])


def _layers_across(n: int, reach: int) -> int:
    """Return the number of layers that connect n positions, with `reach` to each side per layer."""
    return -(-(n - 1) // reach)
