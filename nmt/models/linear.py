"""torch's linear layer, computed by the operations of a backend."""

from jaxtyping import Float
from torch import Tensor, nn

from nmt.ops.backend import BackendName, operations


class Linear(nn.Linear):
    """torch.nn.Linear, computed by Operations.linear."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, backend: BackendName = "auto"
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self.backend: BackendName = backend

    def forward(self, x: Float[Tensor, "*L I"]) -> Float[Tensor, "*L O"]:
        return operations(self.backend, x).linear(x, self.weight, self.bias)
