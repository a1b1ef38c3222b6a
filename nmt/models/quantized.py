"""Copies of models that compute matrix products in 8-bit integers, for decoding on a CPU.

No calibration and no second file are needed. Weights are quantized when the copy is made, and
inputs at each call. Embeddings, attention scores and weighted sums stay in fp32.
"""

import copy
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor, nn

from nmt.models.base import Seq2Seq
from nmt.models.recurrent.cells import CELLS, CellKind
from nmt.models.recurrent.encoder import (
    EncoderStates,
    GateProjections,
    RecurrentLayers,
    encoder_states,
    read_layer,
)
from nmt.models.vocabulary import VocabLinear, VocabularyLayer
from nmt.ops.backend import BackendName, operations
from nmt.ops.products import int8_product

_MIN_OUTPUTS = 64  # with fewer, quantizing the input costs more than the int8 product saves


class Int8Linear(nn.Module):
    """W x + b, with int8 products and exact integer sums.

    Each row of W and each vector x has its own scale, its largest magnitude / 127. Therefore the
    result for one x does not depend on the rest of its batch.
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
        """W after quantization."""
        return self.quantized * self.scales.unsqueeze(1)

    def forward(self, x: Float[Tensor, "*L I"]) -> Float[Tensor, "*L O"]:
        products, scales = self._products(x.flatten(0, -2))
        return self._dequantize(products, scales).view(*x.shape[:-1], -1)

    def blocks(self, x: Float[Tensor, "N I"], n_numbers: int) -> Iterator[Float[Tensor, "_ O"]]:
        """Yield the rows of `forward`, in order, in blocks of about `n_numbers` numbers.

        The integer product is computed once for all rows; only its dequantization is done by block.
        """
        n_rows = max(1, n_numbers // len(self.quantized))
        products, scales = self._products(x)
        yield from map(self._dequantize, torch.split(products, n_rows), torch.split(scales, n_rows))

    def _products(
        self, x: Float[Tensor, "N I"]
    ) -> tuple[Int32[Tensor, "N O"], Float[Tensor, "N 1"]]:
        quantized, scales = operations(self.backend, x).quantize_rows(x.detach())
        return int8_product(quantized, self.quantized.t()), scales

    def _dequantize(
        self, products: Int32[Tensor, "N O"], scales: Float[Tensor, "N 1"]
    ) -> Float[Tensor, "N O"]:
        return operations(self.backend, scales).dequantize(products, scales, self.scales, self.bias)


class Int8VocabLinear(VocabularyLayer):
    """VocabLinear in int8."""

    def __init__(self, exact: VocabularyLayer) -> None:
        super().__init__()
        self.backend, self.n_pieces = exact.backend, exact.n_pieces
        self.linear = Int8Linear(*exact.affine(), exact.backend)

    def table_logits(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L P"]:
        return self.linear(features)

    def logit_blocks(
        self, features: Float[Tensor, "B R"], n_numbers: int
    ) -> Iterator[Float[Tensor, "_ P"]]:
        return self.linear.blocks(features, n_numbers)

    def affine(self) -> tuple[Float[Tensor, "P R"], Float[Tensor, " P"]]:
        assert self.linear.bias is not None
        return self.linear.weight, self.linear.bias


class Int8RecurrentLayers(nn.Module):
    """RecurrentLayers in int8, run step by step."""

    def __init__(self, exact: RecurrentLayers) -> None:
        super().__init__()
        self.kind: CellKind = exact.kind
        self.layers = nn.ModuleList(
            nn.ModuleList(
                Int8Linear(weight, bias, exact.backend)
                for w_ih, w_hh, b_ih, b_hh in exact.weights(i)
                for weight, bias in ((w_ih, b_ih), (w_hh, b_hh))
            )
            for i in range(exact.num_layers)
        )

    def read(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncoderStates:
        finals: list[Sequence[Tensor]] = []
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleList)
            directions = list(map(GateProjections, layer[::2], layer[1::2]))
            x, *final = read_layer(CELLS[self.kind], directions, x, lengths)
            finals.append(final)
        return encoder_states(x, finals)


def quantize_model(model: Seq2Seq) -> Seq2Seq:
    """Return an int8 copy in eval mode; linear layers with few outputs keep their dtype."""
    clone = copy.deepcopy(model).eval()
    modules = list(clone.modules())
    backend = next(module.backend for module in modules if isinstance(module, VocabularyLayer))
    for module in modules:
        for name, layer in module.named_children():
            if isinstance(layer, VocabLinear):
                setattr(module, name, Int8VocabLinear(layer))
            elif isinstance(layer, RecurrentLayers):
                setattr(module, name, Int8RecurrentLayers(layer))
            elif isinstance(layer, nn.Linear) and layer.out_features >= _MIN_OUTPUTS:
                setattr(module, name, Int8Linear(layer.weight, layer.bias, backend))
    return clone
