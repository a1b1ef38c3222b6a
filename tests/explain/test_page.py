"""A page of records, and a map in a notebook: data, policy, hostile texts, and browsers."""

import base64
import csv
import dataclasses
import hashlib
import io
import json
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nmt.explain.page import pack, write_page
from nmt.explain.static import map_svg, translation_html
from nmt.explain.web import map_script
from nmt.text.word_pieces import pieces_by_word
from nmt.translation.drawn import DrawnTranslation
from nmt.translation.heads import Head
from nmt.translation.record import AttentionRecord, records
from nmt.translation.words import AttentionTable, attention_table, merge_words, row_shares

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=http://evil.example/x onerror=alert(1)>",
    "]]>\u202e\u2028\x00\x1b[2J",
    "'\"&amp;`${alert(1)}",
    "\udce9",
)


def unpack(packed: dict[str, str], n_columns: int) -> np.ndarray:
    """The weights of a packed matrix, to the bit those that a page shows (web/weights.js)."""
    scales = np.frombuffer(base64.b64decode(packed["scales"]), dtype="<f4").astype(np.float64)
    levels = np.frombuffer(base64.b64decode(packed["weights"]), dtype=np.uint8)
    return (levels.reshape(len(scales), n_columns) * scales[:, None] / 255).astype(np.float32)


class Elements(HTMLParser):
    """The start tags of a text and their attributes; raises where a tag is closed out of turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self.open
        self.names = {tag for tag, _ in self.tags}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not [name for name, _ in attrs if re.fullmatch("src|href|on.*", name)]
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def data_of(page: str) -> Any:
    [block] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(block)


@pytest.fixture
def page_of(tmp_path: Path) -> Callable[..., str]:
    def write(shown: Sequence[AttentionRecord], level: str = "word") -> str:
        write_page(shown, tmp_path / "page.html", level, force=True)
        return (tmp_path / "page.html").read_bytes().decode()

    return write


def test_the_data_are_the_records_within_the_bound(make_translation, page_of) -> None:
    texts = "the cat|s sleep", ["les chat|s", "un chat"]
    translation = make_translation(*texts, n_heads=2, n_self_heads=2)
    heads = [Head("h 1", 0), Head("encoder 2", 1, "encoder"), Head("decoder 1", 0, "decoder")]
    both = records(translation, 3, heads=heads)
    other = dataclasses.replace(records(make_translation("e", ["f"]), 5)[0], score=-np.inf)
    page = page_of([*both, other])
    assert page == page_of([*both, other])
    assert 'data-level="word"' in page
    sentence, second = data_of(page)
    assert (second["number"], second["hypotheses"][0]["score"]) == (5, None)
    assert sentence["source"]["pieces"] == ["▁the", "▁cat", "s", "▁sleep", "</s>"]
    assert sentence["source"]["words"] == ["the", "cats", "sleep", "</s>"]
    assert sentence["source"]["ends"] == [1, 3, 4, 5]
    for record, shown in zip(both, sentence["hypotheses"], strict=True):
        expected = record.rank, record.score, record.target_text
        assert (shown["rank"], shown["score"], shown["text"]) == expected
        self_heads = [maps.heads[0] for maps in record.self_attention.values()]
        maps = [record.weights, record.heads[0], *self_heads]
        assert [item["name"] for item in shown["maps"]] == ["mean", "h 1", "encoder 2", "decoder 1"]
        for packed, weights in zip(shown["maps"], maps, strict=True):
            back = unpack(packed, weights.shape[1])
            assert np.abs(back - weights).max() <= weights.max() / 510 + 1e-7
    assert data_of(page_of([], "piece")) == []


SHAPES = st.tuples(st.integers(0, 7), st.integers(0, 11))


@given(arrays(np.float32, SHAPES, elements=st.floats(0, 1, width=32)))
def test_a_byte_is_within_half_a_step_and_the_greatest_exact(weights: np.ndarray) -> None:
    packed = pack(weights)
    back = unpack(packed, weights.shape[1])
    assert back.shape == weights.shape
    assert len(base64.b64decode(packed["weights"])) == weights.size
    greatest = weights.max(axis=1, initial=0, keepdims=True).astype(np.float64)
    error = np.abs(back.astype(np.float64) - weights)
    assert (error <= greatest / 510 + 2**-24 * greatest + 2**-149).all()
    np.testing.assert_array_equal(back.max(axis=1, initial=0), weights.max(axis=1, initial=0))


def test_the_page_refers_to_nothing_and_runs_its_own_script_only(make_translation, page_of) -> None:
    page = page_of(records(make_translation()))
    elements = Elements(page)
    for tag, attributes in elements.tags:
        assert not {"srcset", "action", "style", "data"} & set(attributes)
        assert tag not in ("link", "iframe", "object", "embed", "base", "img", "form")
    assert not re.findall(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket", page)
    [policy] = [tag["content"] for _, tag in elements.tags if "http-equiv" in tag]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not re.search(r"</script|<!--", map_script(), re.IGNORECASE)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_text_is_data_and_no_element(hostile: str, make_translation, page_of) -> None:
    def page_with(text: str, name: str) -> str:
        return page_of(records(make_translation(text, [text], n_heads=1), heads=[Head(name, 0)]))

    text, name = hostile.replace(" ", "_"), f"head {hostile}"
    page = page_with(text, name)
    assert Elements(page).tags == Elements(page_with("word", "head")).tags
    [sentence] = data_of(page)
    assert sentence["source"]["text"] == sentence["hypotheses"][0]["words"][0] == text
    assert sentence["hypotheses"][0]["maps"][1]["name"] == name


SVG = "{http://www.w3.org/2000/svg}"


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
        title = f"{table.rows[row]} ← {table.columns[column]}  {weight:.3f}"
        assert cell.find(f"{SVG}title").text == title


def test_a_translation_shows_its_texts_and_the_map_of_the_best(make_translation) -> None:
    plain = make_translation("the cat|s", ["les chat|s", "un chat"])
    translation = DrawnTranslation(plain.src_text, plain.source, plain.hypotheses)
    shown = translation._repr_html_()
    assert "script" not in Elements(shown).names
    assert map_svg(attention_table(translation, 0, "word")) in shown
    assert shown.count("<svg") == 1
    assert all(text in shown for text in ("the cats", "les chats", "un chat"))
    assert translation.plot()._repr_png_().startswith(b"\x89PNG")
    assert "svg" not in Elements(translation_html(make_translation("", []))).names


def test_a_hostile_text_in_a_notebook_is_text(make_translation) -> None:
    hostile = " ".join(HOSTILE)
    shown = translation_html(make_translation(hostile, [hostile]))
    plain = translation_html(make_translation("x", ["x"]))
    assert Elements(shown).names == Elements(plain).names
    shown.encode()  # a notebook is UTF-8: no lone surrogate is left
    assert not re.search(r"[\x00-\x1f\x7f\u202a-\u202e]", shown)
    ElementTree.fromstring(shown.replace("&nbsp;", " "))


HEADS = [Head("layer 1 head 1", 0), Head("encoder layer 1 head 1", 0, "encoder")]


@pytest.fixture
def show(driver, page_of, tmp_path: Path) -> Callable[..., Any]:
    def opened(shown: Sequence[AttentionRecord], level: str = "word") -> Any:
        page_of(shown, level)
        driver.get((tmp_path / "page.html").as_uri())
        return driver

    return opened


@pytest.fixture
def several(make_translation) -> list[AttentionRecord]:
    """Two hypotheses and two heads of one sentence, and a second sentence."""
    sentences = [("the cat|s sleep", ["les chat|s dorm|ent", "un été"]), ("a dog", ["un chien"])]
    both = [make_translation(*one, n_heads=1, n_self_heads=1) for one in sentences]
    return [r for i, one in enumerate(both) for r in records(one, i, heads=HEADS)]


def texts(driver: Any, selector: str) -> list[str]:
    elements = f"[...document.querySelectorAll({selector!r})]"
    return driver.execute_script(f"return {elements}.map((each) => each.textContent)")


def shown_csv(driver: Any) -> tuple[list[str], list[str], np.ndarray]:
    """Rows, columns and weights of the CSV that the page offers of the chosen map."""
    text = driver.execute_async_script(
        "const done = arguments[0];"
        "URL.createObjectURL = (blob) => { blob.text().then(done); return '#'; };"
        "HTMLAnchorElement.prototype.click = () => {};"
        "document.getElementById('save-csv').click();"
    )
    lines = list(csv.reader(io.StringIO(text, newline="")))
    weights = np.array([line[1:] for line in lines[1:]], dtype=np.float32)
    return [line[0] for line in lines[1:]], lines[0][1:], weights


def test_the_csv_has_the_weights_that_were_packed_or_merged(show, several) -> None:
    driver = show(several, "piece")
    for place, record in enumerate(several[:2]):
        driver.execute_script(f"document.querySelectorAll('#hypotheses input')[{place}].click()")
        rows, columns, weights = shown_csv(driver)
        assert (tuple(rows), tuple(columns)) == (record.target.pieces, record.source.pieces)
        np.testing.assert_array_equal(weights, unpack(pack(record.weights), len(columns)))
    rows, columns, weights = shown_csv(show(several))
    record = several[0]
    assert (tuple(rows), tuple(columns)) == (record.target.words, record.source.words)
    shares = [pieces_by_word(side).shares for side in (record.target, record.source)]
    merged = merge_words(unpack(pack(record.weights), len(record.source.pieces)), *shares)
    np.testing.assert_allclose(weights, merged, atol=1e-7)


def test_an_attribution_has_bars_and_a_map_of_the_prefix(show, make_translation) -> None:
    translation = make_translation("the cat|s", ["les chat|s"], method="erasure")
    (record,) = records(translation)
    driver = show([record], "piece")
    bars = "[...document.querySelectorAll('.nmt-shares rect')]"
    widths = f"return {bars}.map((bar) => +bar.getAttribute('width'))"
    share = record.attribution.source_share
    np.testing.assert_allclose(driver.execute_script(widths), 44 * share, atol=0.01)
    assert tuple(shown_csv(driver)[1]) == record.source.pieces
    driver.execute_script("document.querySelectorAll('#thumbnails button')[1].click()")
    rows, columns, weights = shown_csv(driver)
    assert tuple(rows) == record.target.pieces
    assert tuple(columns) == record.attribution.prefix_labels
    expected = row_shares(record.attribution.prefix_scores)
    np.testing.assert_allclose(weights, expected, atol=1 / 500)
    driver.execute_script(
        "const level = document.getElementById('level'); level.value = 'word';"
        "level.dispatchEvent(new Event('change'))"
    )
    (by_word,) = records(translation, level="word")
    share = by_word.attribution.source_share
    np.testing.assert_allclose(driver.execute_script(widths), 44 * share, atol=0.02)


def test_keys_lead_through_sentences_and_cells(show, several) -> None:
    from selenium.webdriver.common.keys import Keys

    driver = show(several)
    assert texts(driver, "#source") == ["the cats sleep"]
    listed = driver.find_element("id", "list")
    listed.send_keys(Keys.ARROW_DOWN)
    assert texts(driver, "#source") == texts(driver, "#list [aria-selected=true] bdi") == ["a dog"]
    assert listed.get_attribute("aria-activedescendant") == "sentence-1"
    listed.send_keys("k")
    assert texts(driver, "#source") == ["the cats sleep"]
    heat = driver.find_element("css selector", "#heat svg")
    heat.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    weight = shown_csv(driver)[2][1, 1]
    assert texts(driver, "#heat [role=status]") == [f"chats ← cats  {weight:.3f}"]
    heat.send_keys(Keys.ESCAPE)
    assert texts(driver, "#heat [role=status]") == [""]


def test_the_search_finds_without_accents_and_in_both_languages(show, several) -> None:
    driver = show(several)
    search = driver.find_element("id", "search")
    results = {"chien": ["a dog"], "ETE cat": ["the cats sleep"], "dog zebra": []}
    for wanted, sentences in results.items():
        search.clear()
        search.send_keys(wanted)
        assert texts(driver, "#list li:not([hidden]) bdi") == sentences
