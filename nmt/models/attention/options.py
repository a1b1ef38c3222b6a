"""The options that every kind of attention has, whatever its score."""

import abc
from collections.abc import Iterator

from pydantic import Field

from nmt.models.attention.base import Attention
from nmt.models.attention.coverage import CoverageConfig, NoCoverageConfig
from nmt.models.attention.span import GlobalConfig, SpanConfig
from nmt.models.attention.weighting import SoftConfig, WeightingConfig
from nmt.ops.backend import BackendName
from nmt.settings.base import Config, Conflict


class AttentionOptions(Config, abc.ABC):
    """Base of the configs of kinds: a kind adds its own settings and writes `module`."""

    kind: str  # each kind fixes its own; declared here so that it comes first
    weights: WeightingConfig = Field(default=SoftConfig(), description="how scores become weights")
    span: SpanConfig = Field(
        default=GlobalConfig(), description="which positions of the source a step attends to"
    )
    coverage: CoverageConfig = Field(
        default=NoCoverageConfig(), description="what earlier weights add to the scores"
    )

    @abc.abstractmethod
    def module(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        """The attention without its options: soft, over all positions, without coverage."""

    def build(self, query_size: int, memory_size: int, backend: BackendName = "auto") -> Attention:
        """The attention for queries and annotations of these sizes, with its options."""
        attention = self.module(query_size, memory_size, backend)
        attention.weighting = self.weights.build()
        attention.span = self.span.build(query_size)
        attention.coverage = self.coverage.build(attention.key_size)
        return attention

    def conflicts(self, query_size: int, memory_size: int) -> Iterator[Conflict]:
        """Why it cannot be built for these sizes; nothing where it can."""
        yield from ()
