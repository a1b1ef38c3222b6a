"""Coverage: the weights so far change the scores, since they tell what has been translated."""

import abc
from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from nmt.settings.base import Config


class Coverage(nn.Module, abc.ABC):
    """A feature of every position, computed from the weights of earlier steps, added to its key.

    With any score this is possible; additive attention becomes tanh(W_q q + W_k k + W_f f).
    """

    @abc.abstractmethod
    def forward(self, past: Float[Tensor, "B S"]) -> Float[Tensor, "B S K"]:
        """The feature of each position."""

    @abc.abstractmethod
    def after(
        self, past: Float[Tensor, "B S"], weights: Float[Tensor, "B 1 S"]
    ) -> Float[Tensor, "B S"]:
        """The memory after a step with these weights; it is zero before the first step."""


class NoCoverageConfig(Config):
    """Scores do not depend on earlier steps."""

    kind: Literal["none"] = "none"

    def build(self, key_size: int) -> Coverage | None:
        return None


class SumConfig(Config):
    """The sum of all weights a position has had (arXiv 1601.04811 and 1704.04368)."""

    kind: Literal["sum"] = "sum"

    def build(self, key_size: int) -> Coverage | None:
        return SumCoverage(key_size)


class SumCoverage(Coverage):
    """f = W_f c_t, c_t the sum of the weights of the steps before t (arXiv 1704.04368, eq. 11)."""

    def __init__(self, key_size: int) -> None:
        super().__init__()
        self.W_f = nn.Linear(1, key_size, bias=False)

    def forward(self, past: Float[Tensor, "B S"]) -> Float[Tensor, "B S K"]:
        return self.W_f(past.unsqueeze(-1))

    def after(
        self, past: Float[Tensor, "B S"], weights: Float[Tensor, "B 1 S"]
    ) -> Float[Tensor, "B S"]:
        return past + weights.squeeze(1)


class LocationSensitiveConfig(Config):
    """A convolution over the weights of the step before (arXiv 1506.07503, section 2.2)."""

    kind: Literal["location_sensitive"] = "location_sensitive"

    def build(self, key_size: int) -> Coverage | None:
        return LocationSensitiveCoverage(key_size)


class LocationSensitiveCoverage(Coverage):
    """f = W_f (F * weights of the step before), F a convolution of 10 filters over 7 positions."""

    def __init__(self, key_size: int) -> None:
        super().__init__()
        self.F = nn.Conv1d(1, 10, 7, padding=3, bias=False)
        self.W_f = nn.Linear(10, key_size, bias=False)

    def forward(self, past: Float[Tensor, "B S"]) -> Float[Tensor, "B S K"]:
        return self.W_f(self.F(past.unsqueeze(1)).transpose(1, 2))

    def after(
        self, past: Float[Tensor, "B S"], weights: Float[Tensor, "B 1 S"]
    ) -> Float[Tensor, "B S"]:
        """The weights of this step alone."""
        return weights.squeeze(1)


CoverageConfig = Annotated[
    NoCoverageConfig | SumConfig | LocationSensitiveConfig, Field(discriminator="kind")
]
