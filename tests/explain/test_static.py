import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from explain.test_page import HOSTILE

from nmt.explain.static import map_svg, translation_html
from nmt.translation.drawn import DrawnTranslation
from nmt.translation.words import AttentionTable, attention_table

SVG = "{http://www.w3.org/2000/svg}"


class Balance(HTMLParser):
    """The elements of a text; raises where an end tag is not that of the last open element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name in ("src", "href") or name.startswith("on")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_cell_has_the_opacity_of_its_weight_and_its_words(make_translation) -> None:
    table = attention_table(make_translation("the cat|s", ["les chat|s"]), level="word")
    root = ElementTree.fromstring(map_svg(table))
    labels = [text.text for text in root.iter(f"{SVG}text")]
    assert labels == ["les", "chats", "</s>", "the", "cats", "</s>"]
    hebrew = AttentionTable(("▁שלום",), ("▁the",), np.ones((1, 1), dtype=np.float32))
    assert ">\u2067_שלום\u2069</text>" in map_svg(hebrew)  # isolated, from right to left
    cells = [cell for cell in root.iter(f"{SVG}rect") if cell.get("fill-opacity")]
    shown = np.argwhere(table.weights > 0.005)
    end = np.ceil(table.weights.max() * 10) / 10
    left, top = (min(float(cell.get(name)) for cell in cells) for name in "xy")
    for cell, (row, column) in zip(cells, shown, strict=True):
        place = float(cell.get("x")) - left, float(cell.get("y")) - top
        side = float(cell.get("width"))
        assert place == pytest.approx((column * side, row * side), abs=0.2)
        weight = table.weights[row, column]
        assert float(cell.get("fill-opacity")) == pytest.approx(weight / end, abs=6e-4)
        title = cell.find(f"{SVG}title").text
        assert title == f"{table.rows[row]} ← {table.columns[column]}  {weight:.3f}"


def test_a_translation_shows_its_texts_and_the_map_of_the_best(make_translation) -> None:
    plain = make_translation("the cat|s", ["les chat|s", "un chat"])
    translation = DrawnTranslation(plain.src_text, plain.source, plain.hypotheses)
    shown = translation._repr_html_()
    assert "script" not in Balance(shown).tags
    assert map_svg(attention_table(translation, 0, "word")) in shown
    assert shown.count("<svg") == 1
    assert all(text in shown for text in ("the cats", "les chats", "un chat"))
    figure = translation.plot()
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["les", "chats", "</s>"]
    assert figure._repr_png_().startswith(b"\x89PNG")
    empty = translation_html(make_translation("", []))
    assert "svg" not in Balance(empty).tags


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_text_is_text(hostile: str, make_translation) -> None:
    shown = translation_html(make_translation(hostile, [hostile]))
    assert Balance(shown).tags == Balance(translation_html(make_translation("x", ["x"]))).tags
    shown.encode()  # a notebook is UTF-8: no lone surrogate is left
    assert not re.search(r"[\x00-\x1f\x7f\u202a-\u202e]", shown)
    ElementTree.fromstring(shown.replace("&nbsp;", " "))
