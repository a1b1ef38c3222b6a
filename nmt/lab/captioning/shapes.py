"""The shapes, by signed distance: below 0 inside; each fits into the circle of radius 1.

Lengths are in radii and y points down. The distance need be right near the edge only, where it
makes the edge smooth.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

Plane = Float[Tensor, "R H W"]


def _circle(x: Plane, y: Plane) -> Plane:
    return torch.hypot(x, y) - 0.92


def _square(x: Plane, y: Plane) -> Plane:
    return torch.maximum(x.abs(), y.abs()) - 0.7


def _triangle(x: Plane, y: Plane) -> Plane:
    """Equilateral, on its base."""
    return torch.maximum(math.sqrt(0.75) * x.abs() - 0.5 * y, y) - 0.5


def _heart(x: Plane, y: Plane) -> Plane:
    """Two lobes, and below them the square that touches both from within."""
    x = x.abs()
    lobe = torch.hypot(x - 0.43, y + 0.3) - 0.47
    low = (x + y - 0.13) / math.sqrt(2) - 0.47
    return torch.minimum(lobe, torch.maximum(low, torch.maximum(x - y - 0.73, -y - 0.3)))


def _star(x: Plane, y: Plane) -> Plane:
    """Five points; folded upon one half of a point, whose edge is a straight line."""
    sector = 2 * math.pi / 5
    angle = torch.remainder(torch.atan2(x, -y) + sector / 2, sector) - sector / 2
    radius = torch.hypot(x, y)
    along, aside = radius * torch.cos(angle), radius * torch.sin(angle).abs()
    notch_along, notch_aside = 0.42 * math.cos(sector / 2), 0.42 * math.sin(sector / 2)
    length = math.hypot(1 - notch_along, notch_aside)
    return ((along - 1) * notch_aside + aside * (1 - notch_along)) / length


def _cross(x: Plane, y: Plane) -> Plane:
    longer, shorter = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    return torch.maximum(longer - 0.92, shorter - 0.3)


def _moon(x: Plane, y: Plane) -> Plane:
    """A disc less another."""
    return torch.maximum(torch.hypot(x, y) - 0.95, 0.75 - torch.hypot(x - 0.5, y + 0.1))


SHAPES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "heart": _heart,
    "star": _star,
    "cross": _cross,
    "moon": _moon,
}
