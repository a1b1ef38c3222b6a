"""One alignment from those of both directions (Och & Ney 2003; Koehn, Och & Marcu 2003)."""

from collections.abc import Callable

from nmt.data.alignments import Link, Links

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag(one: Links, other: Links) -> Links:
    """The links of both, and neighbours of links that either has, where a word has no link yet.

    Links are visited by source word, then by target word, until none is added.
    """
    either, grown = one | other, set(one & other)
    sources, targets = _words(grown)
    is_growing = True
    while is_growing:
        is_growing = False
        for i, j in sorted(grown):
            for di, dj in _NEIGHBOURS:
                link = i + di, j + dj
                is_free = link[0] not in sources or link[1] not in targets
                if link in either and link not in grown and is_free:
                    grown.add(link)
                    sources.add(link[0])
                    targets.add(link[1])
                    is_growing = True
    return frozenset(grown)


def grow_diag_final(one: Links, other: Links) -> Links:
    """`grow_diag`, then the links of `one`, then of `other`, of which a word has none yet."""
    return _final(one, other, needs_both=False)


def grow_diag_final_and(one: Links, other: Links) -> Links:
    """`grow_diag`, then the links of `one`, then of `other`, of which neither word has one yet."""
    return _final(one, other, needs_both=True)


def _final(one: Links, other: Links, needs_both: bool) -> Links:
    links = set(grow_diag(one, other))
    sources, targets = _words(links)
    for direction in (one, other):
        for i, j in sorted(direction):
            free = i not in sources, j not in targets
            if all(free) if needs_both else any(free):
                links.add((i, j))
                sources.add(i)
                targets.add(j)
    return frozenset(links)


def _words(links: set[Link]) -> tuple[set[int], set[int]]:
    """The source and the target words that have a link."""
    return {i for i, _ in links}, {j for _, j in links}


SYMMETRISATIONS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": frozenset.intersection,
    "union": frozenset.union,
    "grow-diag": grow_diag,
    "grow-diag-final": grow_diag_final,
    "grow-diag-final-and": grow_diag_final_and,
}
"""By name: f(links of one direction, links of the other), both as (source, target)."""
