"""The fused operations with the decoder's steps in Triton, on a CUDA GPU."""

from torch import Tensor

from nmt.ops.fused.operations import FusedOperations
from nmt.ops.precision import Dtypes
from nmt.ops.triton.attentional_gru import AttentionalGRU


class TritonOperations(FusedOperations):
    """See Operations. cuDNN's GRU is not replaced."""

    def __init__(self, dtypes: Dtypes) -> None:
        super().__init__(dtypes, "cuda")
        self.serves_attentional_gru = True

    def _apply_attentional_gru(self, *tensors: Tensor) -> object:
        return AttentionalGRU.apply(self.dtypes, *tensors)
