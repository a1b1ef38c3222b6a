"""The options that all attention types share."""

import abc
from collections.abc import Iterator

from pydantic import Field
from torch import nn

from nmt.models.attention.base import Attention
from nmt.models.attention.coverage import CoverageConfig, NoCoverageConfig
from nmt.models.attention.span import GlobalConfig, SpanConfig
from nmt.models.attention.weighting import SoftConfig, WeightingConfig
from nmt.ops.backend import BackendName
from nmt.ops.dropout import Dropout
from nmt.settings.base import Config, Conflict


class AttentionOptions(Config, abc.ABC):
    """Base class of attention configs; a subclass adds its settings and implements `build_core`."""

    kind: str  # fixed by each subclass; declared here to be the first key
    weights: WeightingConfig = Field(default=SoftConfig(), description="maps scores to weights")
    span: SpanConfig = Field(
        default=GlobalConfig(), description="which source positions a step can attend to"
    )
    coverage: CoverageConfig = Field(
        default=NoCoverageConfig(), description="how weights of earlier steps influence the scores"
    )
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="share of attention weights dropped in training"
    )
    gate: bool = Field(
        default=False,
        description="multiply the context by sigmoid(w . query + b), so that a step can ignore "
        "the source (arXiv 1502.03044, section 4.2.1)",
    )
    doubly_stochastic: float = Field(
        default=0.0,
        ge=0,
        description="factor of a penalty in the training loss, for each sentence and in nats: "
        "sum_i (1 - sum_t weights_ti)^2 (arXiv 1502.03044, equation 14)",
    )

    def _conflicts(self) -> Iterator[Conflict]:
        if self.doubly_stochastic and self.weights.kind == "hard":
            problem = "weights 'hard' have no gradient, allowed: soft, sparsemax or hard_gumbel"
            yield "doubly_stochastic", problem

    @abc.abstractmethod
    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        """Build the attention module; `build` then adds the options of this class."""

    def build(self, query_size: int, memory_size: int, backend: BackendName = "auto") -> Attention:
        """Build the attention, with its options, for queries and annotations of these sizes."""
        attention = self.build_core(query_size, memory_size, backend)
        attention.weighting = self.weights.build()
        attention.span = self.span.build(query_size)
        attention.coverage = self.coverage.build(attention.key_size)
        attention.dropout = Dropout(self.dropout)
        attention.gate = nn.Linear(query_size, 1) if self.gate else None
        attention.doubly_stochastic = self.doubly_stochastic
        return attention

    def conflicts(self, query_size: int, memory_size: int) -> Iterator[Conflict]:
        """Yield each setting that contradicts these sizes, with a description of the problem."""
        yield from ()
