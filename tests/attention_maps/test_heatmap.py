import io
import itertools
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from nmt.attention_maps.heads import MEAN, Head, choose_heads
from nmt.attention_maps.heatmap import (
    draw_grids,
    draw_heatmap,
    write_heatmap,
)
from nmt.attention_maps.map_grid import map_grid
from nmt.attention_maps.map_style import COLOUR_MAP, DPI
from nmt.attention_maps.words import AttentionTable, attention_table

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
        write_heatmap(translation, tmp_path / name, 1, level, force=True)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    height, width, _ = imread(tmp_path / "a.png").shape
    assert height > 200
    assert width > 200


NAMES = [f"layer {layer} head {head}" for layer in (1, 2) for head in (1, 2, 3)]


def grid(translation, wanted: str = "all", names: list[str] = NAMES) -> Figure:
    heads = choose_heads(wanted, {"cross": names})
    maps = [(attention_table(translation, head=head), head.name) for head in heads]
    return draw_grids([map_grid(maps)], "title")


def maps(figure: Figure) -> dict[str, Axes]:
    """The maps of a grid by name, without the colour bar."""
    return {axes.get_xlabel(): axes for axes in figure.axes[:-1]}


def lines_of(figure: Figure) -> list[list[str]]:
    """The names in the grid, line by line from the top, each from the left."""
    tops: dict[float, list[tuple[float, str]]] = {}
    for name, axes in maps(figure).items():
        box = axes.get_position()
        tops.setdefault(round(-box.y1, 6), []).append((box.x0, name))
    return [[name for _, name in sorted(line)] for _, line in sorted(tops.items())]


def test_a_grid_has_each_head_over_its_name(make_translation) -> None:
    translation = make_translation("the cat|s", ["les chat|s"], n_heads=6)
    figure = grid(translation)
    shown = maps(figure)
    assert list(shown) == NAMES
    heads = translation.hypotheses[0].hypothesis.heads
    for number, axes in enumerate(shown.values()):
        np.testing.assert_array_equal(axes.images[0].get_array(), heads[number])
    rendered(figure)


@pytest.mark.parametrize(
    ("wanted", "names", "expected"),
    [
        ("all", NAMES, [NAMES[:3], NAMES[3:]]),
        ("mean,all", NAMES, [NAMES[:3], NAMES[3:], ["mean"]]),
        ("layer 2", NAMES, [NAMES[3:]]),
        ("head 2", NAMES, [[NAMES[1], NAMES[4]]]),
        ("all", list("abcdefgh"), [list("abcd"), list("efgh")]),
        ("all", list("abcde"), [list("abc"), list("de")]),
    ],
)
def test_heads_of_a_layer_stand_in_a_line_and_others_in_a_square(
    wanted: str, names: list[str], expected: list[list[str]], make_translation
) -> None:
    figure = grid(make_translation(n_heads=len(names)), wanted, names)
    assert lines_of(figure) == expected


def test_the_maps_of_a_grid_share_their_colours_and_labels(make_translation) -> None:
    translation = make_translation("the cat|s", ["les chat|s"], n_heads=6)
    shown = maps(grid(translation))
    greatest = translation.hypotheses[0].hypothesis.heads.max()
    for axes in shown.values():
        assert axes.images[0].get_clim() == pytest.approx((0, np.ceil(greatest * 10) / 10))
    for number, axes in enumerate(shown.values()):
        columns = [text.get_text() for text in axes.get_xticklabels()]
        rows = [text.get_text() for text in axes.get_yticklabels()]
        assert columns == (["_the", "_cat", "s", "</s>"] if number < 3 else [])
        assert rows == (["_les", "_chat", "s", "</s>"] if number % 3 == 0 else [])


@pytest.mark.parametrize("source", ["hi", "the cat|s sleep .", SIXTY])
def test_nothing_in_a_grid_overlaps(source: str, make_translation) -> None:
    figure = grid(make_translation(source, [source], n_heads=6))
    assert not labels_overlap(figure)
    names = [axes.xaxis.get_label().get_window_extent() for axes in figure.axes[:3]]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(names))
    below = figure.axes[3].get_window_extent()
    assert names[0].y0 > below.y1
    labels = figure.axes[0].get_xticklabels() + figure.axes[0].get_yticklabels()
    assert all(5 <= label.get_fontsize() <= 11 for label in labels)


@pytest.mark.parametrize(
    "source", ["日本 語 नमस्ते", "🎉 👍🏽 ❤️", "$5 and $6 \\alpha_", "عربي <unk> ▁ _"]
)
def test_a_grid_of_any_text_is_drawn_without_a_warning(source: str, make_translation) -> None:
    rendered(grid(make_translation(source, [source], n_heads=6)))


def test_a_picture_of_a_very_long_sentence_has_bounds(make_translation) -> None:
    """Labels that would be too small to read are left out, and those that are there say which."""
    long = " ".join(f"w{number}" for number in range(900))
    translation = make_translation(long, ["oui"], n_heads=6)
    for figure in (draw_heatmap(attention_table(translation)), grid(translation)):
        assert max(figure.get_size_inches()) * DPI <= 6200
        texts = [text.get_text() for text in figure.axes[0].get_xticklabels()]
        step = round(900 / len(texts))
        assert step > 1
        assert texts[:3] == ["_w0", f"_w{step}", f"_w{2 * step}"]
        assert figure.axes[0].get_xticklabels()[0].get_fontsize() >= 5


def test_one_head_is_one_map_with_its_name_in_the_title(
    make_translation, tmp_path: Path, monkeypatch
) -> None:
    drawn = []
    monkeypatch.setattr(
        "nmt.attention_maps.heatmap.draw_heatmap", lambda *a: drawn.append(a[:2]) or Figure()
    )
    translation = make_translation("the cat|s", ["les chats"], n_heads=2)
    for head in (MEAN, Head("second", 1)):
        write_heatmap(translation, tmp_path / "x.png", heads=[head], force=True)
    (mean, titled), (second, named) = drawn
    hypothesis = translation.hypotheses[0].hypothesis
    np.testing.assert_array_equal(mean.weights, hypothesis.attention)
    np.testing.assert_array_equal(second.weights, hypothesis.heads[1])
    assert (titled, named) == ("the cats\nles chats", "the cats\nles chats\nsecond")


def test_several_heads_are_one_file_and_always_the_same_bytes(
    make_translation, tmp_path: Path
) -> None:
    translation = make_translation("the cat|s", ["les chats", "un chat"], n_heads=2)
    for name in ("a.png", "b.png"):
        heads = choose_heads("mean,all", {"cross": ["a", "b"]})
        write_heatmap(translation, tmp_path / name, 1, "word", heads, force=True)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert imread(tmp_path / "a.png").shape[1] > 300


def test_nothing_global_is_changed(make_translation, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    write_heatmap(make_translation(), tmp_path / "x.png")
    assert dict(mpl.rcParams) == before


WHOLE = {
    "encoder": [f"encoder {name}" for name in NAMES],
    "decoder": [f"decoder {name}" for name in NAMES],
    "cross": NAMES,
}


def drawn(translation, wanted: str, monkeypatch, level: str = "piece") -> Figure:
    """The figure that write_heatmap writes."""
    figures: list[Figure] = []
    monkeypatch.setattr(
        "nmt.attention_maps.heatmap.write_map", lambda figure, *_, **__: figures.append(figure)
    )
    write_heatmap(translation, "x.png", 0, level, choose_heads(wanted, WHOLE))
    [figure] = figures
    return figure


def tick_labels(axes: Axes) -> tuple[list[str], list[str]]:
    return tuple(
        [text.get_text() for text in texts]
        for texts in (axes.get_yticklabels(), axes.get_xticklabels())
    )


@pytest.mark.parametrize("wanted", ["encoder.1.2", "decoder.2.1"])
def test_one_head_of_self_attention_has_one_text_on_both_axes(
    wanted: str, make_translation, monkeypatch
) -> None:
    translation = make_translation("the cat|s", ["les chat|s"], n_self_heads=6)
    axes = drawn(translation, wanted, monkeypatch).axes[0]
    rows, columns = tick_labels(axes)
    encoder = wanted.startswith("encoder")
    assert rows == columns
    assert rows == (["_the", "_cat", "s", "</s>"] if encoder else ["<s>", "_les", "_chat", "s"])
    assert axes.get_xlabel() == axes.get_ylabel() == ("source" if encoder else "target")
    assert axes.get_title(loc="left").endswith(
        "encoder layer 1 head 2" if encoder else "decoder layer 2 head 1"
    )


def test_each_attention_is_a_grid_with_its_heading_and_colours(
    make_translation, monkeypatch
) -> None:
    translation = make_translation("the cat|s", ["les"], n_heads=6, n_self_heads=6)
    figure = drawn(translation, "all", monkeypatch)
    maps = [axes for axes in figure.axes if axes.get_xlabel()]
    assert len(maps) == 18
    assert len(figure.axes) == 21
    assert [axes.get_xlabel() for axes in maps] == NAMES * 3
    titles = [maps[i].get_title(loc="left") for i in (0, 6, 12)]
    assert [title.split("\n")[-1].split(",")[0] for title in titles] == [
        "encoder self-attention",
        "decoder self-attention",
        "cross-attention",
    ]
    assert "…" not in "".join(titles)  # nothing is cut, narrow as the maps are
    hypothesis = translation.hypotheses[0].hypothesis
    wanted = [*hypothesis.self_heads["encoder"], *hypothesis.self_heads["decoder"]]
    for axes, weights in zip(maps, [*wanted, *hypothesis.heads], strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert tick_labels(maps[0]) == (["_the", "_cat", "s", "</s>"],) * 2
    assert tick_labels(maps[6]) == (["<s>", "_les"],) * 2
    assert tick_labels(maps[12]) == (["_les", "</s>"], ["_the", "_cat", "s", "</s>"])


@pytest.mark.parametrize("source", ["hi", "the cat|s sleep|ing on the mat .", SIXTY])
def test_grids_do_not_overlap(source: str, make_translation, monkeypatch) -> None:
    figure = drawn(
        make_translation(source, [source], n_heads=6, n_self_heads=6), "all", monkeypatch
    )
    rendered(figure)
    maps = [axes for axes in figure.axes if axes.get_xlabel()]
    for above, below in ((maps[3:6], maps[6]), (maps[9:12], maps[12])):
        heading = below.title if below.title.get_text() else below._left_title
        lowest = min(axes.xaxis.get_label().get_window_extent().y0 for axes in above)
        assert heading.get_window_extent().y1 < lowest
        labels = [text.get_window_extent() for text in below.get_xticklabels()]
        assert heading.get_window_extent().y0 >= max(label.y1 for label in labels)
