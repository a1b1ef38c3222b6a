"""Sinusoidal positions: a counter whose digits are waves, and whose steps are rotations."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from pydantic import Field, field_validator

from nmt.lab.experiment import Experiment, Options, Result, some
from nmt.lab.figure import GREY, ORANGE, new_figure
from nmt.lab.numbers import columns
from nmt.models.transformer.positions import rotation, sinusoids

_COUNT = 16  # numbers that the binary counter counts
_BITS = 4
_FIRST_CURVE = 2  # the pair of columns drawn as curves first; the fastest ones only flicker


class PositionsOptions(Options):
    """The length and width of the encoding. Nothing in it is random."""

    length: int = Field(default=64, ge=_COUNT, le=4096, description="positions encoded")
    size: int = Field(
        default=32,
        ge=2 * _BITS,
        le=1024,
        multiple_of=2,
        description="numbers in an encoding: half as many waves, each as sine and cosine",
    )
    offsets: tuple[Annotated[int, Field(ge=0, le=10**6)], ...] = Field(
        default=(1, 2, 5, 10, 100, 1000), description="steps whose rotation is checked"
    )

    _none_missing = field_validator("offsets")(some)


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

    def numbers(self) -> dict[str, object]:
        """See Result.numbers."""
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
        }

    def summary(self) -> list[str]:
        """See Result.summary."""
        rows = [("steps d", "off with R(d)", "off with R(d+1)")]
        rows += [
            (str(d), f"{right:.0e}", f"{wrong:.2f}")
            for d, right, wrong in zip(
                self.offsets, self.residuals, self.wrong_residuals, strict=True
            )
        ]
        return [
            f"wavelengths from {self.wavelengths[0]:.1f} to {self.wavelengths[-1]:,.0f} positions, "
            f"each {self.wavelengths[1] / self.wavelengths[0]:.2f} times the one before it",
            "(the bits of a binary counter: from 2, each 2 times the one before it)",
            "",
            "PE(i + d) = PE(i) R(d): the greatest difference over all positions i",
            *columns(rows),
        ]


def run(options: PositionsOptions) -> PositionsResult:
    """Encode the positions and compare them with their rotations."""
    length, size = options.length, options.size
    encoding = sinusoids(length, size)
    products = encoding @ encoding.T / (size / 2)
    diagonals = [products.diagonal(d) for d in range(length)]
    return PositionsResult(
        encoding=encoding.numpy(),
        wavelengths=2 * np.pi * 10_000.0 ** (np.arange(0, size, 2) / size),
        offsets=options.offsets,
        residuals=np.array([_residual(encoding, d, d) for d in options.offsets]),
        wrong_residuals=np.array([_residual(encoding, d, d + 1) for d in options.offsets]),
        similarity=np.array([float(diagonal.mean()) for diagonal in diagonals]),
        similarity_spread=max(float(d.max() - d.min()) for d in diagonals),
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
    """The encoding, some columns, the counter beside its first waves, and the rotation."""
    figure = new_figure(10.5, 6.6)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[1.05, 1], hspace=0.04).flat
    heat, curves = above.subplots(1, 2, width_ratios=[1.1, 1])
    bits, waves, turn, same = below.subplots(1, 4, width_ratios=[1, 1, 2.2, 2.2])
    image = heat.imshow(
        result.encoding, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
    )
    above.colorbar(image, ax=heat, pad=0.01, ticks=[-1, 0, 1], label="value")
    heat.set(title="The encoding", xlabel="column", ylabel="position")
    _draw_curves(curves, result)
    _draw_counter(bits, waves, result)
    _draw_turn(turn, result)
    same.plot(result.similarity)
    same.axhline(0, color=GREY, linewidth=0.6)
    same.set(title="PE(i) · PE(i+d) / (D/2), for any i", xlabel="distance d", ylim=(None, 1.05))
    return figure


def _draw_curves(axes: Axes, result: PositionsResult) -> None:
    first = min(_FIRST_CURVE, len(result.wavelengths) - 2)
    for rank, wave in enumerate((first, first + 1)):
        for column, line in ((2 * wave, "-"), (2 * wave + 1, "--")):
            kind = "sine" if column % 2 == 0 else "cosine"
            label = f"{column}: {kind}, wavelength {result.wavelengths[wave]:.0f}"
            axes.plot(result.encoding[:, column], line, color=f"C{rank}", label=label)
    axes.set(title="Four of its columns", xlabel="position", ylim=(-1.1, 1.75), yticks=[-1, 0, 1])
    axes.legend(loc="upper right", ncols=2, fontsize=8)


def _draw_counter(bits: Axes, waves: Axes, result: PositionsResult) -> None:
    bits.imshow(_bits(), cmap="Greys", vmin=-0.2, vmax=1.6, aspect="auto")
    for (row, column), bit in np.ndenumerate(_bits()):
        bits.text(column, row, str(bit), ha="center", va="center", fontsize=7)
    bits.set(title="Binary counter", xlabel="period", ylabel="number")
    bits.set_xticks(range(_BITS), [str(2 ** (bit + 1)) for bit in range(_BITS)])
    waves.imshow(
        result.encoding[:_COUNT, : 2 * _BITS : 2], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto"
    )
    waves.set(title="Its first sines, as above", xlabel="wavelength")
    waves.set_xticks(range(_BITS), [f"{length:.0f}" for length in result.wavelengths[:_BITS]])
    for panel in (bits, waves):
        panel.set_yticks(range(0, _COUNT, 5))
        panel.xaxis.set_minor_locator(NullLocator())


def _draw_turn(axes: Axes, result: PositionsResult) -> None:
    places = range(len(result.offsets))
    floor = 1e-17  # a difference of exactly 0 has no logarithm
    axes.semilogy(places, np.maximum(result.residuals, floor), "o", label="turned by R(d)")
    axes.semilogy(places, result.wrong_residuals, "s", color=ORANGE, label="turned by R(d+1)")
    axes.set_xticks(places, [f"{d:,}" for d in result.offsets])
    axes.set(title="Greatest |PE(i+d) - PE(i) R|", xlabel="steps d", ylim=(floor / 3, 1e3))
    axes.legend(loc="center right")


EXPERIMENT = Experiment(PositionsOptions, run, draw)
