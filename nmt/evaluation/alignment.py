"""Hard word alignments read off attention, in the Pharaoh format that alignment tools share."""

from nmt.attention_maps.heads import MEAN, Head
from nmt.attention_maps.words import AttentionTable, Level, attention_table
from nmt.types import Translation

Link = tuple[int, int]


def hard_alignment(table: AttentionTable, finished: bool) -> list[Link]:
    """A link (source i, target j), both from 0, per target j: where j looked most.

    i = argmax_s weights[j, s]; of equal weights the first counts. The row of eos (there if
    `finished`) has no link, nor has a target that looked most at the source's eos.
    """
    eos_column = len(table.source) - 1
    rows = table.weights[:-1] if finished else table.weights
    looked_most = [(int(row.argmax()), target) for target, row in enumerate(rows)]
    return [(source, target) for source, target in looked_most if source != eos_column]


def pharaoh(
    translation: Translation, which: int = 0, level: Level = "word", head: Head = MEAN
) -> str:
    """The alignment of hypothesis `which` as one line: `0-0 2-1 1-2`, source before target.

    The numbers count the words (or pieces) that the dump names. An empty translation gives an
    empty line.
    """
    if not translation.hypotheses:
        return ""
    table = attention_table(translation, which, level, head)
    links = hard_alignment(table, translation.hypotheses[which].hypothesis.finished)
    return " ".join(f"{source}-{target}" for source, target in links)
