"""Positional encodings, which tell self-attention the order of pieces.

Sinusoids and learned tables are added to embeddings. Relative and rotary encodings are part of each
layer's attention (self_attention.py).
"""

import abc
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Float64
from pydantic import Field
from torch import Tensor, nn

from nmt.errors import ConfigError, DataError
from nmt.settings.base import Config

_LONGEST_WAVE = 10_000.0  # wavelengths grow from 2 pi to 2 pi times this number of positions


def sinusoids(
    length: int, size: int, first: int = 0, device: torch.device | None = None
) -> Float64[Tensor, "T D"]:
    """Return the encodings of positions `first` to `first + length - 1`.

    PE(i, 2j) = sin(i / 10000^(2j/D)), PE(i, 2j+1) = cos(i / 10000^(2j/D)) (arXiv 1706.03762,
    section 3.5). There is no largest position. The result is on `device` if that is a CUDA device,
    otherwise on the CPU. Raises ConfigError unless `size` is positive and even.
    """
    if device is not None and device.type != "cuda":
        device = None  # mps has no fp64
    positions = torch.arange(first, first + length, dtype=torch.float64, device=device)
    angles = torch.outer(positions, _frequencies(size, device))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def rotation(offset: int, size: int) -> Float64[Tensor, "D D"]:
    """Return the rotation R(d), d = `offset`, with PE(i + d) = PE(i) R(d) for every position i.

    Encodings are row vectors. Each pair (sin, cos) of frequency w turns by the angle d w, so R(d)
    has the blocks [[cos(d w), -sin(d w)], [sin(d w), cos(d w)]]. Raises ConfigError unless `size`
    is positive and even.
    """
    angles = offset * _frequencies(size)
    turn = torch.diag(angles.cos().repeat_interleave(2))
    even = torch.arange(0, size, 2)
    turn[even, even + 1] = -angles.sin()
    turn[even + 1, even] = angles.sin()
    return turn


def rotate(x: Float[Tensor, "B N T P"], waves: Float[Tensor, "T P"]) -> Float[Tensor, "B N T P"]:
    """Return R_i x_i for each position i: R_i rotates pair j of x_i by i / 10000^(2j/P) radians.

    See arXiv 2104.09864, eq. 34. A dot product of rotated vectors depends only on the distance of
    their positions: (R_m q)^T R_n k = q^T R_(n-m) k (eq. 16). `waves` are the `sinusoids` of the T
    positions.
    """
    sin, cos, even, odd = waves[..., 0::2], waves[..., 1::2], x[..., 0::2], x[..., 1::2]
    pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return pairs.flatten(-2).to(x.dtype)


def _frequencies(size: int, device: torch.device | None = None) -> Float64[Tensor, " half"]:
    """Return 1 / 10000^(2j/D) for j = 0 .. D/2 - 1, in radians per position."""
    if size <= 0 or size % 2:
        raise ConfigError(f"sinusoidal positions: got size {size}, allowed: a positive even number")
    exponents = torch.arange(0, size, 2, dtype=torch.float64, device=device) / size
    return _LONGEST_WAVE**-exponents


class Positions(nn.Module, abc.ABC):
    """Adds a positional encoding to each vector of a sequence."""

    @abc.abstractmethod
    def forward(self, x: Float[Tensor, "B T D"], first: int = 0) -> Float[Tensor, "B T D"]:
        """Return `x` plus the encodings; its first vector has position `first`."""


class SinusoidalConfig(Config):
    """Waves of geometrically growing length, for texts of any length (arXiv 1706.03762, 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"

    def build(self, size: int) -> Positions | None:
        """Build the module for vectors of this size, which must be even."""
        return SinusoidalPositions()


class SinusoidalPositions(Positions):
    """x + PE from position `first` on, computed in double precision, without a table."""

    def forward(self, x: Float[Tensor, "B T D"], first: int = 0) -> Float[Tensor, "B T D"]:
        return x + sinusoids(x.shape[1], x.shape[2], first, x.device).to(x)


class LearnedConfig(Config):
    """A learned vector for each position (arXiv 1705.03122), up to a maximum length."""

    kind: Literal["learned"] = "learned"
    max_length: int = Field(
        default=1024,
        gt=0,
        description="number of positions in the table; a longer sequence is an error (bos and eos "
        "count)",
    )

    def build(self, size: int) -> Positions | None:
        return LearnedPositions(self.max_length, size)


class LearnedPositions(Positions):
    """x + the rows of a table from `first` on; raises DataError for positions beyond the table."""

    def __init__(self, max_length: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max_length, size)

    def forward(self, x: Float[Tensor, "B T D"], first: int = 0) -> Float[Tensor, "B T D"]:
        end = first + x.shape[1]
        if end > self.embedding.num_embeddings:
            raise DataError(
                f"got a sequence of {end} pieces, allowed: at most "
                f"{self.embedding.num_embeddings}, the model's model.positions.max_length"
            )
        return x + self.embedding.weight[first:end]


class _NothingAdded(Config):
    def build(self, size: int) -> Positions | None:
        return None


class NoPositionsConfig(_NothingAdded):
    """No positional encoding: the encoder then reads a bag of pieces."""

    kind: Literal["none"] = "none"


class RelativeConfig(_NothingAdded):
    """Learned vectors for the distance between two pieces, in self-attention (arXiv 1803.02155)."""

    kind: Literal["relative"] = "relative"
    max_distance: int = Field(
        default=16, gt=0, description="largest distance; all larger distances share its vector"
    )


class RotaryConfig(_NothingAdded):
    """Queries and keys are rotated by angles proportional to their positions (arXiv 2104.09864)."""

    kind: Literal["rotary"] = "rotary"


PositionsConfig = Annotated[
    SinusoidalConfig | LearnedConfig | RelativeConfig | RotaryConfig | NoPositionsConfig,
    Field(discriminator="kind"),
]
