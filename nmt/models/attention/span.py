"""The positions that a query sees: all, or a window whose cost does not grow with the source."""

import abc
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.settings.base import Config


@dataclass(frozen=True)
class Window:
    """W positions for each query, of which those with `keep` False lie outside of the source.

    `bias`, if given, is added to the scores at these positions.
    """

    positions: Int[Tensor, "B Q W"]
    keep: Bool[Tensor, "B Q W"]
    bias: Float[Tensor, "B Q W"] | None


class Span(nn.Module, abc.ABC):
    """Chooses a window for each query."""

    @abc.abstractmethod
    def forward(
        self,
        query: Float[Tensor, "B Q H"],
        keep: Bool[Tensor, "B S"],
        queries: Int[Tensor, " B"],
    ) -> Window:
        """The windows of Q queries that follow on `queries` earlier ones; `keep`: the source's."""


class GlobalConfig(Config):
    """Every position of the source."""

    kind: Literal["global"] = "global"

    def build(self, query_size: int) -> Span | None:
        return None


class _LocalConfig(Config):
    """Base of the spans with a window."""

    kind: str
    window: int = Field(
        default=10, gt=0, description="D: positions seen on each side of the centre"
    )


class MonotonicConfig(_LocalConfig):
    """Query t sees the positions around source position t (local-m of arXiv 1508.04025, 3.2)."""

    kind: Literal["local_m"] = "local_m"

    def build(self, query_size: int) -> Span | None:
        return MonotonicSpan(self.window)


class MonotonicSpan(Span):
    """[p_t - D, p_t + D] with p_t = t, or the last position where t lies behind it."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(
        self,
        query: Float[Tensor, "B Q H"],
        keep: Bool[Tensor, "B S"],
        queries: Int[Tensor, " B"],
    ) -> Window:
        steps = torch.arange(query.shape[1], device=queries.device)
        centres = torch.minimum(queries.unsqueeze(1) + steps, _lengths(keep) - 1)
        return _window(centres, self.window, keep)


class PredictiveConfig(_LocalConfig):
    """The query predicts the centre, and nearer positions count more (local-p, same paper)."""

    kind: Literal["local_p"] = "local_p"

    def build(self, query_size: int) -> Span | None:
        return PredictiveSpan(self.window, query_size)


class PredictiveSpan(Span):
    """p_t = length * sigmoid(v_p^T tanh(W_p q)); the window is [p_t - D, p_t + D], rounded.

    Equation 9 of arXiv 1508.04025. A Gaussian of standard deviation D / 2 around p_t favours near
    positions. The paper multiplies the weights by it, so that they no longer sum to 1. Here its
    logarithm -(s - p_t)^2 / (2 (D/2)^2) is added to the scores: the weights sum to 1, and the
    gradient reaches p_t all the same.
    """

    def __init__(self, window: int, query_size: int) -> None:
        super().__init__()
        self.window = window
        self.W_p = nn.Linear(query_size, query_size, bias=False)
        self.v_p = nn.Linear(query_size, 1, bias=False)

    def forward(
        self,
        query: Float[Tensor, "B Q H"],
        keep: Bool[Tensor, "B S"],
        queries: Int[Tensor, " B"],
    ) -> Window:
        place = self.v_p(torch.tanh(self.W_p(query))).squeeze(-1)
        # 16 bits would round positions beyond 256.
        place = place.to(torch.promote_types(place.dtype, torch.float32))
        lengths = _lengths(keep)
        centres = lengths * torch.sigmoid(place)
        window = _window(torch.minimum(centres.long(), lengths - 1), self.window, keep)
        distances = (window.positions - centres.unsqueeze(-1)) / (self.window / 2)
        return Window(window.positions, window.keep, -distances.square() / 2)


def _lengths(keep: Bool[Tensor, "B S"]) -> Int[Tensor, "B 1"]:
    """The number of positions, counted up to the last kept one."""
    places = torch.arange(1, keep.shape[1] + 1, device=keep.device)
    return (keep * places).amax(dim=1, keepdim=True)


def _window(centres: Int[Tensor, "B Q"], reach: int, keep: Bool[Tensor, "B S"]) -> Window:
    """`reach` positions on each side; those beyond an end are moved to it and not kept."""
    offsets = torch.arange(-reach, reach + 1, device=centres.device)
    wanted = centres.unsqueeze(-1) + offsets
    positions = wanted.clamp(0, keep.shape[1] - 1)
    seen = keep.gather(1, positions.flatten(1)).view_as(positions)
    return Window(positions, seen & (positions == wanted), None)


SpanConfig = Annotated[
    GlobalConfig | MonotonicConfig | PredictiveConfig, Field(discriminator="kind")
]
