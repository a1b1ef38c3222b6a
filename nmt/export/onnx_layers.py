"""Recurrent encoder layers as ONNX's GRU and LSTM operators, for any number of steps."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nmt.models.recurrent.cells import CELLS, Cell, GRUCell, LSTMCell
from nmt.models.recurrent.encoder import EncoderStates, RecurrentLayers

ONNX_CELLS: dict[type[Cell], tuple[str, tuple[int, ...]]] = {
    GRUCell: ("GRU", (1, 0, 2)),
    LSTMCell: ("LSTM", (0, 3, 1, 2)),
}
"""The ONNX operator of each cell, and the index of each ONNX gate among the cell's gates.

ONNX orders the gates of a GRU as z, r, n, and those of an LSTM as i, o, f, g.
"""

OPSET = 18
"""The ONNX operator set of every graph. Version 18 is from 2022, so most engines read it."""


class OnnxLayers(nn.Module):
    """RecurrentLayers in evaluation mode, as ONNX operators, which torch can export but not run.

    torch's exporter unrolls recurrent layers to the length of an example. The ONNX operators take
    the lengths of the sentences, and skip padding in both directions.
    """

    def __init__(self, layers: RecurrentLayers) -> None:
        super().__init__()
        self.operator, self.order = ONNX_CELLS[CELLS[layers.kind]]
        self.hidden, self.directions = layers.hidden_size, len(layers.suffixes)
        self.layers = nn.ParameterList()
        for i in range(layers.num_layers):
            w_ih, w_hh, b_ih, b_hh = map(self._stack, zip(*layers.weights(i), strict=True))
            self.layers.extend([w_ih, w_hh, torch.cat([b_ih, b_hh], dim=1)])

    def _stack(self, weights: tuple[Tensor, ...]) -> Float[Tensor, "directions G *I"]:
        """Return the weights of all directions, with the gates in the order of ONNX."""
        parts = (weight.detach().chunk(len(self.order)) for weight in weights)
        return torch.stack([torch.cat([gates[i] for i in self.order]) for gates in parts])

    def read(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncoderStates:
        """Return the same states as RecurrentLayers.read."""
        weights, finals = list(self.layers), []
        first, last = torch.zeros_like(lengths), lengths - 1
        for i in range(0, len(weights), 3):
            states = self._layer(x.transpose(0, 1), lengths, *weights[i : i + 3])
            ends = torch.stack([last, first][: self.directions], dim=1)[None, :, :, None]
            index = ends.transpose(1, 2).expand(-1, -1, -1, self.hidden)
            finals.append(states.gather(0, index)[0].transpose(0, 1).flatten(1))
            x = states.permute(2, 0, 1, 3).flatten(2)
        return EncoderStates(x, torch.stack(finals, dim=1), None)

    def _layer(
        self,
        x: Float[Tensor, "S B I"],
        lengths: Int[Tensor, " B"],
        w_ih: Float[Tensor, "directions G I"],
        w_hh: Float[Tensor, "directions G H"],
        bias: Float[Tensor, "directions two_G"],
    ) -> Float[Tensor, "S directions B H"]:
        return torch.onnx.ops.symbolic(
            self.operator,
            [x, w_ih, w_hh, bias, lengths.to(torch.int32)],
            {
                "hidden_size": self.hidden,
                "direction": "bidirectional" if self.directions == 2 else "forward",
                **({"linear_before_reset": 1} if self.operator == "GRU" else {}),
            },
            dtype=x.dtype,
            shape=[x.shape[0], self.directions, x.shape[1], self.hidden],
            version=OPSET,
        )
