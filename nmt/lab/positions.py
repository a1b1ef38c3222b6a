"""Sinusoidal positions as a counter of waves and as rotations, compared with other encodings."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import NullLocator
from pydantic import Field
from torch import Tensor

from nmt.explain.colours import GREY, ORANGE
from nmt.lab.experiment import Experiment, NonEmptyTuple, Options, Result
from nmt.lab.figure import new_figure, signed_heat_map
from nmt.models.transformer.positions import rotation, sinusoids
from nmt.settings.base import Conflict

_COUNT = 16  # rows of the binary counter
_BITS = 4
_COUNTER = np.arange(_COUNT)[:, None] >> np.arange(_BITS) & 1
"""The bits of n in row n, least significant first, as PE has its fastest wave first."""
OFFSETS = (1, 2, 5, 10, 100, 1000)  # d at which R(d) is tested


class PositionsOptions(Options):
    """Options of the encoding. Nothing in the experiment is random."""

    length: int = Field(default=60, ge=_COUNT, le=4096, description="number of encoded positions")
    size: int = Field(
        default=32,
        ge=2 * _BITS,
        le=1024,
        multiple_of=2,
        description="size of an encoding: sine and cosine of size / 2 waves",
    )
    columns: NonEmptyTuple[Annotated[int, Field(ge=0)]] = Field(
        default=(6, 7, 8, 9), description="0-based columns of the encoding to draw as curves"
    )
    positions: int = Field(default=1000, ge=2, le=4000, description="positions in the statistics")

    def _conflicts(self) -> Iterator[Conflict]:
        if max(self.columns) >= self.size:
            allowed = f"0 to {self.size - 1} (size - 1)"
            yield "columns", f"got {max(self.columns)}, allowed: {allowed}"


@dataclass(frozen=True)
class EncodingStatistics:
    """Statistics of an encoding p of n positions. Distances and norms are Euclidean.

    `nearest` is the smallest distance between two positions, and `norm` the largest norm.
    `unevenness` is the largest value over d of (max - min) / max, where max and min are those of
    |p(i + d) - p(i)| over i. It is 0 if the distance depends on d only. `shift` is the largest
    change of any p(i) when the text becomes twice as long.
    """

    n: int
    nearest: float
    norm: float
    unevenness: float
    shift: float


@dataclass(frozen=True)
class PositionsResult(Result):
    """Measurements of the encoding PE (T, D). Its `wavelengths` (D/2) are in positions.

    `residuals` has the error of PE(i + d) = PE(i) R(d) for each d in OFFSETS. `wrong_residuals` has
    the error with R(d + 1) instead. `similarity[d]` is PE(i) . PE(i + d) / (D/2), averaged over i.
    `similarity_spread` is the largest difference of this product between two positions i with the
    same d. `codes` has the statistics of several encodings by name. The figure shows `columns`.
    """

    encoding: npt.NDArray[np.float64]
    wavelengths: npt.NDArray[np.float64]
    residuals: npt.NDArray[np.float64]
    wrong_residuals: npt.NDArray[np.float64]
    similarity: npt.NDArray[np.float64]
    similarity_spread: float
    columns: tuple[int, ...]
    codes: dict[str, EncodingStatistics]

    def content(self) -> dict[str, object]:
        offsets = [str(d) for d in OFFSETS]
        return {
            "wavelengths": self.wavelengths,
            "wavelength_ratio": self.wavelengths[1] / self.wavelengths[0],
            "bits_of_0_to_15": _COUNTER,
            "sines_of_0_to_15": self.encoding[:_COUNT, : 2 * _BITS : 2],
            "rotation_residual": dict(zip(offsets, self.residuals, strict=True)),
            "residual_of_one_step_too_far": dict(zip(offsets, self.wrong_residuals, strict=True)),
            "similarity_by_distance": self.similarity,
            "similarity_spread_over_positions": self.similarity_spread,
            "codes": {name: asdict(code) for name, code in self.codes.items()},
        }


def run(options: PositionsOptions) -> PositionsResult:
    """Measure rotations and similarities of the sinusoidal encoding, and compare it with others."""
    length, size = options.length, options.size
    encoding = sinusoids(length, size)
    products = encoding @ encoding.T / (size / 2)
    diagonals = [products.diagonal(d) for d in range(length)]
    return PositionsResult(
        encoding=encoding.numpy(),
        wavelengths=2 * np.pi * 10_000.0 ** (np.arange(0, size, 2) / size),
        residuals=np.array([_residual(encoding, d, d) for d in OFFSETS]),
        wrong_residuals=np.array([_residual(encoding, d, d + 1) for d in OFFSETS]),
        similarity=np.array([float(diagonal.mean()) for diagonal in diagonals]),
        similarity_spread=max(float(d.max() - d.min()) for d in diagonals),
        columns=options.columns,
        codes=compare_encodings(options.positions, size),
    )


def compare_encodings(n: int, size: int) -> dict[str, EncodingStatistics]:
    """Measure four encodings of n positions: i, i / n, the bits of i, and sinusoids."""
    i, bits = torch.arange(2 * n).double().unsqueeze(1), torch.arange((2 * n - 1).bit_length())
    binary, waves = (i.long() >> bits & 1).double(), sinusoids(2 * n, size)
    return {
        "i": _measure(i[:n], i),
        "i / n": _measure(i[:n] / n, i / (2 * n)),
        "bits of i": _measure(binary[:n], binary),
        "sinusoidal": _measure(sinusoids(n, size), waves),
    }


def _measure(code: Float64[Tensor, "n D"], longer: Float64[Tensor, "m D"]) -> EncodingStatistics:
    """Measure an encoding; `longer` is the encoding of a text that is twice as long."""
    n = len(code)
    distances = torch.cdist(code, code, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = (distances + torch.eye(n) * distances.max()).min()
    diagonals = [distances.diagonal(d) for d in range(1, n)]
    unevenness = max(float((d.max() - d.min()) / d.max()) for d in diagonals)
    shift = float((longer[:n] - code).norm(dim=1).max())
    return EncodingStatistics(n, float(nearest), float(code.norm(dim=1).max()), unevenness, shift)


def _residual(encoding: Tensor, offset: int, angle: int) -> float:
    """Return the maximum over i of |PE(i + offset) - PE(i) R(angle)|."""
    length, size = encoding.shape
    shifted = sinusoids(length, size, first=offset)
    return float((shifted - encoding @ rotation(angle, size)).abs().max())


def draw(result: PositionsResult) -> Figure:
    """Draw the encoding, some columns, a binary counter, the rotation and the similarity."""
    figure = new_figure(9.0, 5.0)
    rows = figure.subfigures(2, 1, squeeze=False, hspace=0.03).flat
    table, curves = rows[0].subplots(1, 2, width_ratios=[1.1, 1])
    bits, waves, residuals, similarity = rows[1].subplots(1, 4, width_ratios=[1, 1.3, 2.1, 2.1])
    image = signed_heat_map(table, result.encoding, 1.0)
    rows[0].colorbar(image, ax=table, pad=0.01, ticks=[-1, 0, 1], label="value")
    table.set(title="The encoding", xlabel="column", ylabel="position")
    _draw_curves(curves, result)
    image = _draw_counter(bits, waves, result)
    rows[1].colorbar(image, ax=waves, pad=0.03, ticks=[-1, 0, 1], label="value")
    ticks = range(len(OFFSETS))
    floor = 1e-17  # a difference of exactly 0 has no logarithm
    residuals.semilogy(ticks, np.maximum(result.residuals, floor), "o", label="R = R(d)")
    residuals.semilogy(ticks, result.wrong_residuals, "s", color=ORANGE, label="R = R(d+1)")
    residuals.set_xticks(ticks, [f"{d:,}" for d in OFFSETS])
    residuals.set(title="Largest |PE(i+d) - PE(i) R|", xlabel="offset d", ylim=(floor / 3, 1e3))
    residuals.legend(loc="center right")
    similarity.plot(result.similarity)
    similarity.axhline(0, color=GREY, linewidth=0.6)
    similarity.set(title="PE(i) · PE(i+d) / (D/2)", xlabel="distance d", ylim=(None, 1.05))
    return figure


def _draw_curves(axes: Axes, result: PositionsResult) -> None:
    for column in result.columns:
        wave, is_cosine = divmod(column, 2)
        kind = "cosine" if is_cosine else "sine"
        label = f"{column}: {kind}, period {result.wavelengths[wave]:.0f}"
        colour = f"C{(wave - min(result.columns) // 2) % 5}"
        axes.plot(result.encoding[:, column], "--" if is_cosine else "-", color=colour, label=label)
    axes.set(title="Some of its columns", xlabel="position", ylim=(-1.1, 1.75), yticks=[-1, 0, 1])
    axes.legend(loc="upper right", ncols=2, fontsize=8)


def _draw_counter(bits: Axes, waves: Axes, result: PositionsResult) -> AxesImage:
    bits.imshow(_COUNTER, cmap="Greys", vmin=-0.2, vmax=1.6, aspect="auto")
    for (row, column), bit in np.ndenumerate(_COUNTER):
        bits.text(column, row, str(bit), ha="center", va="center", fontsize=7)
    bits.set(title="Binary counter", xlabel="period", ylabel="number")
    bits.set_xticks(range(_BITS), [str(2 ** (bit + 1)) for bit in range(_BITS)])
    image = signed_heat_map(waves, result.encoding[:_COUNT, : 2 * _BITS : 2], 1.0)
    waves.set(title="First four sines", xlabel="wavelength")
    waves.set_xticks(range(_BITS), [f"{length:.0f}" for length in result.wavelengths[:_BITS]])
    for panel in (bits, waves):
        panel.set_yticks(range(0, _COUNT, 5))
        panel.xaxis.set_minor_locator(NullLocator())
    return image


EXPERIMENT = Experiment(PositionsOptions, run, draw)
