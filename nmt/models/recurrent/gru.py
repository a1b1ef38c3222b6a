"""The GRU (Cho et al. 2014, arXiv 1406.1078): the decoder's cell and the encoder's layers."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.models.linear import Linear
from nmt.ops.backend import BackendName, operations
from nmt.ops.reference import gru_cell


class ContextGRUCell(nn.Module):
    """A GRU cell whose input is [embedding; context], the two halves of W_i held apart.

    The embedding half is known for all steps before the first, the context half only at its
    own: `project` does the former, `context_gates` the latter, `forward` one step.
    """

    def __init__(
        self,
        embedding_size: int,
        context_size: int,
        hidden_size: int,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__()
        self.embedding_gates = Linear(embedding_size, 3 * hidden_size, backend=backend)
        self.context_gates = Linear(context_size, 3 * hidden_size, bias=False, backend=backend)
        self.hidden_gates = Linear(hidden_size, 3 * hidden_size, backend=backend)

    def project(self, embedded: Float[Tensor, "*L D"]) -> Float[Tensor, "*L G"]:
        """The embeddings' share of the gates, G = 3 H."""
        gates: Tensor = self.embedding_gates(embedded)
        return gates

    def forward(
        self, x: Float[Tensor, "B G"], hidden: Float[Tensor, "B H"]
    ) -> Float[Tensor, "B H"]:
        """The next hidden state, from both halves' share of the gates together."""
        return gru_cell(x, self.hidden_gates(hidden), hidden)


_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class PaddedGRU(nn.GRU):
    """The layers of torch.nn.GRU over padded sentences; padding reaches no state.

    Where `backend` serves it, each direction of a layer is one operation (Operations.gru_layer),
    with the same numbers up to rounding; elsewhere torch's own layer runs, cuDNN's on a GPU.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int,
        dropout: float,
        bidirectional: bool,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers=layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
        )
        self.backend: BackendName = backend

    def read(
        self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S M"], Float[Tensor, "B L M"]]:
        """The states at every position, 0 at padding, and each layer's last ones.

        Those of both directions stand side by side, forward first; the backward direction's last
        word is the first of the sentence.
        """
        own = operations(self.backend, x)
        if not own.serves_gru_layer:
            return self._packed(x, lengths)
        finals = []
        for i in range(self.num_layers):
            if i > 0:
                x = nn.functional.dropout(x, self.dropout, self.training)
            x, final = own.gru_layer(x, lengths, self.directions(i))
            finals.append(final)
        return x, torch.stack(finals, dim=1)

    def directions(self, layer: int) -> list[tuple[Tensor, ...]]:
        """weight_ih, weight_hh, bias_ih and bias_hh of each direction of a layer."""
        suffixes = ["", "_reverse"] if self.bidirectional else [""]
        return [
            tuple(getattr(self, f"{name}_l{layer}{suffix}") for name in _PARAMETERS)
            for suffix in suffixes
        ]

    def _packed(
        self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S M"], Float[Tensor, "B L M"]]:
        """The same by torch's own layers."""
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, last = self(packed)
        values, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        directions = 2 if self.bidirectional else 1
        return values, last.unflatten(0, (-1, directions)).permute(2, 0, 1, 3).flatten(2)
