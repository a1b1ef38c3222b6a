"""Hard word alignments from attention, in the Pharaoh format that alignment tools read."""

from nmt.attention_maps.heads import MEAN, Head
from nmt.attention_maps.words import AttentionTable, Level, attention_table
from nmt.types import Translation

Link = tuple[int, int]


def hard_alignment(table: AttentionTable, finished: bool) -> list[Link]:
    """A link (source i, target j), both from 0, for each target j: its greatest weight.

    i = argmax_s weights[j, s], the first of equal weights. The row of eos (present if `finished`)
    has no link, nor has a target whose greatest weight is on the source's eos.
    """
    eos_column = len(table.columns) - 1
    rows = table.weights[:-1] if finished else table.weights
    strongest = [(int(row.argmax()), target) for target, row in enumerate(rows)]
    return [(source, target) for source, target in strongest if source != eos_column]


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
    links = hard_alignment(table, translation.hypotheses[rank].hypothesis.finished)
    return " ".join(f"{source}-{target}" for source, target in links)
