"""Hard word alignments from attention, in the Pharaoh format that alignment tools read."""

import numpy as np
from jaxtyping import Float32

from nmt.attention_maps.heads import MEAN, Head
from nmt.attention_maps.words import AttentionTable, Level, attention_table
from nmt.data.alignments import Link, Links, pharaoh_line
from nmt.types import Translation


def strongest_links(weights: Float32[np.ndarray, "T S_and_eos"]) -> Links:
    """A link (source i, target j), both from 0, for each target j: its greatest weight.

    i = argmax_s weights[j, s], the first of equal weights. The last column is the source's eos: a
    target whose greatest weight is there has no link, nor has one without any weight.
    """
    eos_column = weights.shape[1] - 1
    strongest = [(int(row.argmax()), j) for j, row in enumerate(weights) if row.any()]
    return frozenset((i, j) for i, j in strongest if i != eos_column)


def links_above(weights: Float32[np.ndarray, "T S_and_eos"], threshold: float) -> Links:
    """A link for every weight of at least `threshold`, but for those on the source's eos."""
    targets, sources = np.nonzero(weights[:, :-1] >= threshold)
    return frozenset((int(i), int(j)) for i, j in zip(sources, targets, strict=True))


def hard_alignment(table: AttentionTable, finished: bool) -> list[Link]:
    """`strongest_links` in the order of the targets; the row of eos (if `finished`) has none."""
    rows = table.weights[:-1] if finished else table.weights
    return sorted(strongest_links(rows), key=lambda link: link[1])


def pharaoh(
    translation: Translation, rank: int = 0, level: Level = "word", head: Head = MEAN
) -> str:
    """The alignment of hypothesis `rank` as one line: `0-0 2-1 1-2`, source before target.

    The numbers count the words (or pieces) that the dump names. An empty translation gives an
    empty line.
    """
    if not translation.hypotheses:
        return ""
    table = attention_table(translation, rank, level, head)
    return pharaoh_line(hard_alignment(table, translation.hypotheses[rank].hypothesis.finished))
