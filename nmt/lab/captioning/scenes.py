"""Pictures of coloured shapes: content, layout, drawing, and the split into training and test."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Relation = Literal["alone", "alike", "above", "below", "left", "right", "between"]
SINGLE_RELATIONS: tuple[Relation, ...] = ("alone", "alike")
PAIR_RELATIONS: tuple[Relation, ...] = ("above", "below", "left", "right", "between")

SIDE = 64
"""Pixels along each side of a picture. Distances are in pixels, and y points down."""

COLOURS = {
    "red": (0.85, 0.10, 0.12),
    "orange": (0.98, 0.55, 0.05),
    "yellow": (0.96, 0.86, 0.10),
    "green": (0.10, 0.60, 0.22),
    "blue": (0.12, 0.30, 0.85),
    "purple": (0.55, 0.15, 0.65),
}

_RADII = {True: (10.0, 13.0), False: (6.0, 7.5)}  # of a big and of a small thing
_GAP = 2.0  # smallest gap between two things; at least half of it is left for a random shift
_MAX_TILT = 0.4  # largest angle, in radians, between a direction and its axis; pi/4 is ambiguous
_MAX_ROTATION = 0.2  # of a thing, in radians
_COLOUR_DEVIATION = 0.05  # standard deviation of each channel of a thing's colour
_BACKGROUND = (0.8, 1.0)  # range of the background's grey
_HELD_OUT = 6  # one in six single things and pairs is held out from training
_NEW_KINDS = 4  # held-out combinations of shape and colour, of 42

_DIRECTIONS = {"above": math.pi / 2, "below": -math.pi / 2, "left": 0.0, "right": math.pi}
"""The direction from the first thing to the second, as an angle in radians."""


Plane = Float[Tensor, "R H W"]
Pictures = Float[Tensor, "B 3 H W"]
Point = tuple[float, float]


def _heart(x: Plane, y: Plane) -> Plane:
    """Two circular lobes above a square that stands on its corner and touches them."""
    x = x.abs()
    lobe = torch.hypot(x - 0.43, y + 0.3) - 0.47
    low = (x + y - 0.13) / math.sqrt(2) - 0.47
    return torch.minimum(lobe, torch.maximum(low, torch.maximum(x - y - 0.73, -y - 0.3)))


def _star(x: Plane, y: Plane) -> Plane:
    """A five-pointed star: by symmetry, each point maps to one half point with a straight edge."""
    sector = 2 * math.pi / 5
    angle = torch.remainder(torch.atan2(x, -y) + sector / 2, sector) - sector / 2
    radius = torch.hypot(x, y)
    along, across = radius * torch.cos(angle), radius * torch.sin(angle).abs()
    notch_along, notch_across = 0.42 * math.cos(sector / 2), 0.42 * math.sin(sector / 2)
    length = math.hypot(1 - notch_along, notch_across)
    return ((along - 1) * notch_across + across * (1 - notch_along)) / length


def _cross(x: Plane, y: Plane) -> Plane:
    longer, shorter = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    return torch.maximum(longer - 0.92, shorter - 0.3)


def _moon(x: Plane, y: Plane) -> Plane:
    """A disc minus a shifted disc."""
    return torch.maximum(torch.hypot(x, y) - 0.95, 0.75 - torch.hypot(x - 0.5, y + 0.1))


SHAPES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "circle": lambda x, y: torch.hypot(x, y) - 0.92,
    "square": lambda x, y: torch.maximum(x.abs(), y.abs()) - 0.7,
    "triangle": lambda x, y: torch.maximum(math.sqrt(0.75) * x.abs() - 0.5 * y, y) - 0.5,
    "heart": _heart,
    "star": _star,
    "cross": _cross,
    "moon": _moon,
}
"""Signed distance functions of the shapes, negative inside. Each shape fits into the unit circle.

The unit is the radius, and y points down. Distances need to be accurate near the edge only, where
they are used for anti-aliasing.
"""


@dataclass(frozen=True, order=True)
class Thing:
    """A coloured shape in one of two sizes."""

    shape: str
    colour: str
    is_big: bool


@dataclass(frozen=True, order=True)
class Arrangement:
    """The content of a picture, which its caption describes.

    With the relation `alone`, one thing is drawn once, and with `alike` twice. With every other
    relation, `things` are a big and a small one. The big thing is `above`, `below`, to the `left`
    or to the `right` of the small one, or `between` two copies of it.
    """

    relation: Relation
    things: tuple[Thing, ...]

    @property
    def thing_indices(self) -> tuple[int, ...]:
        """The index in `things` of each shape in the picture. Copies have the same index."""
        if self.relation == "alike":
            return (0, 0)
        return (0, 1, 1) if self.relation == "between" else tuple(range(len(self.things)))


@dataclass(frozen=True)
class Split:
    """Three disjoint sets of arrangements. `seen` is the training set.

    The things in `unseen` occur in training, but in other combinations. The two things of an unseen
    pair never occur there together in any relation. An unseen single thing never occurs there in
    the same relation (`alone` or `alike`). `new_kinds` has things whose combination of colour and
    shape does not occur in training.
    """

    seen: tuple[Arrangement, ...]
    unseen: tuple[Arrangement, ...]
    new_kinds: tuple[Arrangement, ...]


def all_arrangements() -> list[Arrangement]:
    """Return all 8,988 arrangements, single things first."""
    kinds = list(product(SHAPES, COLOURS))
    big, small = ([Thing(*kind, size) for kind in kinds] for size in (True, False))
    singles = [Arrangement(name, (thing,)) for name in SINGLE_RELATIONS for thing in big + small]
    return singles + [Arrangement(*parts) for parts in product(PAIR_RELATIONS, product(big, small))]


def split(rng: random.Random) -> Split:
    """Return a random split of all arrangements."""
    new_kinds = set(rng.sample(list(product(SHAPES, COLOURS)), _NEW_KINDS))

    def is_new(arrangement: Arrangement) -> bool:
        return any((thing.shape, thing.colour) in new_kinds for thing in arrangement.things)

    others = [arrangement for arrangement in all_arrangements() if not is_new(arrangement)]
    singles = [arrangement for arrangement in others if arrangement.relation in SINGLE_RELATIONS]
    pairs = [a.things for a in others if a.relation == PAIR_RELATIONS[0]]
    held_singles = set(rng.sample(singles, len(singles) // _HELD_OUT))
    held_pairs = set(rng.sample(pairs, len(pairs) // _HELD_OUT))
    unseen = {a for a in others if a in held_singles or a.things in held_pairs}
    return Split(
        seen=tuple(a for a in others if a not in unseen),
        unseen=tuple(a for a in others if a in unseen),
        new_kinds=tuple(filter(is_new, all_arrangements())),
    )


@dataclass(frozen=True)
class PlacedThing:
    """A thing in a picture: its centre, its radius, and its rotation in radians."""

    thing: Thing
    x: float
    y: float
    radius: float
    rotation: float


Scene = tuple[PlacedThing, ...]
"""The things of one picture, in the order of `Arrangement.thing_indices`."""


def draw_scene(arrangement: Arrangement, rng: random.Random) -> Scene:
    """Place the things at random so that the relation holds, with a gap between any two things."""
    sizes = [rng.uniform(*_RADII[thing.is_big]) for thing in arrangement.things]
    things = [arrangement.things[i] for i in arrangement.thing_indices]
    radii = [sizes[i] for i in arrangement.thing_indices]
    offsets = _offsets(arrangement.relation, radii, rng)
    x, y = (_shift([offset[axis] for offset in offsets], radii, rng) for axis in (0, 1))
    return tuple(
        PlacedThing(thing, x + dx, y + dy, radius, rng.uniform(-_MAX_ROTATION, _MAX_ROTATION))
        for thing, radius, (dx, dy) in zip(things, radii, offsets, strict=True)
    )


def _offsets(relation: Relation, radii: Sequence[float], rng: random.Random) -> list[Point]:
    """Return the centres, which lie on one line, relative to the first centre."""
    if relation in _DIRECTIONS:
        angle = _DIRECTIONS[relation] + rng.uniform(-_MAX_TILT, _MAX_TILT)
    else:
        angle = rng.uniform(0, 2 * math.pi)
    offsets = [(0.0, 0.0)]
    for i, radius in enumerate(radii[1:]):
        nearest = radii[0] + radius + _GAP
        farthest = SIDE / 2 - radius if relation == "between" else SIDE - radii[0] - radius
        distance = rng.uniform(nearest, farthest - _GAP / 2) * (-1) ** i
        offsets.append((distance * math.cos(angle), distance * math.sin(angle)))
    return offsets


def _shift(offsets: Sequence[float], radii: Sequence[float], rng: random.Random) -> float:
    """Return a random coordinate of the first thing for which all things are in the picture."""
    low = max(radius - offset for offset, radius in zip(offsets, radii, strict=True))
    high = min(SIDE - radius - offset for offset, radius in zip(offsets, radii, strict=True))
    return rng.uniform(low, high)


def coverage(things: Sequence[PlacedThing]) -> Float[Tensor, "R H W"]:
    """Return the share of each pixel's area that each of the R things covers.

    Edges are antialiased: across an edge, the share falls from 1 to 0 within one pixel.
    """
    numbers = torch.tensor([(thing.x, thing.y, thing.radius, thing.rotation) for thing in things])
    x, y, radius, rotation = (column.view(-1, 1, 1) for column in numbers.unbind(1))
    centres = torch.arange(SIDE) + 0.5
    right, down = (centres - x) / radius, (centres.unsqueeze(1) - y) / radius
    cos, sin = torch.cos(rotation), torch.sin(rotation)
    across, along = cos * right + sin * down, cos * down - sin * right
    shares = torch.empty(len(things), SIDE, SIDE)
    for shape, distance in SHAPES.items():
        rows = torch.tensor([placed.thing.shape == shape for placed in things])
        if rows.any():
            shares[rows] = (0.5 - distance(across[rows], along[rows]) * radius[rows]).clamp(0, 1)
    return shares


def paint(scenes: Sequence[Scene], rng: random.Random) -> Pictures:
    """Draw the scenes as RGB pictures from 0 to 1. Backgrounds and things have random shades."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    low, high = _BACKGROUND
    background = low + (high - low) * torch.rand(len(scenes), 1, 1, 1, generator=generator)
    things = [placed for scene in scenes for placed in scene]
    rows = torch.tensor([i for i, scene in enumerate(scenes) for _ in scene])
    colours = torch.tensor([COLOURS[placed.thing.colour] for placed in things])
    colours = colours + _COLOUR_DEVIATION * torch.randn(colours.shape, generator=generator)
    pictures = background.repeat(1, 3, SIDE, SIDE)
    # No two things cover the same pixel, so differences may be added.
    differences = colours[:, :, None, None] - background[rows]
    pictures.index_add_(0, rows, coverage(things).unsqueeze(1) * differences)
    return pictures.clamp(0, 1)


def with_noise(pictures: Pictures, deviation: float, rng: random.Random) -> Pictures:
    """Add Gaussian noise of standard deviation `deviation`, then clamp to [0, 1]."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    noise = deviation * torch.randn(pictures.shape, generator=generator)
    return (pictures + noise).clamp(0, 1)
