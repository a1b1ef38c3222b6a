"""Curves of pieces that rise, fall, stay level or oscillate, and what is said of them."""

import random
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nmt.models.transformer.positions import sinusoids
from nmt.text.vocabulary import Vocab

WINDOW, STRIDE = 8, 4  # samples of a place, and between the starts of two places
POSITION = 16  # numbers that say where the window is
_SAMPLES = (16, 32)  # of a piece, at least and at most
PIECES = 4  # of a curve, at most
_HELD_OUT = 6  # every sixth sequence of kinds
_SLOPES = {"slowly": (0.02, 0.035), "steeply": (0.07, 0.11)}  # a sample, in units of the curve
_SWING = (0.25, 0.45)  # amplitude of an oscillation
_PERIOD = (6.0, 9.0)  # of an oscillation, in samples

KINDS = {
    "rises slowly": ("rises", "slowly"),
    "rises steeply": ("rises", "steeply"),
    "falls slowly": ("falls", "slowly"),
    "falls steeply": ("falls", "steeply"),
    "stays level": ("stays", "level"),
    "oscillates": ("oscillates",),
}
_JOINT = "then"
VOCAB = Vocab.of([_JOINT, *sorted({word for words in KINDS.values() for word in words})])

Story = tuple[str, ...]
"""The kinds of a curve's pieces, in order; neighbours differ."""


@dataclass(frozen=True)
class Curve:
    """A curve: its samples, with noise, and the number of the piece that each belongs to."""

    story: Story
    samples: npt.NDArray[np.float32]
    pieces: npt.NDArray[np.int64]

    @property
    def words(self) -> list[str]:
        """The one right sentence."""
        joined: list[str] = []
        for kind in self.story:
            joined += [*([_JOINT] if joined else []), *KINDS[kind]]
        return joined

    @property
    def meant(self) -> list[int | None]:
        """The piece that each word describes; None for the word between two pieces."""
        pieces: list[int | None] = []
        for number, kind in enumerate(self.story):
            pieces += [*([None] if pieces else []), *[number] * len(KINDS[kind])]
        return pieces


def draw_curve(story: Story, noise: float, chance: np.random.Generator) -> Curve:
    """A curve of these pieces, each of a random length, slope and phase; it has no jumps."""
    height, parts, pieces = 0.0, [], []
    for number, kind in enumerate(story):
        n = int(chance.integers(_SAMPLES[0], _SAMPLES[1] + 1))
        steps = np.arange(1, n + 1)
        verb, *manner = KINDS[kind]
        if verb == "oscillates":
            period = chance.uniform(*_PERIOD)
            part = height + chance.uniform(*_SWING) * np.sin(2 * np.pi * steps / period)
        else:
            sign = {"rises": 1.0, "falls": -1.0, "stays": 0.0}[verb]
            part = height + sign * chance.uniform(*_SLOPES.get(manner[0], (0.0, 0.0))) * steps
        height = float(part[-1])
        parts.append(part)
        pieces += [number] * n
    samples = np.concatenate(parts)
    samples = samples - samples.mean() + chance.normal(0, noise, len(samples))
    return Curve(story, samples.astype(np.float32), np.array(pieces))


def features_of(curve: Curve) -> Float[Tensor, "S D"]:
    """A row for each window: its samples less their mean, and its position in sinusoids."""
    windows = torch.from_numpy(curve.samples).unfold(0, WINDOW, STRIDE)
    centred = windows - windows.mean(dim=1, keepdim=True)
    return torch.cat([centred, sinusoids(len(windows), POSITION).float()], dim=1)


def places_of(curve: Curve) -> Bool[np.ndarray, "N S"]:
    """For each piece, the windows whose middle lies in it."""
    n_places = (len(curve.samples) - WINDOW) // STRIDE + 1
    middles = curve.pieces[np.arange(n_places) * STRIDE + WINDOW // 2]
    at: npt.NDArray[np.bool_] = middles == np.arange(len(curve.story))[:, None]
    return at


def split(chance: random.Random) -> tuple[list[Story], list[Story]]:
    """All stories of one to four pieces: those of training, and every sixth, kept for the test.

    A story of one piece is never kept for the test.
    """
    stories = [
        story
        for n in range(1, PIECES + 1)
        for story in product(KINDS, repeat=n)
        if all(one != other for one, other in pairwise(story))
    ]
    longer = [story for story in stories if len(story) > 1]
    held_out = set(chance.sample(longer, len(longer) // _HELD_OUT))
    return [story for story in stories if story not in held_out], sorted(held_out)
