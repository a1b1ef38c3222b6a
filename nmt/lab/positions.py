"""Sinusoidal positions: a counter whose digits are waves, and whose steps are rotations.

Beside them: other counters, which are not unique or not bounded, and a table that is learned.
"""

from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import NullLocator
from pydantic import Field, field_validator, model_validator

from nmt.lab.experiment import Experiment, Result, some
from nmt.lab.figure import GREY, ORANGE, new_figure
from nmt.lab.first_mark import (
    SIGNED,
    FirstMarkOptions,
    Learning,
    draw_answers,
    draw_learned,
    learn,
)
from nmt.lab.place_codes import PlaceCode, place_codes
from nmt.models.transformer.positions import rotation, sinusoids
from nmt.settings.base import conflict_error

_COUNT = 16  # numbers that the binary counter counts
_BITS = 4


class PositionsOptions(FirstMarkOptions):
    """The length and width of the encoding, in which nothing is random, and a training."""

    length: int = Field(default=60, ge=_COUNT, le=4096, description="positions encoded")
    size: int = Field(
        default=32,
        ge=2 * _BITS,
        le=1024,
        multiple_of=2,
        description="numbers in an encoding: half as many waves, each as sine and cosine",
    )
    columns: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(6, 7, 8, 9), description="columns of the encoding drawn as curves, from 0"
    )
    positions: int = Field(
        default=1000, ge=2, le=4000, description="positions whose distances and norms are measured"
    )
    offsets: tuple[Annotated[int, Field(ge=0, le=10**6)], ...] = Field(
        default=(1, 2, 5, 10, 100, 1000), description="steps whose rotation is checked"
    )

    _none_missing = field_validator("offsets", "columns")(some)

    @model_validator(mode="after")
    def _columns_exist(self) -> "PositionsOptions":
        if max(self.columns) >= self.size:
            problem = f"got {max(self.columns)}, allowed: 0 to {self.size - 1} (size - 1)"
            raise conflict_error([("columns", problem)])
        return self


@dataclass(frozen=True)
class PositionsResult(Result):
    """The encoding (T, D), its wavelengths (D/2) in positions, and the error of the identity
    PE(i + d) = PE(i) R(d), with R(d) for each offset d and, for contrast, with R(d + 1).

    `similarity[d]` is PE(i) . PE(i + d) / (D/2), the mean over i; `similarity_spread` is how much
    it varies with i.
    """

    encoding: npt.NDArray[np.float64]
    wavelengths: npt.NDArray[np.float64]
    offsets: tuple[int, ...]
    residuals: npt.NDArray[np.float64]
    wrong_residuals: npt.NDArray[np.float64]
    similarity: npt.NDArray[np.float64]
    similarity_spread: float
    columns: tuple[int, ...]
    codes: dict[str, PlaceCode]
    learning: Learning

    def numbers(self) -> dict[str, object]:
        return {
            "wavelengths": self.wavelengths,
            "wavelength_ratio": self.wavelengths[1] / self.wavelengths[0],
            "bits_of_0_to_15": _bits(),
            "sines_of_0_to_15": self.encoding[:_COUNT, : 2 * _BITS : 2],
            "rotation_residual": {
                str(d): value for d, value in zip(self.offsets, self.residuals, strict=True)
            },
            "residual_of_one_step_too_far": {
                str(d): value for d, value in zip(self.offsets, self.wrong_residuals, strict=True)
            },
            "similarity_by_distance": self.similarity,
            "similarity_spread_over_positions": self.similarity_spread,
            "codes": {name: asdict(code) for name, code in self.codes.items()},
            "right": {kind: self.learning.shares(kind) for kind in self.learning.right},
        }


def run(options: PositionsOptions) -> PositionsResult:
    """Encode the positions and compare them with their rotations."""
    length, size = options.length, options.size
    encoding = sinusoids(length, size)
    products = encoding @ encoding.T / (size / 2)
    diagonals = [products.diagonal(d) for d in range(length)]
    learning = learn(options)
    learned = torch.from_numpy(learning.table[: learning.trained])
    return PositionsResult(
        encoding=encoding.numpy(),
        wavelengths=2 * np.pi * 10_000.0 ** (np.arange(0, size, 2) / size),
        offsets=options.offsets,
        residuals=np.array([_residual(encoding, d, d) for d in options.offsets]),
        wrong_residuals=np.array([_residual(encoding, d, d + 1) for d in options.offsets]),
        similarity=np.array([float(diagonal.mean()) for diagonal in diagonals]),
        similarity_spread=max(float(d.max() - d.min()) for d in diagonals),
        columns=options.columns,
        codes=place_codes(options.positions, size, learned),
        learning=learning,
    )


def _residual(encoding: torch.Tensor, offset: int, turned: int) -> float:
    """max over i of |PE(i + offset) - PE(i) R(turned)|."""
    length, size = encoding.shape
    moved = sinusoids(length, size, first=offset)
    return float((moved - encoding @ rotation(turned, size)).abs().max())


def _bits() -> npt.NDArray[np.int64]:
    """Row n: the bits of n, the fastest first as in the encoding."""
    return np.arange(_COUNT)[:, None] >> np.arange(_BITS) & 1


def draw(result: PositionsResult) -> Figure:
    """The encoding, some columns, the counter beside its first waves, and the rotation; then the
    learned table, similarities, and the answers of three models.
    """
    figure = new_figure(9.0, 10.0)
    rows = figure.subfigures(
        4, 1, squeeze=False, height_ratios=[1.05, 1, 1, 1.05], hspace=0.03
    ).flat
    table, curves = rows[0].subplots(1, 2, width_ratios=[1.1, 1])
    bits, waves, turn, same = rows[1].subplots(1, 4, width_ratios=[1, 1.3, 2.1, 2.1])
    image = table.imshow(result.encoding, **SIGNED)
    rows[0].colorbar(image, ax=table, pad=0.01, ticks=[-1, 0, 1], label="value")
    table.set(title="The encoding", xlabel="column", ylabel="position")
    _draw_curves(curves, result)
    image = _draw_counter(bits, waves, result)
    rows[1].colorbar(image, ax=waves, pad=0.03, ticks=[-1, 0, 1], label="value")
    _draw_turn(turn, result)
    same.plot(result.similarity)
    same.axhline(0, color=GREY, linewidth=0.6)
    same.set(title="PE(i) · PE(i+d) / (D/2)", xlabel="distance d", ylim=(None, 1.05))
    draw_learned(rows[2], result.learning)
    draw_answers(rows[3], result.learning)
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
    bits.imshow(_bits(), cmap="Greys", vmin=-0.2, vmax=1.6, aspect="auto")
    for (row, column), bit in np.ndenumerate(_bits()):
        bits.text(column, row, str(bit), ha="center", va="center", fontsize=7)
    bits.set(title="Binary counter", xlabel="period", ylabel="number")
    bits.set_xticks(range(_BITS), [str(2 ** (bit + 1)) for bit in range(_BITS)])
    image = waves.imshow(result.encoding[:_COUNT, : 2 * _BITS : 2], **SIGNED)
    waves.set(title="First sines above", xlabel="wavelength")
    waves.set_xticks(range(_BITS), [f"{length:.0f}" for length in result.wavelengths[:_BITS]])
    for panel in (bits, waves):
        panel.set_yticks(range(0, _COUNT, 5))
        panel.xaxis.set_minor_locator(NullLocator())
    return image


def _draw_turn(axes: Axes, result: PositionsResult) -> None:
    places = range(len(result.offsets))
    floor = 1e-17  # a difference of exactly 0 has no logarithm
    axes.semilogy(places, np.maximum(result.residuals, floor), "o", label="turned by R(d)")
    axes.semilogy(places, result.wrong_residuals, "s", color=ORANGE, label="turned by R(d+1)")
    axes.set_xticks(places, [f"{d:,}" for d in result.offsets])
    axes.set(title="Greatest |PE(i+d) - PE(i) R|", xlabel="steps d", ylim=(floor / 3, 1e3))
    axes.legend(loc="center right")


EXPERIMENT = Experiment(PositionsOptions, run, draw)
