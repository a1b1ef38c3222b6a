"""The fused operations with the decoder's steps in Triton, on a CUDA GPU."""

from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor

from nmt.ops.fused.operations import FusedOperations
from nmt.ops.precision import Dtypes
from nmt.ops.triton.attentional_gru import AttentionalGRU


class TritonOperations(FusedOperations):
    """See Operations. cuDNN's GRU is not replaced."""

    def __init__(self, dtypes: Dtypes) -> None:
        super().__init__(dtypes, "cuda")
        self.serves_attentional_gru = True

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
    ) -> tuple[Float[Tensor, "T B H"], Float[Tensor, "T B M"], Float[Tensor, "T B S"]]:
        """See Operations."""
        outputs = AttentionalGRU.apply(
            self.dtypes, gates, hidden, keys, values, keep, W_c, W_h, b_h, W_q, v
        )
        return cast(tuple[Tensor, Tensor, Tensor], outputs)
