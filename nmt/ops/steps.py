"""What the fused operations compute between their products: the contract, and who fulfils it.

Two dtypes: `low`, of products' factors and results and of what is kept in bulk; `work`, of
all arithmetic here. Units come before rows at a step, (H, B) and not (B, H): a CPU multiplies a
weight by few columns faster than few rows by a weight.
"""

import abc

from jaxtyping import Bool, Float
from torch import Tensor

from nmt.ops.precision import Dtypes
from nmt.ops.products import columns, product


class Looks(abc.ABC):
    """Looks of additive attention at one memory, one query after another, and back again.

        e_s = v . tanh(q + k_s);  w = softmax(e) over the kept positions;  c = sum_s w_s values_s

    (arXiv 1409.0473, appendix A.1.2). A row that may look nowhere has weights and a context of 0.
    """

    @abc.abstractmethod
    def look(
        self,
        query: Float[Tensor, "K B"],
        asked: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        context: Float[Tensor, "B M"],
    ) -> None:
        """Write the weights and, in `low`, the context; `asked` is what look_backward needs of q.

        `query` is in `low`.
        """

    @abc.abstractmethod
    def look_backward(
        self,
        of_read: Float[Tensor, "M B"],
        of_context: Float[Tensor, "B M"] | None,
        of_weights: Float[Tensor, "B S"] | None,
        asked: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        whole: Float[Tensor, "B M"],
        of_query: Float[Tensor, "K B"],
        every: Float[Tensor, "K B"],
    ) -> None:
        """Write the gradient of the query into both of `of_query` and `every`.

        That of the context is `of_read` + `of_context`, both in `low`; it is written into
        `whole`. `asked` and `weights` are what `look` wrote.
        """

    @abc.abstractmethod
    def of_keys(self) -> Float[Tensor, "B S K"]:
        """The gradient of the keys, summed over all looks so far."""

    @abc.abstractmethod
    def of_v(self) -> Float[Tensor, " K"]:
        """The gradient of v, likewise."""


class Steps(abc.ABC):
    """The gates of a GRU, and looks.

        r = sigmoid(x_r + h_r);  z = sigmoid(x_z + h_z);  n = tanh(x_n + r h_n)
        h' = (1 - z) n + z h

    as in torch.nn.GRUCell. The state's shares come in the order [h_n; h_r; h_z], the input's as
    [x_r; x_z; x_n], G = 3 H: of r and z both have the same gradient, so that those of all shares
    are the two ends of one tensor, F = 4 H.
    """

    def __init__(self, dtypes: Dtypes) -> None:
        self.low, self.work = dtypes

    def product(
        self, weight: Float[Tensor, "M K"], x: Float[Tensor, "K N"]
    ) -> Float[Tensor, "M N"]:
        """Their product; `weight` lies in one piece, both are in `low`."""
        return product(weight, x)

    def columns(self, weight: Float[Tensor, "M K"]) -> Float[Tensor, "K M"]:
        """Its rows, in one piece and in `low`, as columns in one piece."""
        return columns(weight)

    @abc.abstractmethod
    def gru_gates(
        self,
        x: Float[Tensor, "G B"],
        read: Float[Tensor, "G B"] | None,
        h: Float[Tensor, "G B"],
        bias: Float[Tensor, " F"],
        state: Float[Tensor, "H B"],
        made: Float[Tensor, "F B"],
        out: Float[Tensor, "B H"],
    ) -> tuple[Float[Tensor, "H B"], Float[Tensor, "H B"]]:
        """The next state in `work` and in `low`; also written into `out`.

        The input's shares are `x` + `read`, the state's `h`, all in `low`; `bias` is that of
        [h_n; r; z; x_n]. `made` becomes [h_n; r; z; n], what gru_gates_backward needs.
        """

    @abc.abstractmethod
    def gru_gates_backward(
        self,
        kept: Float[Tensor, "H B"],
        through: Float[Tensor, "H B"] | None,
        of_out: Float[Tensor, "B H"] | None,
        made: Float[Tensor, "F B"],
        before: Float[Tensor, "B H"],
        shares: Float[Tensor, "F B"],
        every: Float[Tensor, "F B"],
        of_bias: Float[Tensor, " F"],
    ) -> Float[Tensor, "H B"]:
        """The gradient of the state `before` but for its way through the gates, in `work`.

        That of the next state is `kept` + `through` + `of_out`, the latter two in `low`. Those of
        the shares, [h_n; r; z; x_n], are written into both of `shares` and `every`: the first 3 H
        are the gradient of `h`, the last 3 H that of `x` and `read`. Their sums over rows are
        added to `of_bias`.
        """

    @abc.abstractmethod
    def looks(
        self,
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> Looks:
        """Looks at this memory."""
