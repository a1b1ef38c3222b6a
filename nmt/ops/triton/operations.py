"""The fused operations with the decoder's steps in Triton, on a CUDA GPU."""

from typing import cast

from torch import Tensor

from nmt.ops.fused.operations import FusedOperations
from nmt.ops.precision import Dtypes
from nmt.ops.reference import AdditiveMemory, DecoderWeights
from nmt.ops.triton.attentional_gru import AttentionalGRU


class TritonOperations(FusedOperations):
    """See Operations. cuDNN's GRU is not replaced."""

    def __init__(self, dtypes: Dtypes) -> None:
        super().__init__(dtypes, "cuda")
        self.has_attentional_gru = True

    def attentional_gru(
        self, gates: Tensor, hidden: Tensor, memory: AdditiveMemory, weights: DecoderWeights
    ) -> tuple[Tensor, Tensor, Tensor]:
        outputs = AttentionalGRU.apply(self.dtypes, gates, hidden, *memory, *weights)
        return cast(tuple[Tensor, Tensor, Tensor], outputs)
