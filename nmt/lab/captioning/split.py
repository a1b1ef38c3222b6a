"""The split of arrangements into training and two kinds of test."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from nmt.lab.captioning.scenes import COLOURS, Arrangement, Relation, Thing
from nmt.lab.captioning.shapes import SHAPES

SINGLE: tuple[Relation, ...] = ("alone", "alike")
PAIR: tuple[Relation, ...] = ("above", "below", "left", "right", "between")

_HELD_OUT = 6  # every sixth
_NEW_KINDS = 4  # of 42 combinations of shape and colour


@dataclass(frozen=True)
class Split:
    """Arrangements without a caption in common.

    `unseen`: new combinations of things. A big and a small thing that no training picture has
    together, in any relation; and things that training never has alone, or never twice. Each thing
    itself occurs in training, with others.

    `new_kinds`: with a combination of colour and shape that training never has, in either size;
    each colour and each shape occurs in training.
    """

    seen: tuple[Arrangement, ...]
    unseen: tuple[Arrangement, ...]
    new_kinds: tuple[Arrangement, ...]


def split(rng: random.Random) -> Split:
    """Split all 8,988 arrangements at random."""
    kinds = list(product(SHAPES, COLOURS))
    new = set(rng.sample(kinds, _NEW_KINDS))
    big, small = ([Thing(*kind, size) for kind in kinds] for size in (True, False))
    singles = [(relation, (thing,)) for relation in SINGLE for thing in big + small]
    held_singles = _every_sixth([s for s in singles if not _has(s[1], new)], rng)
    pairs = list(product(big, small))
    held_pairs = _every_sixth([pair for pair in pairs if not _has(pair, new)], rng)
    parts: dict[str, list[Arrangement]] = {"seen": [], "unseen": [], "new_kinds": []}
    for relation, things in [*singles, *product(PAIR, pairs)]:
        held = things in held_pairs or (relation, things) in held_singles
        part = "new_kinds" if _has(things, new) else "unseen" if held else "seen"
        parts[part].append(Arrangement(relation, things))
    return Split(**{name: tuple(part) for name, part in parts.items()})


def _has(things: Sequence[Thing], kinds: set[tuple[str, str]]) -> bool:
    return any((thing.shape, thing.colour) in kinds for thing in things)


def _every_sixth(items: Sequence[object], rng: random.Random) -> set[object]:
    return set(rng.sample(list(items), len(items) // _HELD_OUT))
