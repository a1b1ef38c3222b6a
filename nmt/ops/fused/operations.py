"""The operations with backward passes of their own, on torch's operations."""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int, Int8, Int32
from torch import Tensor

from nmt.ops.contract import Transition
from nmt.ops.fused.attentional_gru import AttentionalGRU
from nmt.ops.fused.gru import gru_layer
from nmt.ops.fused.linear import linear
from nmt.ops.fused.linear_cross_entropy import LinearCrossEntropy, LossChunks, MakeChunks
from nmt.ops.fused.top_k import top_k
from nmt.ops.fused.torch_steps import TorchSteps
from nmt.ops.precision import Dtypes
from nmt.ops.products import int8_product
from nmt.ops.reference import ReferenceOperations, allowed_log_probs
from nmt.ops.steps import Steps


class FusedOperations(ReferenceOperations):
    """See Operations. On a GPU cuDNN's GRU and the decoder's own loop are not replaced."""

    make_chunks: MakeChunks = LossChunks

    def __init__(self, dtypes: Dtypes, device_type: str, steps: Steps | None = None) -> None:
        self.dtypes = dtypes
        self.steps = steps or TorchSteps(dtypes)
        self.serves_gru_layer = self.serves_attentional_gru = device_type == "cpu"

    def linear(
        self,
        x: Float[Tensor, "*L I"],
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "*L O"]:
        """See Operations."""
        return linear(self.steps, x, weight, bias)

    def gru_layer(
        self,
        x: Float[Tensor, "B S I"],
        lengths: Int[Tensor, " B"],
        weights: Sequence[tuple[Tensor, ...]],
    ) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
        """See Operations."""
        return gru_layer(self.steps, x, lengths, weights)

    def attentional_gru(
        self,
        gates: Float[Tensor, "T B G"],
        hidden: Float[Tensor, "B H"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        W_c: Float[Tensor, "G M"],
        W_h: Float[Tensor, "G H"],
        b_h: Float[Tensor, " G"],
        W_q: Float[Tensor, "K H"],
        v: Float[Tensor, " K"],
        transition: Transition | None = None,
    ) -> tuple[Float[Tensor, "T B H"], Float[Tensor, "T B M"], Float[Tensor, "T B S"]]:
        """See Operations."""
        outputs = self._apply_attentional_gru(
            gates, hidden, keys, values, keep, W_c, W_h, b_h, W_q, v, *(transition or ())
        )
        return cast(tuple[Tensor, Tensor, Tensor], outputs)

    def _apply_attentional_gru(self, *tensors: Tensor) -> object:
        return AttentionalGRU.apply(self.steps, *tensors)

    def linear_cross_entropy(
        self,
        x: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"],
        targets: Int[Tensor, " N"],
        n_real: int,
        smoothing: float = 0.0,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, " N"]]:
        """See Operations."""
        loss, nlls = LinearCrossEntropy.apply(
            self.make_chunks, self.dtypes, x, weight, bias, targets, n_real, smoothing,
            torch.is_grad_enabled(),
        )  # fmt: skip
        return cast(Tensor, loss), cast(Tensor, nlls)

    def top_k_log_probs(
        self, logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """See Operations."""
        return top_k(allowed_log_probs(logits, banned_ids, n_real), k)

    def int8_matmul(
        self, left: Int8[Tensor, "N I"], right: Int8[Tensor, "I O"]
    ) -> Int32[Tensor, "N O"]:
        """See Operations."""
        return int8_product(left, right)

    def dequantize(
        self,
        products: Int32[Tensor, "N O"],
        row_scales: Float[Tensor, "N 1"],
        column_scales: Float[Tensor, " O"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        """See Operations."""
        y = products.float().mul_(column_scales)
        return y.mul_(row_scales) if bias is None else torch.addcmul(bias, y, row_scales, out=y)
