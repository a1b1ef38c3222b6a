import io
import itertools
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from nmt.maps.heatmap import COLOUR_MAP, draw_heatmap, drawable, write_heatmap
from nmt.maps.words import AttentionTable, attention_table

SIXTY = " ".join(f"gra|nd{number % 7}" for number in range(30))


def texts(figure: Figure) -> tuple[list[str], list[str]]:
    """The labels of the target and of the source axis."""
    axes = figure.axes[0]
    return (
        [text.get_text() for text in axes.get_yticklabels()],
        [text.get_text() for text in axes.get_xticklabels()],
    )


def rendered(figure: Figure) -> None:
    """Draw it, so that every warning that matplotlib has to give is given."""
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")


def test_target_runs_down_and_source_along_the_top(make_translation) -> None:
    translation = make_translation("the cat|s", ["les chat|s l' œuvre"])
    figure = draw_heatmap(attention_table(translation))
    axes = figure.axes[0]
    target, source = texts(figure)
    assert target == ["_les", "_chat", "s", "_l'", "_œuvre", "</s>"]
    assert source == ["_the", "_cat", "s", "</s>"]
    assert axes.yaxis_inverted()
    assert all(tick.label2.get_visible() for tick in axes.xaxis.get_major_ticks())
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array(), translation.hypotheses[0].hypothesis.attention)
    assert image.get_cmap().name == COLOUR_MAP
    rendered(figure)


def test_colours_go_from_zero_to_the_greatest_weight(make_translation) -> None:
    flat = np.full((3, 4), 0.25, dtype=np.float32)
    table = AttentionTable(("a", "b", "c"), ("a", "b", "c", "d"), flat)
    assert draw_heatmap(table).axes[0].images[0].get_clim() == pytest.approx((0, 0.3))
    sure = np.eye(3, 4, dtype=np.float32)
    table = AttentionTable(("a", "b", "c"), ("a", "b", "c", "d"), sure)
    assert draw_heatmap(table).axes[0].images[0].get_clim() == (0, 1)


@pytest.mark.parametrize(
    "text", ["日本 語", "🎉 👍🏽 ❤️", "🇫🇷", "नमस्ते", "$5 and $6 \\alpha_", "عربي", "<unk> ▁ _"]
)
def test_any_text_is_drawn_without_a_warning(text: str, make_translation) -> None:
    translation = make_translation(text, [text])
    rendered(draw_heatmap(attention_table(translation), f"{text}\n{text}"))


def test_a_missing_glyph_becomes_a_box_and_accents_stay() -> None:
    assert drawable("Où ça, l’œuvre naïve « été » ÀÉÈÊËÎÏÔÛÜÇ…") == (
        "Où ça, l’œuvre naïve « été » ÀÉÈÊËÎÏÔÛÜÇ…"
    )
    assert drawable("a\U0010fffdb") == "a□b"


def test_dollars_are_not_set_as_a_formula(make_translation) -> None:
    figure = draw_heatmap(attention_table(make_translation("$x$", ["$y$"])), "$x$")
    axes = figure.axes[0]
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title, axes._left_title]
    assert not any(text.get_parse_math() for text in labels if "$" in text.get_text())
    assert texts(figure)[1][0] == "_$x$"


def labels_overlap(figure: Figure) -> bool:
    """Whether two neighbouring labels of an axis touch when drawn."""
    rendered(figure)
    axes = figure.axes[0]
    columns = [text.get_window_extent() for text in axes.get_xticklabels()]
    rows = [text.get_window_extent() for text in axes.get_yticklabels()]
    return any(left.x1 > right.x0 for left, right in itertools.pairwise(columns)) or (
        any(upper.y0 < lower.y1 for upper, lower in itertools.pairwise(rows))
    )


@pytest.mark.parametrize("source", ["hi", "the cat|s sleep .", SIXTY])
def test_labels_do_not_overlap_and_can_be_read(source: str, make_translation) -> None:
    figure = draw_heatmap(attention_table(make_translation(source, [source])))
    assert not labels_overlap(figure)
    labels = figure.axes[0].get_xticklabels() + figure.axes[0].get_yticklabels()
    assert all(8 <= label.get_fontsize() <= 11 for label in labels)


def test_a_long_title_is_cut_to_the_pictures_width(make_translation) -> None:
    figure = draw_heatmap(attention_table(make_translation("a b", ["c d"])), "mot " * 50 + "\nfin")
    first, second = figure.axes[0].get_title(loc="left").split("\n")
    assert first.startswith("mot mot")
    assert first.endswith("…")
    assert len(first) <= 60
    assert second == "fin"


@pytest.mark.parametrize("level", ["piece", "word"])
def test_the_file_is_a_png_and_always_the_same_bytes(
    level, make_translation, tmp_path: Path
) -> None:
    translation = make_translation("the cat|s sleep", ["le|s chat|s", "un chat"])
    for name in ("a.png", "b.png"):
        write_heatmap(translation, tmp_path / name, 1, level)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    height, width, _ = imread(tmp_path / "a.png").shape
    assert height > 200
    assert width > 200


def test_nothing_global_is_changed(make_translation, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    write_heatmap(make_translation(), tmp_path / "x.png")
    assert dict(mpl.rcParams) == before
