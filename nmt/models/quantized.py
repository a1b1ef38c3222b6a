"""A copy of a model whose matrix products are of 8-bit integers, for decoding on a CPU.

It needs no calibration and no second file: weights are quantized when the copy is made, their
inputs at each call. Embeddings and the arithmetic of attention stay in fp32.
"""

import copy
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor, nn

from nmt.models.base import Seq2Seq, Vocabulary
from nmt.models.recurrent.gru import PaddedGRU
from nmt.models.vocabulary import VocabLinear
from nmt.ops.backend import BackendName, operations
from nmt.ops.directions import in_directions
from nmt.ops.reference import gru_cell, unroll_gru

_MIN_OUTPUTS = 64
"""With fewer outputs, quantizing a layer's input costs more than the product saves."""


class Int8Linear(nn.Module):
    """W x + b, the products in int8 and their sums exact.

    Each row of W and each x has a scale of its own, its greatest magnitude over 127. The result
    of one x therefore does not depend on the others in its batch.
    """

    quantized: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(
        self,
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__()
        self.backend: BackendName = backend
        quantized, scales = operations(backend, weight).quantize_rows(weight.detach())
        self.register_buffer("quantized", quantized)
        self.register_buffer("scales", scales.squeeze(1))
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    @property
    def weight(self) -> Float[Tensor, "O I"]:
        """W after rounding."""
        return self.quantized * self.scales.unsqueeze(1)

    def forward(self, x: Float[Tensor, "*L I"]) -> Float[Tensor, "*L O"]:
        """See the class."""
        products, scales = self._products(x.flatten(0, -2))
        return self._dequantize(products, scales).view(*x.shape[:-1], -1)

    def in_parts(self, x: Float[Tensor, "N I"], n_numbers: int) -> Iterator[Float[Tensor, "_ O"]]:
        """`forward`, some rows at a time; see Vocabulary.in_parts."""
        n_rows = max(1, n_numbers // len(self.quantized))
        products, scales = self._products(x)
        yield from map(self._dequantize, torch.split(products, n_rows), torch.split(scales, n_rows))

    def _products(
        self, x: Float[Tensor, "N I"]
    ) -> tuple[Int32[Tensor, "N O"], Float[Tensor, "N 1"]]:
        """The integer products, and each row's scale."""
        own = operations(self.backend, x)
        quantized, scales = own.quantize_rows(x)
        return own.int8_matmul(quantized, self.quantized.t()), scales

    def _dequantize(
        self, products: Int32[Tensor, "N O"], scales: Float[Tensor, "N 1"]
    ) -> Float[Tensor, "N O"]:
        return operations(self.backend, scales).dequantize(products, scales, self.scales, self.bias)


class Int8Vocabulary(Vocabulary):
    """VocabLinear in int8."""

    def __init__(self, exact: Vocabulary) -> None:
        super().__init__()
        self.backend = exact.backend
        self.linear = Int8Linear(*exact.affine(), exact.backend)

    def forward(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L V"]:
        """See Vocabulary."""
        logits: Tensor = self.linear(features)
        return logits

    def in_parts(
        self, features: Float[Tensor, "B R"], n_numbers: int
    ) -> Iterator[Float[Tensor, "_ V"]]:
        """See Vocabulary."""
        return self.linear.in_parts(features, n_numbers)

    def affine(self) -> tuple[Float[Tensor, "V R"], Float[Tensor, " V"]]:
        """See Vocabulary; the weight after rounding."""
        assert self.linear.bias is not None
        return self.linear.weight, self.linear.bias


class Int8GRUCell(nn.Module):
    """torch.nn.GRUCell in int8."""

    def __init__(
        self,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor,
        b_hh: Tensor,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__()
        self.input_gates = Int8Linear(w_ih, b_ih, backend)
        self.hidden_gates = Int8Linear(w_hh, b_hh, backend)

    def forward(
        self, x: Float[Tensor, "B I"], hidden: Float[Tensor, "B H"]
    ) -> Float[Tensor, "B H"]:
        """The next hidden state."""
        return gru_cell(self.input_gates(x), self.hidden_gates(hidden), hidden)

    def unroll(self, n_steps: int, x: Float[Tensor, "N I"]) -> Float[Tensor, "N H"]:
        """Every state; see nmt.ops.directions.Reader."""
        return unroll_gru(self.input_gates(x).unflatten(0, (n_steps, -1)), self.hidden_gates)


class Int8GRU(nn.Module):
    """PaddedGRU in int8."""

    def __init__(self, exact: PaddedGRU) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList(Int8GRUCell(*weights, exact.backend) for weights in exact.directions(i))
            for i in range(exact.num_layers)
        )

    def read(
        self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S M"], Float[Tensor, "B L M"]]:
        """See PaddedGRU.read."""
        finals = []
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleList)
            cells = [cell for cell in layer if isinstance(cell, Int8GRUCell)]
            x, final = in_directions(x, lengths, [cell.unroll for cell in cells])
            finals.append(final)
        return x, torch.stack(finals, dim=1)


def in_int8(model: Seq2Seq) -> Seq2Seq:
    """A copy of the model in eval mode, with linear layers, GRUs and vocabulary in int8."""
    copied = copy.deepcopy(model).eval()
    modules = list(copied.modules())
    backend = next(module.backend for module in modules if isinstance(module, Vocabulary))
    for module in modules:
        for name, layer in module.named_children():
            if isinstance(layer, VocabLinear):
                setattr(module, name, Int8Vocabulary(layer))
            elif isinstance(layer, PaddedGRU):
                setattr(module, name, Int8GRU(layer))
            elif isinstance(layer, nn.GRUCell):
                weights = (layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh)
                setattr(module, name, Int8GRUCell(*weights, backend))
            elif isinstance(layer, nn.Linear) and layer.out_features >= _MIN_OUTPUTS:
                setattr(module, name, Int8Linear(layer.weight, layer.bias, backend))
    return copied
