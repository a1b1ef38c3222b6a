"""The floating-point operations that an update needs, counted by its matrix products.

A product of (m, k) with (k, n) takes 2 m k n operations. Its backward pass takes twice as many:
one such product for the gradient of each factor. Gates, tanh, softmax and the optimiser are left
out, as is usual. Padding and what an implementation repeats are not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.data.batching import Batch
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.vocabulary import padded_rows
from nmt.text.vocabulary import PAD_ID


@dataclass(frozen=True)
class Amount:
    """The sizes of batches: sentences, source and target pieces, and pairs of such pieces."""

    sentences: int
    src: int
    tgt: int
    pairs: int

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> "Amount":
        """The sizes of all batches together, padding not counted."""
        lengths = [
            pair
            for batch in batches
            for pair in zip(
                batch.src_lengths.tolist(),
                (batch.tgt_out != PAD_ID).sum(dim=1).tolist(),
                strict=True,
            )
        ]
        src, tgt = (sum(side) for side in zip(*lengths, strict=True))
        return cls(len(lengths), src, tgt, pairs=sum(s * t for s, t in lengths))

    @property
    def tokens(self) -> int:
        """Source and target pieces."""
        return self.src + self.tgt


def forward_flops(config: RNNConfig, amount: Amount, tgt_vocab: int) -> int:
    """The forward pass of the GRU with additive attention: one layer, plain readout."""
    assert isinstance(config.attention, AdditiveConfig)
    assert config.layers == 1
    assert config.encoder.cell == config.decoder.cell == "gru"
    assert config.decoder.readout.kind == "plain"
    assert config.decoder.kind == "bahdanau"
    assert config.decoder.initial_state == "tanh"
    embedding, hidden, memory = config.embedding, config.hidden, config.memory_size
    size = config.attention.size or hidden
    src, tgt = amount.src, amount.tgt
    products = [
        (src, embedding, 3 * memory),  # encoder: embedding to gates
        (src, config.encoder.hidden or hidden, 3 * memory),  # encoder: state to gates
        (src, memory, size),  # keys
        (amount.sentences, memory, hidden),  # first state of the decoder
        (tgt, embedding, 3 * hidden),  # decoder: embedding to gates
        (tgt, memory, 3 * hidden),  # decoder: context to gates
        (tgt, hidden, 3 * hidden),  # decoder: state to gates
        (tgt, hidden, size),  # queries
        (amount.pairs, size, 1),  # energies to scores
        (amount.pairs, 1, memory),  # contexts
        (tgt, hidden, padded_rows(tgt_vocab)),  # logits
    ]
    return sum(2 * m * k * n for m, k, n in products)


def training_flops(config: RNNConfig, amount: Amount, tgt_vocab: int) -> int:
    """Forward and backward pass; the unneeded gradient of the encoder's first states included."""
    return 3 * forward_flops(config, amount, tgt_vocab)
