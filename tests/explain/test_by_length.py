"""BLEU by length in one picture: each system's line, its name and its colour."""

from nmt.evaluation.evaluate import Bucket
from nmt.explain.by_length import draw_by_length
from nmt.explain.colours import CYCLE, PALE


def buckets(*bleus: float) -> tuple[Bucket, ...]:
    edges = ((0, 5), (6, 10), (11, None))
    return tuple(Bucket(*edge, 1700, float(bleu)) for edge, bleu in zip(edges, bleus, strict=True))


SYSTEMS = {"runs/a": buckets(30, 20, 10), "b_$1$": buckets(31, 25, 10.1), "c": buckets(5, 5, 5)}


def test_each_system_is_a_line_with_its_name() -> None:
    [axes] = draw_by_length(SYSTEMS).axes
    curves = [list(line.get_ydata()) for line in axes.lines]
    assert curves == [[30, 20, 10], [31, 25, 10.1], [5, 5, 5]]
    assert [line.get_color() for line in axes.lines] == list(CYCLE[:3])
    assert {text.get_text(): text.get_color() for text in axes.texts} == dict(
        zip(SYSTEMS, CYCLE, strict=False)
    )
    heights = sorted(text.xy[1] for text in axes.texts)
    assert heights[2] - heights[1] > 1  # 10 and 10.1 would overlap
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert ticks == ["0-5\n1,700", "6-10\n1,700", "11+\n1,700"]


def test_systems_that_are_not_named_are_grey() -> None:
    [axes] = draw_by_length(SYSTEMS, ["c"]).axes
    colours = {tuple(line.get_ydata()): line.get_color() for line in axes.lines}
    assert colours == {(30, 20, 10): PALE, (31, 25, 10.1): PALE, (5, 5, 5): CYCLE[0]}
    assert [text.get_text() for text in axes.texts] == ["c"]
