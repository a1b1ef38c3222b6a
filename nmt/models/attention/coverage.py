"""Coverage: features of past attention weights, added to the keys."""

import abc
from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from nmt.models.shapes import Keys
from nmt.settings.base import Config

Past = Float[Tensor, "B S"]  # the summary of past attention weights; zeros before the first step


class Coverage(nn.Module, abc.ABC):
    """A feature of each position, computed from past attention weights and added to its key.

    It works with any score. The additive score, for example, becomes v . tanh(W_q q + key + f),
    where f is the feature of the key's position.
    """

    @abc.abstractmethod
    def forward(self, past: Past) -> Keys:
        """Return the feature of each position."""

    @abc.abstractmethod
    def update(self, past: Past, weights: Float[Tensor, "B 1 S"]) -> Past:
        """Return the summary after one more step with these attention weights."""


class NoCoverageConfig(Config):
    """No coverage: scores do not depend on earlier steps."""

    kind: Literal["none"] = "none"

    def build(self, key_size: int) -> Coverage | None:
        return None


class SumConfig(Config):
    """The sum of a position's past attention weights (arXiv 1601.04811 and 1704.04368)."""

    kind: Literal["sum"] = "sum"

    def build(self, key_size: int) -> Coverage | None:
        return SumCoverage(key_size)


class SumCoverage(Coverage):
    """f = W_f c_t, where c_t sums the weights of the steps before t (arXiv 1704.04368, eq. 11)."""

    def __init__(self, key_size: int) -> None:
        super().__init__()
        self.W_f = nn.Linear(1, key_size, bias=False)

    def forward(self, past: Past) -> Keys:
        return self.W_f(past.unsqueeze(-1))

    def update(self, past: Past, weights: Float[Tensor, "B 1 S"]) -> Past:
        return past + weights.squeeze(1)


class LocationSensitiveConfig(Config):
    """A convolution over the previous step's attention weights (arXiv 1506.07503, section 2.2)."""

    kind: Literal["location_sensitive"] = "location_sensitive"

    def build(self, key_size: int) -> Coverage | None:
        return LocationSensitiveCoverage(key_size)


class LocationSensitiveCoverage(Coverage):
    """f = W_f conv(F, previous step's attention weights), where F has 10 filters of width 7."""

    def __init__(self, key_size: int) -> None:
        super().__init__()
        self.F = nn.Conv1d(1, 10, 7, padding=3, bias=False)
        self.W_f = nn.Linear(10, key_size, bias=False)

    def forward(self, past: Past) -> Keys:
        return self.W_f(self.F(past.unsqueeze(1)).transpose(1, 2))

    def update(self, past: Past, weights: Float[Tensor, "B 1 S"]) -> Past:
        return weights.squeeze(1)


CoverageConfig = Annotated[
    NoCoverageConfig | SumConfig | LocationSensitiveConfig, Field(discriminator="kind")
]
