"""The embedding and the output layer of a vocabulary, and the readouts of recurrent decoders.

Embeddings and output weights have padding rows, up to a multiple of 64; no result contains them.
"""

import abc
import sys
from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.device import CACHED_NUMBERS
from nmt.ops.backend import BackendName, operations
from nmt.settings.base import Config

_TABLE_MULTIPLE = 64  # rows; a matrix product over 8,003 columns is a third slower than over 8,064


def padded_rows(vocab_size: int) -> int:
    """Return the number of rows of a table: `vocab_size` rounded up to a multiple of 64."""
    return -(-vocab_size // _TABLE_MULTIPLE) * _TABLE_MULTIPLE


class PieceEmbedding(nn.Embedding):
    """An embedding of pieces, with `padded_rows` rows."""

    def __init__(self, vocab_size: int, size: int) -> None:
        super().__init__(padded_rows(vocab_size), size)


TiedEmbeddings = Annotated[
    Literal["none", "target", "all"],
    Field(
        description="embeddings that share the vocabulary layer's weight: none, the target's "
        "(arXiv 1608.05859), or all, which also includes the source's (requires a joint tokenizer)"
    ),
]


class VocabularyLayer(nn.Module, abc.ABC):
    """The last layer of a model: maps R features to the logits of the V pieces of a vocabulary.

    It also computes the loss and, for a search, the most probable pieces. For faster products its
    weight may have P >= V rows; the last P - V have probability 0 and appear in no result.
    """

    backend: BackendName = "auto"
    n_pieces: int  # V

    @abc.abstractmethod
    def table_logits(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L P"]:
        """Return the logits of all P rows of the weight."""

    @abc.abstractmethod
    def affine(self) -> tuple[Float[Tensor, "P R"], Float[Tensor, " P"]]:
        """Return the layer's weight and bias, for a loss that never stores all logits."""

    def logit_blocks(
        self, features: Float[Tensor, "B R"], n_numbers: int
    ) -> Iterator[Float[Tensor, "_ P"]]:
        """Yield the rows of `table_logits` in blocks of about `n_numbers` logits, in order.

        One matrix product computes all logits; only the operations after it are split.
        """
        logits = self.table_logits(features)
        yield from torch.split(logits, max(1, n_numbers // logits.shape[1]))

    def forward(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L V"]:
        return self.table_logits(features)[..., : self.n_pieces]

    def cross_entropy(
        self,
        features: Float[Tensor, "*L R"],
        targets: Int[Tensor, "*L"],
        keep: Bool[Tensor, "*L"],
        smoothing: float = 0.0,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "*L"]]:
        """Return the summed training loss and the detached -log p of each target, in nats.

        See Operations.linear_cross_entropy. Label smoothing leaves out the table's padding rows.
        """
        ops = operations(self.backend, features)
        inputs = features, *self.affine(), targets, keep
        return ops.linear_cross_entropy(*inputs, self.n_pieces, smoothing)

    def top_k_log_probs(
        self, features: Float[Tensor, "B R"], k: int, banned_ids: Int[Tensor, " N"]
    ) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"]]:
        """Return Operations.top_k_log_probs of the features' logits, with K = min(k, V).

        On a CPU the rows are ranked block by block, because caches are small.
        """
        # A CPU is fastest if the logits of a block are twice the size of the L2 cache.
        n_numbers = 2 * CACHED_NUMBERS if features.device.type == "cpu" else sys.maxsize
        ops, n = operations(self.backend, features), self.n_pieces
        parts = self.logit_blocks(features, n_numbers)
        top = [ops.top_k_log_probs(logits, min(k, n), banned_ids, n) for logits in parts]
        return torch.cat([log_probs for log_probs, _ in top]), torch.cat([ids for _, ids in top])


_IMPOSSIBLE_LOGIT = -1e4  # finite in every dtype; its exp() is exactly 0 in fp32


class VocabLinear(VocabularyLayer):
    """Computes the logits W x + b; padding rows of W have a constant logit with probability 0.

    `rms` is the approximate root mean square of the features in a trained model: 1 after a
    normalisation, less for recurrent states. It determines the variance of the initial weights.
    `tied` is an embedding that shares its weight with this layer (arXiv 1608.05859), or None.
    """

    def __init__(
        self,
        size: int,
        vocab_size: int,
        rms: float = 1.0,
        tied: nn.Embedding | None = None,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__()
        self.backend = backend
        self.n_pieces = vocab_size
        self.rms = rms
        self.is_tied = tied is not None
        rows = padded_rows(vocab_size)
        self.weight = tied.weight if tied else nn.Parameter(torch.empty(rows, size))
        self.bias = nn.Parameter(torch.empty(rows))
        self.reset_parameters()

    def table_logits(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L P"]:
        """Return W x + b in the dtype of x; padding rows have probability 0 and no gradient."""
        weight, bias = (x.to(features.dtype) for x in self.affine())
        return operations(self.backend, features).linear(features, weight, bias)

    def reset_parameters(self) -> None:
        """Draw W from N(0, 1 / (R rms^2)), so that logits have a variance of about 1; set b to 0.

        Rules that also depend on the number of outputs, such as Xavier's, draw smaller weights.
        Then the layers below learn very little in the first few hundred updates. A tied weight is
        initialised by its embedding instead.
        """
        nn.init.zeros_(self.bias)
        if not self.is_tied:
            nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5 / self.rms)

    def affine(self) -> tuple[Float[Tensor, "P R"], Float[Tensor, " P"]]:
        n_padding = len(self.bias) - self.n_pieces
        impossible = self.bias.new_full((n_padding,), _IMPOSSIBLE_LOGIT)
        return self.weight, torch.cat([self.bias[: self.n_pieces], impossible])


Hidden = Float[Tensor, "*L H"]
Embedded = Float[Tensor, "*L D"]
Context = Float[Tensor, "*L M"]
Features = Float[Tensor, "*L R"]


class Readout(nn.Module):
    """Maps a decoder step to the input of the vocabulary layer: here, the hidden state itself."""

    reads_context = False

    def forward(self, hidden: Hidden, embedded: Embedded, context: Context) -> Features:
        """Return R features per step; `embedded` is the embedding of the previous piece."""
        return hidden


class PlainReadoutConfig(Config):
    """The new hidden state alone (d2l.ai, section 11.4)."""

    kind: Literal["plain"] = "plain"

    def width(self, hidden: int) -> int:
        """Return the number of features that the vocabulary layer reads."""
        return hidden

    def build(self, hidden: int, embedding: int, context: int) -> Readout:
        return Readout()


class DeepReadoutConfig(Config):
    """A layer over hidden state, previous piece and context ("deep output", arXiv 1409.0473)."""

    kind: Literal["deep"] = "deep"
    size: int = Field(default=500, gt=0, description="number of features for the vocabulary layer")
    activation: Literal["maxout", "tanh"] = Field(
        default="maxout",
        description="maxout (as in the paper) takes the larger of two units; tanh costs half",
    )

    def width(self, hidden: int) -> int:
        return self.size

    def build(self, hidden: int, embedding: int, context: int) -> Readout:
        return DeepReadout(self, hidden, embedding, context)


class DeepReadout(Readout):
    """Computes f(U_o s + V_o e + C_o c) from hidden state s, embedding e and context c.

    f is maxout (arXiv 1409.0473, appendix A.2.2; arXiv 1302.4389) or tanh.
    """

    reads_context = True

    def __init__(self, config: DeepReadoutConfig, hidden: int, embedding: int, context: int):
        super().__init__()
        self.maxout = config.activation == "maxout"
        width = config.size * (2 if self.maxout else 1)
        self.U_o = nn.Linear(hidden, width)
        self.V_o = nn.Linear(embedding, width, bias=False)
        self.C_o = nn.Linear(context, width, bias=False)

    def forward(self, hidden: Hidden, embedded: Embedded, context: Context) -> Features:
        total: Tensor = self.U_o(hidden) + self.V_o(embedded) + self.C_o(context)
        if not self.maxout:
            return torch.tanh(total)
        return total.view(*total.shape[:-1], -1, 2).amax(dim=-1)


ReadoutConfig = Annotated[PlainReadoutConfig | DeepReadoutConfig, Field(discriminator="kind")]
