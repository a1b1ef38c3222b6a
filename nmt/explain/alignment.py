"""Word alignment: links from attention weights, symmetrisation, and scores against gold links."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float32

from nmt.corpora.alignments import Gold, Link, Links

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def strongest_links(weights: Float32[np.ndarray, "T S_and_eos"]) -> Links:
    """Link each target position j to the source position i = argmax_s weights[j, s].

    Positions are numbered from 0. Among equal largest weights, the first counts. The last column
    is the source's eos. A position has no link if its largest weight is on eos or if all are 0.
    """
    eos_column = weights.shape[1] - 1
    strongest = [(int(row.argmax()), j) for j, row in enumerate(weights) if row.any()]
    return frozenset((i, j) for i, j in strongest if i != eos_column)


def links_above(weights: Float32[np.ndarray, "T S_and_eos"], threshold: float) -> Links:
    """Link each target position to every source position with weight >= `threshold`, except eos."""
    targets, sources = np.nonzero(weights[:, :-1] >= threshold)
    return frozenset((int(i), int(j)) for i, j in zip(sources, targets, strict=True))


def grow_diag(one: Links, other: Links) -> Links:
    """Return the intersection, grown by neighbouring links of the union.

    A neighbour of a link is added if its source or its target word has no link yet. Passes over
    the links, sorted by source word and then by target word, are repeated until no link is added.
    """
    union, links = one | other, set(one & other)
    sources, targets = _words(links)
    n_links = -1
    while n_links < len(links):
        n_links = len(links)
        for source, target in sorted(links):
            for di, dj in _NEIGHBOURS:
                i, j = source + di, target + dj
                if (i, j) in union and (i not in sources or j not in targets):
                    links.add((i, j))
                    sources.add(i)
                    targets.add(j)
    return frozenset(links)


def grow_diag_final(one: Links, other: Links, needs_both: bool = False) -> Links:
    """Return the links of `grow_diag`, extended by links of `one`, then by links of `other`.

    A link is added if one of its words has no link yet, or with `needs_both`, both have none.
    """
    links = set(grow_diag(one, other))
    sources, targets = _words(links)
    for i, j in (*sorted(one), *sorted(other)):
        is_free = i not in sources, j not in targets
        if all(is_free) if needs_both else any(is_free):
            links.add((i, j))
            sources.add(i)
            targets.add(j)
    return frozenset(links)


def _words(links: set[Link]) -> tuple[set[int], set[int]]:
    """Return the source and the target words that have a link."""
    return {i for i, _ in links}, {j for _, j in links}


SYMMETRISATIONS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": frozenset.intersection,
    "union": frozenset.union,
    "grow-diag": grow_diag,
    "grow-diag-final": grow_diag_final,
    "grow-diag-final-and": partial(grow_diag_final, needs_both=True),
}
"""Heuristics that merge the alignments of both directions (Och & Ney 2003; Koehn, Och & Marcu
2003). The links of both directions are pairs (source, target)."""


@dataclass(frozen=True)
class AlignmentScore:
    """Counts of links over a corpus, and the rates computed from them.

    A is the set of predicted links, S of sure gold links, and P of possible ones, including S.
    `n_links` is |A|, `n_sure` is |S|, `n_sure_found` is |A and S|, `n_possible_found` is |A and P|.
    """

    n_links: int
    n_sure: int
    n_sure_found: int
    n_possible_found: int

    @property
    def precision(self) -> float:
        """|A and P| / |A|, or 1 without predicted links."""
        return self.n_possible_found / self.n_links if self.n_links else 1.0

    @property
    def recall(self) -> float:
        """|A and S| / |S|, or 1 without sure links."""
        return self.n_sure_found / self.n_sure if self.n_sure else 1.0

    @property
    def aer(self) -> float:
        """Alignment error rate 1 - (|A and S| + |A and P|) / (|A| + |S|): 0 is best, 1 worst."""
        total = self.n_links + self.n_sure
        return 1 - (self.n_sure_found + self.n_possible_found) / total if total else 0.0

    def describe(self) -> str:
        """Return the rates and counts as one line."""
        return (
            f"AER {self.aer:.3f}  precision {self.precision:.3f}  recall {self.recall:.3f}  "
            f"({self.n_links:,} links, {self.n_sure:,} sure ones)"
        )

    def as_json(self) -> dict[str, float | int]:
        rates = {"aer": self.aer, "precision": self.precision, "recall": self.recall}
        return {**rates, "links": self.n_links, "sure": self.n_sure}


def alignment_score(predicted: Iterable[Links], gold: Iterable[Gold]) -> AlignmentScore:
    """Score the predicted links of all sentence pairs together (Och & Ney 2003, section 6).

    Raises ValueError if `predicted` and `gold` differ in length.
    """
    pairs = list(zip(predicted, gold, strict=True))
    return AlignmentScore(
        n_links=sum(len(links) for links, _ in pairs),
        n_sure=sum(len(reference.sure) for _, reference in pairs),
        n_sure_found=sum(len(links & reference.sure) for links, reference in pairs),
        n_possible_found=sum(len(links & reference.possible) for links, reference in pairs),
    )
