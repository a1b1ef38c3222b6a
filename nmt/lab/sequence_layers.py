"""Five layers from a sequence (B, n, d) to another one, and their theoretical costs.

Table 1 of arXiv 1706.03762: operations, steps that must follow on one another, and through how
many layers or steps a signal goes between the two ends of the sequence.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.models.attention.multi_head import MultiHeadConfig
from nmt.models.attention.span import MonotonicConfig
from nmt.models.base import Memory
from nmt.models.transformer.multi_head import MultiHead


@dataclass(frozen=True)
class Theory:
    """The theoretical costs of a layer. Orders are those of growth with n.

    `macs` counts multiplications that are added up, of a forward pass over one sequence of n,
    projections included; `steps` and `path` are numbers for n.
    """

    order: str
    exponent: int
    macs: Callable[[int], int]
    steps_order: str
    steps: Callable[[int], int]
    path_order: str
    path: Callable[[int], int]

    def at(self, n: int) -> dict[str, object]:
        """The orders, and their numbers for n."""
        return {
            "operations_order": self.order,
            "expected_slope": self.exponent,
            "sequential_steps_order": self.steps_order,
            "sequential_steps": self.steps(n),
            "path_order": self.path_order,
            "path": self.path(n),
        }


class SequenceLayer(nn.Module):
    """A layer and its theory."""

    theory: Theory

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        """The output sequence."""
        raise NotImplementedError

    def sweep(
        self, x: Float[Tensor, "B n d"], before: Float[Tensor, "B n d"]
    ) -> Float[Tensor, "B n d"]:
        """All positions at once, given the outputs `before` that the sweep before this one left.

        One sequential step. Where no output needs another output, it is the forward pass.
        """
        return self(x)

    def above(self) -> "SequenceLayer":
        """The next layer of a stack. It has the same connections unless a subclass says other."""
        return self


class Convolution(SequenceLayer):
    """Convolution over k positions; each stacked layer sees k - 1 more."""

    def __init__(self, d: int, kernel: int) -> None:
        super().__init__()
        assert kernel % 2 == 1, "with an even kernel the sequence would change its length"
        self.inner = nn.Conv1d(d, d, kernel, padding=kernel // 2, bias=False)
        self.theory = Theory(
            "k n d²", 1, lambda n: kernel * n * d * d,
            "1", lambda n: 1,
            "n / k", lambda n: _layers_across(n, kernel // 2),
        )  # fmt: skip

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


class DilatedConvolution(SequenceLayer):
    """Causal convolution over k positions that are `dilation` apart (arXiv 1609.03499).

    In a stack the dilations are 1, k, k^2 ...: a layer sees k times as many positions as the layer
    below it, and no position is seen on two paths.
    """

    def __init__(self, d: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.inner = nn.Conv1d(d, d, kernel, dilation=dilation, bias=False)
        self.theory = Theory(
            "k n d²", 1, lambda n: kernel * n * d * d,
            "1", lambda n: 1,
            "log_k n", lambda n: _power_at_least(n, kernel),
        )  # fmt: skip

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        (kernel,), (dilation,) = self.inner.kernel_size, self.inner.dilation
        padded = nn.functional.pad(x.transpose(1, 2), ((kernel - 1) * dilation, 0))
        return self.inner(padded).transpose(1, 2)

    def above(self) -> SequenceLayer:
        (kernel,), (dilation,) = self.inner.kernel_size, self.inner.dilation
        return DilatedConvolution(self.inner.in_channels, kernel, dilation * kernel).to(
            self.inner.weight
        )


class Recurrence(SequenceLayer):
    """A GRU: three gates from the input and three from the state, position by position."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.inner = nn.GRU(d, d, batch_first=True)
        self.theory = Theory(
            "n d²", 1, lambda n: 6 * n * d * d,
            "n", lambda n: n,
            "n", lambda n: n,
        )  # fmt: skip

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        return self.inner(x)[0]

    def sweep(
        self, x: Float[Tensor, "B n d"], before: Float[Tensor, "B n d"]
    ) -> Float[Tensor, "B n d"]:
        """See SequenceLayer: each position's step, from the state of the position before it."""
        states = nn.functional.pad(before, (0, 0, 1, 0))[:, :-1]
        y: Tensor = self.inner(x.flatten(0, 1).unsqueeze(1), states.flatten(0, 1).unsqueeze(0))[0]
        return y.view_as(x)


class SelfAttention(SequenceLayer):
    """One head of the Transformer's attention, every position over all.

    With weights it computes the table of all n x n; without, torch's fused attention computes
    a block of it at a time and holds no more.
    """

    def __init__(self, d: int, with_weights: bool) -> None:
        super().__init__()
        self.inner = MultiHead(d, heads=1, bias=False)
        self.with_weights = with_weights
        self.theory = Theory(
            "n² d", 2, lambda n: 4 * n * d * d + 2 * n * n * d,
            "1", lambda n: 1,
            "1", lambda n: 1,
        )  # fmt: skip

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        return self.inner(x, self.inner.project(x), with_weights=self.with_weights)[0]


class LocalAttention(SequenceLayer):
    """One head of the decoder's attention, the i-th query over w positions around the i-th.

    It leaves the weights in their windows; `Attention` gives them for all n x n places.
    """

    def __init__(self, d: int, reach: int) -> None:
        super().__init__()
        config = MultiHeadConfig(heads=1, span=MonotonicConfig(window=reach))
        self.inner = config.build(query_size=d, memory_size=d)
        width = 2 * reach + 1
        self.theory = Theory(
            "n w d", 1, lambda n: 4 * n * d * d + 2 * n * width * d,
            "1", lambda n: 1,
            "n / w", lambda n: _layers_across(n, reach),
        )  # fmt: skip

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        state, span = self.inner.begin(memory_of(x)), self.inner.span
        assert span is not None
        window = span(x, state.keep, state.queries)
        places = torch.arange(len(x))[:, None, None], window.positions
        scores = self.inner.score(x.flatten(0, 1).unsqueeze(1), state.keys[places].flatten(0, 1))
        weights = self.inner.weighting(scores, window.keep.flatten(0, 1)).weights
        return self.inner.mix(weights, state.values[places].flatten(0, 1)).view_as(x)


def memory_of(x: Float[Tensor, "B n d"]) -> Memory:
    """The sequence as the memory of an attention."""
    return Memory(x, torch.ones(x.shape[:2], dtype=torch.bool), x[:, :1])


def _layers_across(n: int, reach: int) -> int:
    """How many layers that see `reach` positions on each side connect both ends of n."""
    return -(-(n - 1) // reach)


def _power_at_least(n: int, base: int) -> int:
    """The smallest p with base^p >= n, at least 1; without rounding, as a logarithm has it."""
    power, reach = 1, base
    while reach < n:
        power, reach = power + 1, reach * base
    return power
