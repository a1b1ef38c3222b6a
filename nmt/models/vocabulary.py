"""The tables of a vocabulary, whose padding is known to this file alone, and readouts."""

import abc
import sys
from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.device import CACHED_NUMBERS
from nmt.errors import ConfigError
from nmt.ops.backend import BackendName, operations
from nmt.settings.base import Config

_TABLE_MULTIPLE = 64  # rows; a matrix product over 8,003 columns is a third slower than over 8,064


def padded_rows(vocab_size: int) -> int:
    """Rows of an embedding or output table: `vocab_size` rounded up to a multiple of 64."""
    return -(-vocab_size // _TABLE_MULTIPLE) * _TABLE_MULTIPLE


class PieceEmbedding(nn.Embedding):
    """A vector for each piece of a vocabulary, and rows that pad the table."""

    def __init__(self, vocab_size: int, size: int) -> None:
        super().__init__(padded_rows(vocab_size), size)


class Vocabulary(nn.Module, abc.ABC):
    """The last layer of a model: from R features to the logits of the V pieces of a vocabulary.

    It also computes the loss and the best pieces of a search, by its own backend. Its table may
    have P >= V rows, for faster products; the logits of the others have probability 0, and no
    result has them.
    """

    backend: BackendName = "auto"
    n_pieces: int
    """V."""

    @abc.abstractmethod
    def table_logits(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L P"]:
        """The logits of all rows of the table."""

    @abc.abstractmethod
    def affine(self) -> tuple[Float[Tensor, "P R"], Float[Tensor, " P"]]:
        """Weight and bias of the layer, for a loss that never holds all logits."""

    def of_pieces(self, ids: Int[Tensor, " U"]) -> "Vocabulary":
        """Return the layer of these pieces alone, in this order. Raises ConfigError for ensembles.

        Changes of this layer do not reach it.
        """
        raise ConfigError("shortlist: got an ensemble, allowed: one run")

    def in_parts(
        self, features: Float[Tensor, "B R"], n_numbers: int
    ) -> Iterator[Float[Tensor, "_ P"]]:
        """`table_logits`, some sentences at a time, in order; about `n_numbers` logits each time.

        One product of all sentences is faster than several. The operations after it are faster on
        as many logits as fit a cache.
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
        """See Operations.linear_cross_entropy; the smoothing is uniform over the V pieces."""
        ops = operations(self.backend, features)
        inputs = features, *self.affine(), targets, keep
        return ops.linear_cross_entropy(*inputs, self.n_pieces, smoothing)

    def top_k_log_probs(
        self, features: Float[Tensor, "B R"], k: int, banned_ids: Int[Tensor, " N"]
    ) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"]]:
        """See Operations.top_k_log_probs; K is the smaller of `k` and V.

        A CPU takes a few sentences at a time, so that their logits stay in its cache.
        """
        # Twice the cache's size was faster than once: it halves the number of small operations.
        n_numbers = 2 * CACHED_NUMBERS if features.device.type == "cpu" else sys.maxsize
        ops, n = operations(self.backend, features), self.n_pieces
        parts = self.in_parts(features, n_numbers)
        top = [ops.top_k_log_probs(logits, min(k, n), banned_ids, n) for logits in parts]
        return torch.cat([log_probs for log_probs, _ in top]), torch.cat([ids for _, ids in top])


class AffineVocabulary(Vocabulary):
    """Logits W x + b, in the dtype of x."""

    def table_logits(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L P"]:
        weight, bias = self.affine()
        ops = operations(self.backend, features)
        return ops.linear(features, weight.to(features.dtype), bias.to(features.dtype))

    def of_pieces(self, ids: Int[Tensor, " U"]) -> Vocabulary:
        weight, bias = self.affine()
        return _SomePieces(weight[ids], bias[ids], self.backend)


class _SomePieces(AffineVocabulary):
    """Rows of an AffineVocabulary."""

    def __init__(
        self, weight: Float[Tensor, "U R"], bias: Float[Tensor, " U"], backend: BackendName
    ) -> None:
        super().__init__()
        self.backend, self.n_pieces = backend, len(bias)
        self._weight_and_bias = weight, bias

    def affine(self) -> tuple[Float[Tensor, "U R"], Float[Tensor, " U"]]:
        return self._weight_and_bias


_IMPOSSIBLE_LOGIT = -1e4
"""exp() of it is exactly 0 in fp32, and it is finite in every dtype and under weight decay."""


class VocabLinear(AffineVocabulary):
    """Logits W x + b; a row that pads the table has a constant logit of probability 0.

    `rms` is about the root mean square of the features in a trained model: 1 after a
    normalisation, less for the states of a recurrent network. The variance of the first weights
    depends on it. `tied` shares its weight with this layer (arXiv 1608.05859).
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

    def reset_parameters(self) -> None:
        """First weights N(0, 1 / (R rms^2)), for logits with a variance of about 1; biases 0.

        A rule that counts the V outputs as well, as Xavier's does, makes them so small that what
        lies below learns next to nothing in the first hundreds of updates. A tied weight is the
        embedding's to initialise.
        """
        nn.init.zeros_(self.bias)
        if not self.is_tied:
            nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5 / self.rms)

    def affine(self) -> tuple[Float[Tensor, "P R"], Float[Tensor, " P"]]:
        """See Vocabulary. A padding row has probability 0, hence no gradient either."""
        n_padding = len(self.bias) - self.n_pieces
        impossible = self.bias.new_full((n_padding,), _IMPOSSIBLE_LOGIT)
        return self.weight, torch.cat([self.bias[: self.n_pieces], impossible])


class Readout(nn.Module):
    """From a decoder step to what the vocabulary layer reads: here the hidden state itself."""

    reads_context = False

    def forward(
        self,
        hidden: Float[Tensor, "*L H"],
        embedded: Float[Tensor, "*L D"],
        context: Float[Tensor, "*L M"],
    ) -> Float[Tensor, "*L R"]:
        """R numbers per step, from the new state, the last piece and the context."""
        return hidden


class PlainReadoutConfig(Config):
    """The new hidden state alone, as in the textbook (d2l.ai, section 11.4)."""

    kind: Literal["plain"] = "plain"

    def width(self, hidden: int) -> int:
        """How many numbers the vocabulary layer reads."""
        return hidden

    def build(self, hidden: int, embedding: int, context: int) -> Readout:
        return Readout()


class DeepReadoutConfig(Config):
    """The paper's deep output: a layer over state, last piece and context."""

    kind: Literal["deep"] = "deep"
    size: int = Field(default=500, gt=0, description="units that the vocabulary layer reads")
    activation: Literal["maxout", "tanh"] = Field(
        default="maxout",
        description="maxout: the larger of each two units, as in the paper; tanh: half the cost",
    )

    def width(self, hidden: int) -> int:
        return self.size

    def build(self, hidden: int, embedding: int, context: int) -> Readout:
        return DeepReadout(self, hidden, embedding, context)


class DeepReadout(Readout):
    """t = maxout(U_o s + V_o e + C_o c) (arXiv 1409.0473, appendix A.2.2; arXiv 1302.4389)."""

    reads_context = True

    def __init__(self, config: DeepReadoutConfig, hidden: int, embedding: int, context: int):
        super().__init__()
        self.maxout = config.activation == "maxout"
        width = config.size * (2 if self.maxout else 1)
        self.U_o = nn.Linear(hidden, width)
        self.V_o = nn.Linear(embedding, width, bias=False)
        self.C_o = nn.Linear(context, width, bias=False)

    def forward(
        self,
        hidden: Float[Tensor, "*L H"],
        embedded: Float[Tensor, "*L D"],
        context: Float[Tensor, "*L M"],
    ) -> Float[Tensor, "*L R"]:
        total: Tensor = self.U_o(hidden) + self.V_o(embedded) + self.C_o(context)
        if not self.maxout:
            return torch.tanh(total)
        return total.view(*total.shape[:-1], -1, 2).amax(dim=-1)


ReadoutConfig = Annotated[PlainReadoutConfig | DeepReadoutConfig, Field(discriminator="kind")]
