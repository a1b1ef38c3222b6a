"""The options that every kind of attention has, whatever its score."""

import abc
from collections.abc import Iterator

from pydantic import Field, model_validator
from torch import nn

from nmt.models.attention.base import Attention
from nmt.models.attention.coverage import CoverageConfig, NoCoverageConfig
from nmt.models.attention.span import GlobalConfig, SpanConfig
from nmt.models.attention.weighting import SoftConfig, WeightingConfig
from nmt.ops.backend import BackendName
from nmt.settings.base import Config, Conflict, conflict_error


class AttentionOptions(Config, abc.ABC):
    """Base of the configs of kinds: a kind adds its own settings and writes `build_core`."""

    kind: str  # each kind fixes its own; declared here so that it comes first
    weights: WeightingConfig = Field(default=SoftConfig(), description="how scores become weights")
    span: SpanConfig = Field(
        default=GlobalConfig(), description="which positions of the source a step attends to"
    )
    coverage: CoverageConfig = Field(
        default=NoCoverageConfig(), description="what earlier weights add to the scores"
    )
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="share of attention weights dropped in training"
    )
    gate: bool = Field(
        default=False,
        description="multiply the context by sigmoid(w . query + b), so that a step may look away "
        "from the source (arXiv 1502.03044, section 4.2.1)",
    )
    doubly_stochastic: float = Field(
        default=0.0,
        ge=0,
        description="weight of sum_i (1 - sum_t weights_ti)^2 of each sentence in the training "
        "loss, in nats (arXiv 1502.03044, equation 14)",
    )

    @model_validator(mode="after")
    def _penalty_has_a_gradient(self) -> "AttentionOptions":
        if self.doubly_stochastic and self.weights.kind == "hard":
            problem = "weights 'hard' pass no gradient: take soft, sparsemax or hard_gumbel"
            raise conflict_error([("doubly_stochastic", problem)])
        return self

    @abc.abstractmethod
    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        """The attention with none of the options above."""

    def build(self, query_size: int, memory_size: int, backend: BackendName = "auto") -> Attention:
        """The attention for queries and annotations of these sizes, with its options."""
        attention = self.build_core(query_size, memory_size, backend)
        attention.weighting = self.weights.build()
        attention.span = self.span.build(query_size)
        attention.coverage = self.coverage.build(attention.key_size)
        attention.dropout = nn.Dropout(self.dropout)
        attention.gate = nn.Linear(query_size, 1) if self.gate else None
        attention.doubly_stochastic = self.doubly_stochastic
        return attention

    def conflicts(self, query_size: int, memory_size: int) -> Iterator[Conflict]:
        """Why it cannot be built for these sizes; nothing where it can."""
        yield from ()
