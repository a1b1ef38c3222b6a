"""Pictures of coloured shapes: their content, layout and drawing."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from nmt.lab.captioning.shapes import SHAPES

Relation = Literal["alone", "alike", "above", "below", "left", "right", "between"]

SIDE = 64
"""Pixels along a picture's side; all distances here are in pixels, and y points down."""

COLOURS = {
    "red": (0.85, 0.10, 0.12),
    "orange": (0.98, 0.55, 0.05),
    "yellow": (0.96, 0.86, 0.10),
    "green": (0.10, 0.60, 0.22),
    "blue": (0.12, 0.30, 0.85),
    "purple": (0.55, 0.15, 0.65),
}

_RADII = {True: (10.0, 13.0), False: (6.0, 7.5)}  # of a big thing and of a small one
_GAP = 2.0  # least distance of two things; half of it to the edge
_LEAN = 0.4  # largest angle of `above` and the like to the axis; pi/4 would be ambiguous
_TURN = 0.2  # largest turn of a thing
_PAINT = 0.05  # standard deviation of a thing's colour, per channel
_PAPER = (0.8, 1.0)  # the background's grey

_DIRECTIONS = {"above": math.pi / 2, "below": -math.pi / 2, "left": 0.0, "right": math.pi}
"""The angle from the first thing to the second."""


@dataclass(frozen=True, order=True)
class Thing:
    """A coloured shape of one of two sizes."""

    shape: str
    colour: str
    big: bool


@dataclass(frozen=True, order=True)
class Arrangement:
    """The content of a picture, as its caption states it.

    `alone` and `alike` have one thing, drawn once and twice. The others have a big one and a
    small one, and the caption names the big one first: it is above the small one, ..., or `between`
    two of the small one.
    """

    relation: Relation
    things: tuple[Thing, ...]

    @property
    def drawn(self) -> tuple[int, ...]:
        """For each shape in the picture, its index in `things`."""
        if self.relation == "alike":
            return (0, 0)
        return (0, 1, 1) if self.relation == "between" else tuple(range(len(self.things)))


@dataclass(frozen=True)
class Placed:
    """A thing in a picture: its centre, its radius, and its turn in radians."""

    thing: Thing
    x: float
    y: float
    radius: float
    turn: float


Scene = tuple[Placed, ...]
"""The things of one picture, in the order of `Arrangement.drawn`."""


def place(arrangement: Arrangement, rng: random.Random) -> Scene:
    """Random places for all things, as the relation requires, with a gap between any two."""
    sizes = [rng.uniform(*_RADII[thing.big]) for thing in arrangement.things]
    things = [arrangement.things[i] for i in arrangement.drawn]
    radii = [sizes[i] for i in arrangement.drawn]
    offsets = _offsets(arrangement.relation, radii, rng)
    x, y = (_shift([offset[axis] for offset in offsets], radii, rng) for axis in (0, 1))
    return tuple(
        Placed(thing, x + dx, y + dy, radius, rng.uniform(-_TURN, _TURN))
        for thing, radius, (dx, dy) in zip(things, radii, offsets, strict=True)
    )


def _offsets(
    relation: Relation, radii: Sequence[float], rng: random.Random
) -> list[tuple[float, float]]:
    """The centres relative to that of the first thing; the others lie on a line through it."""
    if relation in _DIRECTIONS:
        angle = _DIRECTIONS[relation] + rng.uniform(-_LEAN, _LEAN)
    else:
        angle = rng.uniform(0, 2 * math.pi)
    offsets = [(0.0, 0.0)]
    for i, radius in enumerate(radii[1:]):
        least = radii[0] + radius + _GAP
        room = SIDE / 2 - radius if relation == "between" else SIDE - radii[0] - radius
        distance = rng.uniform(least, room - _GAP / 2) * (-1) ** i
        offsets.append((distance * math.cos(angle), distance * math.sin(angle)))
    return offsets


def _shift(offsets: Sequence[float], radii: Sequence[float], rng: random.Random) -> float:
    """A random coordinate of the first thing such that everything is inside the picture."""
    low = max(radius - offset for offset, radius in zip(offsets, radii, strict=True))
    high = min(SIDE - radius - offset for offset, radius in zip(offsets, radii, strict=True))
    return rng.uniform(low, high)


def masks(scene: Sequence[Placed]) -> Float[Tensor, "R H W"]:
    """The coverage of every pixel by each thing, 0 to 1. Edges are a pixel wide."""
    numbers = torch.tensor([(placed.x, placed.y, placed.radius, placed.turn) for placed in scene])
    x, y, radius, turn = (column.view(-1, 1, 1) for column in numbers.unbind(1))
    centres = torch.arange(SIDE) + 0.5
    right, down = (centres - x) / radius, (centres.unsqueeze(1) - y) / radius
    cos, sin = torch.cos(turn), torch.sin(turn)
    across, along = cos * right + sin * down, cos * down - sin * right
    inside = torch.empty(len(scene), SIDE, SIDE)
    for shape, distance in SHAPES.items():
        of_shape = [i for i, placed in enumerate(scene) if placed.thing.shape == shape]
        if of_shape:
            rows = torch.tensor(of_shape)
            inside[rows] = (0.5 - distance(across[rows], along[rows]) * radius[rows]).clamp(0, 1)
    return inside


def paint(scenes: Sequence[Scene], rng: random.Random) -> Float[Tensor, "B 3 H W"]:
    """The pictures, RGB from 0 to 1: every background and every thing in a shade of its own."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    low, high = _PAPER
    paper = low + (high - low) * torch.rand(len(scenes), 1, 1, 1, generator=generator)
    everything = [placed for scene in scenes for placed in scene]
    rows = torch.tensor([i for i, scene in enumerate(scenes) for _ in scene])
    shades = torch.tensor([COLOURS[placed.thing.colour] for placed in everything])
    shades = shades + _PAINT * torch.randn(shades.shape, generator=generator)
    cover = masks(everything).unsqueeze(1)
    pictures = paper.repeat(1, 3, SIDE, SIDE)
    # No two things cover the same pixel, so differences may be added.
    pictures.index_add_(0, rows, cover * (shades[:, :, None, None] - paper[rows]))
    return pictures.clamp(0, 1)


def with_noise(
    pictures: Float[Tensor, "B 3 H W"], deviation: float, rng: random.Random
) -> Float[Tensor, "B 3 H W"]:
    """Add normal noise of this standard deviation, clipped to 0 to 1."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    noise = deviation * torch.randn(pictures.shape, generator=generator)
    return (pictures + noise).clamp(0, 1)
