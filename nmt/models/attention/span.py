"""The source positions that a query sees: all, or a window of constant size."""

import abc
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.models.shapes import Mask, Queries
from nmt.settings.base import Config


@dataclass(frozen=True)
class Window:
    """W source positions for each query; `keep` is False at padding and outside the source.

    `bias` is added to the scores at these positions, unless it is None.
    """

    positions: Int[Tensor, "B Q W"]
    keep: Bool[Tensor, "B Q W"]
    bias: Float[Tensor, "B Q W"] | None


class Span(nn.Module, abc.ABC):
    """Selects a window of source positions for each query."""

    @abc.abstractmethod
    def forward(self, query: Queries, keep: Mask, queries: Int[Tensor, " B"]) -> Window:
        """Return the windows; `queries` is the number of earlier queries of each row."""


class GlobalConfig(Config):
    """Every query sees every position of the source."""

    kind: Literal["global"] = "global"

    def build(self, query_size: int) -> Span | None:
        return None


class _LocalConfig(Config):
    kind: str
    window: int = Field(
        default=10, gt=0, description="D: number of positions on each side of the centre"
    )


class MonotonicConfig(_LocalConfig):
    """Query t sees the positions around source position t (local-m, arXiv 1508.04025)."""

    kind: Literal["local_m"] = "local_m"

    def build(self, query_size: int) -> Span | None:
        return MonotonicSpan(self.window)


class MonotonicSpan(Span):
    """The window [p_t - D, p_t + D], where p_t is the smaller of t and the last position."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, query: Queries, keep: Mask, queries: Int[Tensor, " B"]) -> Window:
        steps = torch.arange(query.shape[1], device=queries.device)
        centres = torch.minimum(queries.unsqueeze(1) + steps, _lengths(keep) - 1)
        return _window(centres, self.window, keep)


class PredictiveConfig(_LocalConfig):
    """Query t predicts the centre of its window, which it favours (local-p, arXiv 1508.04025)."""

    kind: Literal["local_p"] = "local_p"

    def build(self, query_size: int) -> Span | None:
        return PredictiveSpan(self.window, query_size)


class PredictiveSpan(Span):
    """The window [c - D, c + D], c = floor(p_t), p_t = length * sigmoid(v_p^T tanh(W_p q)).

    Equation 9 of arXiv 1508.04025 defines p_t. A Gaussian of standard deviation D / 2 around p_t
    favours near positions. The paper multiplies the attention weights by the Gaussian, so that they
    no longer sum to 1. Here its logarithm, -(s - p_t)^2 / (2 (D/2)^2), is added to the scores.
    Therefore the weights sum to 1, and the gradient still reaches p_t.
    """

    def __init__(self, window: int, query_size: int) -> None:
        super().__init__()
        self.window = window
        self.W_p = nn.Linear(query_size, query_size, bias=False)
        self.v_p = nn.Linear(query_size, 1, bias=False)

    def forward(self, query: Queries, keep: Mask, queries: Int[Tensor, " B"]) -> Window:
        logits = self.v_p(torch.tanh(self.W_p(query))).squeeze(-1)
        # 16 bits would round positions beyond 256.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        lengths = _lengths(keep)
        centres = lengths * torch.sigmoid(logits)
        window = _window(torch.minimum(centres.long(), lengths - 1), self.window, keep)
        distances = (window.positions - centres.unsqueeze(-1)) / (self.window / 2)
        return Window(window.positions, window.keep, -distances.square() / 2)


def _lengths(keep: Mask) -> Int[Tensor, "B 1"]:
    """Return the number of positions up to and including the last kept one."""
    lengths = torch.arange(1, keep.shape[1] + 1, device=keep.device)
    return (keep * lengths).amax(dim=1, keepdim=True)


def _window(centres: Int[Tensor, "B Q"], reach: int, keep: Mask) -> Window:
    """Return the positions up to `reach` from each centre; `keep` is False outside the source."""
    offsets = torch.arange(-reach, reach + 1, device=centres.device)
    raw_positions = centres.unsqueeze(-1) + offsets
    positions = raw_positions.clamp(0, keep.shape[1] - 1)
    window_keep = keep.gather(1, positions.flatten(1)).view_as(positions)
    return Window(positions, window_keep & (positions == raw_positions), None)


SpanConfig = Annotated[
    GlobalConfig | MonotonicConfig | PredictiveConfig, Field(discriminator="kind")
]
