"""The operations with backward passes of their own, on torch's operations."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from nmt.ops.fused.attentional_gru import AttentionalGRU
from nmt.ops.fused.gru import gru_layer
from nmt.ops.fused.linear import linear
from nmt.ops.fused.linear_cross_entropy import LinearCrossEntropy, LossChunks, MakeChunks
from nmt.ops.fused.top_k import top_k
from nmt.ops.precision import Dtypes
from nmt.ops.products import int8_product
from nmt.ops.reference import AdditiveMemory, DecoderWeights, Operations, allowed_log_probs
from nmt.ops.steps import Steps


class FusedOperations(Operations):
    """See Operations. On a GPU cuDNN's GRU and the decoder's own loop are not replaced."""

    make_chunks: MakeChunks = LossChunks

    def __init__(self, dtypes: Dtypes, device_type: str, steps: Steps | None = None) -> None:
        self.dtypes = dtypes
        self.steps = steps or Steps(dtypes)
        self.has_gru_layer = self.has_attentional_gru = device_type == "cpu"

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return linear(self.steps, x, weight, bias)

    def gru_layer(
        self, x: Tensor, lengths: Tensor, weights: Sequence[tuple[Tensor, ...]]
    ) -> tuple[Tensor, Tensor]:
        return gru_layer(self.steps, x, lengths, weights)

    def attentional_gru(
        self, gates: Tensor, hidden: Tensor, memory: AdditiveMemory, weights: DecoderWeights
    ) -> tuple[Tensor, Tensor, Tensor]:
        outputs = AttentionalGRU.apply(self.steps, gates, hidden, *memory, *weights)
        return cast(tuple[Tensor, Tensor, Tensor], outputs)

    def linear_cross_entropy(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        n_real: int,
        smoothing: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        needs_grad = torch.is_grad_enabled()
        loss = LinearCrossEntropy.apply(
            self.make_chunks, self.dtypes, x, weight, bias, targets, n_real, smoothing, needs_grad
        )
        return cast(tuple[Tensor, Tensor], loss)

    def top_k_log_probs(
        self, logits: Tensor, k: int, banned_ids: Tensor, n_real: int
    ) -> tuple[Tensor, Tensor]:
        return top_k(allowed_log_probs(logits, banned_ids, n_real), k)

    def int8_matmul(self, left: Tensor, right: Tensor) -> Tensor:
        return int8_product(left, right)

    def dequantize(
        self, products: Tensor, row_scales: Tensor, column_scales: Tensor, bias: Tensor | None
    ) -> Tensor:
        y = products.float().mul_(column_scales)
        return y.mul_(row_scales) if bias is None else torch.addcmul(bias, y, row_scales, out=y)
