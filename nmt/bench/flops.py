"""How many floating-point operations a model of these sizes needs, by counting its products.

A product of (m, k) with (k, n) takes 2 m k n. Backward makes two of that size of each: one for
the gradient of either factor. Everything that is no product (gates, tanh, softmax, optimiser)
is left out, as is usual: it is small in operations, if not in time. Padding is not counted, nor
is what an implementation does more than once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.data.batching import Batch
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.vocabulary import padded_rows
from nmt.text.vocabulary import PAD_ID

BACKWARD = 2
"""Backward's products by forward's."""


@dataclass(frozen=True)
class Amount:
    """What a batch holds: sentences, source and target pieces, and pairs of the two."""

    sentences: int
    src: int
    tgt: int
    pairs: int

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> "Amount":
        """Of all the batches together, padding not counted."""
        lengths = [
            (batch.src_lengths.tolist(), (batch.tgt_out != PAD_ID).sum(dim=1).tolist())
            for batch in batches
        ]
        return cls(
            sentences=sum(len(src) for src, _ in lengths),
            src=sum(sum(src) for src, _ in lengths),
            tgt=sum(sum(tgt) for _, tgt in lengths),
            pairs=sum(s * t for src, tgt in lengths for s, t in zip(src, tgt, strict=True)),
        )

    @property
    def tokens(self) -> int:
        """Source and target pieces."""
        return self.src + self.tgt


@dataclass(frozen=True)
class Product:
    """m rows of k numbers times a (k, n) matrix; `name` says which."""

    name: str
    m: int
    k: int
    n: int

    @property
    def flops(self) -> int:
        """One multiplication and one addition for each of m k n."""
        return 2 * self.m * self.k * self.n


def products(config: RNNConfig, amount: Amount, tgt_vocab: int) -> list[Product]:
    """The forward products of the GRU with additive attention, one layer each, plain readout."""
    assert isinstance(config.attention, AdditiveConfig)
    assert config.layers == 1
    assert config.encoder.cell == config.decoder.cell == "gru"
    assert config.decoder.readout.kind == "plain"
    assert config.decoder.kind == "bahdanau"
    assert config.decoder.initial_state == "tanh"
    embedding, hidden, memory = config.embedding, config.hidden, config.memory_size
    reader = config.encoder.hidden or hidden
    size = config.attention.size or hidden
    src, tgt = amount.src, amount.tgt
    return [
        Product("encoder: embedding to gates", src, embedding, 3 * memory),
        Product("encoder: state to gates", src, reader, 3 * memory),
        Product("keys", src, memory, size),
        Product("first state", amount.sentences, memory, hidden),
        Product("decoder: embedding to gates", tgt, embedding, 3 * hidden),
        Product("decoder: context to gates", tgt, memory, 3 * hidden),
        Product("decoder: state to gates", tgt, hidden, 3 * hidden),
        Product("queries", tgt, hidden, size),
        Product("energies to scores", amount.pairs, size, 1),
        Product("contexts", amount.pairs, 1, memory),
        Product("vocabulary", tgt, hidden, padded_rows(tgt_vocab)),
    ]


def training_flops(config: RNNConfig, amount: Amount, tgt_vocab: int) -> int:
    """Forward and backward of a batch.

    Too many by one product: nobody asks for the gradient of the encoder's first states, zeros.
    """
    forward = sum(product.flops for product in products(config, amount, tgt_vocab))
    return (1 + BACKWARD) * forward
