"""The decoder's initial state."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.models.base import Memory, mean_annotation

InitialStateKind = Literal["tanh", "tanh_backward", "mean", "copy"]

LayerStates = tuple[Float[Tensor, "B L H"], Float[Tensor, "B L H"] | None]
"""The hidden states of L layers, and their cell states (None unless they are LSTMs)."""


class InitialState(nn.Module):
    """The initial state of every decoder layer, from the encoder's final state of the same layer.

        tanh            h_0 = tanh(W_s final + b_s) (arXiv 1409.0473, appendix A.2.2)
        tanh_backward   the same with the backward half of `final`, as in that paper
        mean            the same with the mean of the annotations (arXiv 1703.04357)
        copy            h_0 = final (arXiv 1409.3215)

    An LSTM's cell state c_0 is tanh(W_c final + b_c), computed by a separate layer (arXiv
    1502.03044, section 3.1.2). With `copy`, c_0 is the encoder's final cell state.
    """

    def __init__(
        self, kind: InitialStateKind, memory_size: int, hidden: int, layers: int, has_cell: bool
    ) -> None:
        super().__init__()
        self.kind = kind
        self.layers = layers
        self.has_cell = has_cell
        if kind == "copy":
            return
        inputs = memory_size // (2 if kind == "tanh_backward" else 1)
        self.W_s = _per_layer(inputs, hidden, layers)
        if has_cell:
            self.W_c = _per_layer(inputs, hidden, layers)

    def forward(self, memory: Memory) -> LayerStates:
        final = memory.final
        if self.kind == "copy":
            return final, memory.final_cell if self.has_cell else None
        if self.kind == "tanh_backward":
            final = final.chunk(2, dim=-1)[1]
        elif self.kind == "mean":
            final = mean_annotation(memory.values, memory.keep).expand(-1, self.layers, -1)
        return _tanh(self.W_s, final), _tanh(self.W_c, final) if self.has_cell else None


def _per_layer(inputs: int, outputs: int, layers: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(inputs, outputs) for _ in range(layers))


def _tanh(layers: nn.ModuleList, final: Float[Tensor, "B L M"]) -> Float[Tensor, "B L H"]:
    """Return tanh(W x + b), where each layer has its own W and b."""
    return torch.stack([torch.tanh(layer(final[:, i])) for i, layer in enumerate(layers)], dim=1)
