"""Interface of the pointwise steps between matrix products; implemented by torch and by C++.

`fused/torch_steps.py` implements it by torch's operations, `native/` in C++. Tensors have units
before rows at a step, (H, B) and not (B, H): a CPU multiplies a weight by few columns faster than
few rows by a weight. Sizes: G = 3 H, F = 4 H.
"""

import abc

from jaxtyping import Bool, Float
from torch import Tensor

from nmt.ops.precision import Dtypes
from nmt.ops.products import product, transpose


class AdditiveSteps(abc.ABC):
    """Additive attention over one memory, a query at a time, and its backward pass.

        e_s = v . tanh(q + k_s);  w = softmax(e) over the kept positions;  c = sum_s w_s values_s

    (arXiv 1409.0473, appendix A.1.2). A row that may attend to no position has weights and a
    context of 0.
    """

    @abc.abstractmethod
    def attend(
        self,
        query: Float[Tensor, "K B"],
        saved_query: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        context: Float[Tensor, "B M"],
    ) -> None:
        """Write the weights, the context in compute_dtype, and what `attend_backward` needs of q.

        `query` is in compute_dtype.
        """

    @abc.abstractmethod
    def attend_backward(
        self,
        grad_read: Float[Tensor, "M B"],
        grad_context: Float[Tensor, "B M"] | None,
        grad_weights: Float[Tensor, "B S"] | None,
        saved_query: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        grad_context_sum: Float[Tensor, "B M"],
        grad_query: Float[Tensor, "K B"],
        grad_query_copy: Float[Tensor, "K B"],
    ) -> None:
        """Write the gradient of the query into `grad_query` and `grad_query_copy`.

        The gradient of the context is `grad_read` + `grad_context`, both in compute_dtype; the sum
        is written into `grad_context_sum`. `saved_query` and `weights` are what `attend` wrote.
        """

    @abc.abstractmethod
    def grad_keys(self) -> Float[Tensor, "B S K"]:
        """The gradient of the keys, summed over all steps so far."""

    @abc.abstractmethod
    def grad_v(self) -> Float[Tensor, " K"]:
        """The gradient of v, summed over all steps so far."""


class Steps(abc.ABC):
    """The gates of a GRU, and additive attention.

        r = sigmoid(x_r + h_r);  z = sigmoid(x_z + h_z);  n = tanh(x_n + r h_n)
        h' = (1 - z) n + z h

    as in torch.nn.GRUCell. The state's part of the gates has the order [h_n; h_r; h_z], the
    input's [x_r; x_z; x_n]. Both parts of r and z have the same gradient; with this order the
    gradients of all parts, [h_n; r; z; x_n], are one tensor of F = 4 H whose ends overlap.
    """

    def __init__(self, dtypes: Dtypes) -> None:
        self.compute_dtype, self.accumulate_dtype = dtypes

    def product(
        self, weight: Float[Tensor, "M K"], x: Float[Tensor, "K N"]
    ) -> Float[Tensor, "M N"]:
        """weight x, both in compute_dtype; `weight` is contiguous."""
        return product(weight, x)

    def transpose(self, weight: Float[Tensor, "M K"]) -> Float[Tensor, "K M"]:
        """The transpose of a contiguous matrix in compute_dtype, contiguous."""
        return transpose(weight)

    @abc.abstractmethod
    def gru_gates(
        self,
        x: Float[Tensor, "G B"],
        context: Float[Tensor, "G B"] | None,
        h: Float[Tensor, "G B"],
        bias: Float[Tensor, " F"],
        hidden: Float[Tensor, "H B"],
        saved: Float[Tensor, "F B"],
        out: Float[Tensor, "B H"],
    ) -> tuple[Float[Tensor, "H B"], Float[Tensor, "H B"]]:
        """The next state in accumulate_dtype and in compute_dtype; also written into `out`.

        The input's part of the gates is `x` + `context`, the state's `h`, all in compute_dtype;
        `bias` is that of [h_n; r; z; x_n]. `saved` becomes [h_n; r; z; n] for the backward pass.
        """

    @abc.abstractmethod
    def gru_gates_backward(
        self,
        grad_direct: Float[Tensor, "H B"],
        grad_product: Float[Tensor, "H B"] | None,
        grad_out: Float[Tensor, "B H"] | None,
        saved: Float[Tensor, "F B"],
        previous: Float[Tensor, "B H"],
        grad_gates: Float[Tensor, "F B"],
        grad_gates_copy: Float[Tensor, "F B"],
        grad_bias: Float[Tensor, " F"],
    ) -> Float[Tensor, "H B"]:
        """The gradient of the state `previous`, its way through the gates' product left out.

        The gradient of the next state is `grad_direct` + `grad_product` + `grad_out`; the latter
        two are in compute_dtype. The gradients of [h_n; r; z; x_n] are written into `grad_gates`
        and `grad_gates_copy`: the first 3 H are those of `h`, the last 3 H those of `x` and of
        `context`. Their sums over rows are added to `grad_bias`.
        """

    @abc.abstractmethod
    def additive_attention(
        self,
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> AdditiveSteps:
        """Attention over this memory."""
