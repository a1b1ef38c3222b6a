"""The page as a browser shows it: what is drawn, read out, searched, copied and refused."""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
from explain.test_page import unpack

from nmt.explain.page import pack, write_page
from nmt.text.word_pieces import pieces_by_word
from nmt.translation.heads import Head
from nmt.translation.record import AttentionRecord, records
from nmt.translation.words import merge_words, row_shares

MISSING = browser.missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
HEADS = [Head("layer 1 head 1", 0), Head("encoder layer 1 head 1", 0, "encoder")]


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Iterator[Any]:
    with browser.chromium(tmp_path_factory.mktemp("downloads")) as chrome:
        yield chrome


@pytest.fixture
def show(driver, tmp_path: Path) -> Callable[..., Any]:
    """Open a page of records; at the end the browser must have nothing to complain of."""

    def opened(page_records: list[AttentionRecord], level: str = "word") -> Any:
        write_page(page_records, tmp_path / "page.html", level, force=True)
        driver.get((tmp_path / "page.html").as_uri())
        complaints = [line["message"] for line in driver.get_log("browser")]
        assert not complaints
        return driver

    return opened


@pytest.fixture
def several(make_translation) -> list[AttentionRecord]:
    """Two hypotheses and two heads of one sentence, and a second sentence."""
    sentences = [("the cat|s sleep", ["les chat|s dorm|ent", "un été"]), ("a dog", ["un chien"])]
    both = [make_translation(*one, n_heads=1, n_self_heads=1) for one in sentences]
    return [r for i, one in enumerate(both) for r in records(one, i, heads=HEADS)]


def texts(driver: Any, selector: str) -> list[str]:
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)",
        selector,
    )


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


def test_the_csv_has_the_weights_that_were_packed(show, several) -> None:
    driver = show(several, "piece")
    for place, record in enumerate(several[:2]):
        driver.execute_script(f"document.querySelectorAll('#hypotheses input')[{place}].click()")
        rows, columns, weights = shown_csv(driver)
        assert (tuple(rows), tuple(columns)) == (record.target.pieces, record.source.pieces)
        np.testing.assert_array_equal(
            weights, unpack(pack(record.weights), len(record.source.pieces))
        )
        assert np.abs(weights - record.weights).max() <= record.weights.max() / 510 + 1e-7


def test_words_are_merged_as_nmt_merges_them(show, several) -> None:
    rows, columns, weights = shown_csv(show(several))
    record = several[0]
    assert (tuple(rows), tuple(columns)) == (record.target.words, record.source.words)
    back = unpack(pack(record.weights), len(record.source.pieces))
    merged = merge_words(
        back, pieces_by_word(record.target).shares, pieces_by_word(record.source).shares
    )
    np.testing.assert_allclose(weights, merged, atol=1e-7)


def test_an_attribution_has_bars_and_a_map_of_the_prefix(show, make_translation) -> None:
    (record,) = records(make_translation("the cat|s", ["les chat|s"], method="erasure"))
    driver = show([record], "piece")
    bars = "[...document.querySelectorAll('.nmt-shares rect')]"
    widths = f"return {bars}.map((bar) => +bar.getAttribute('width'))"
    np.testing.assert_allclose(
        driver.execute_script(widths), 44 * record.attribution.source_share, atol=0.01
    )
    rows, columns, weights = shown_csv(driver)
    assert tuple(columns) == record.source.pieces
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
    (by_word,) = records(
        make_translation("the cat|s", ["les chat|s"], method="erasure"), level="word"
    )
    np.testing.assert_allclose(
        driver.execute_script(widths), 44 * by_word.attribution.source_share, atol=0.02
    )


def test_keys_lead_through_sentences_and_cells(show, several) -> None:
    from selenium.webdriver.common.keys import Keys

    driver = show(several)
    assert texts(driver, "#source") == ["the cats sleep"]
    listed = driver.find_element("id", "list")
    listed.send_keys(Keys.ARROW_DOWN)
    assert texts(driver, "#source") == ["a dog"]
    assert texts(driver, "#list [aria-selected=true] bdi") == ["a dog"]
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
    for wanted, sentences in (
        ("chien", ["a dog"]),
        ("ETE cat", ["the cats sleep"]),
        ("dog zebra", []),
    ):
        search.clear()
        search.send_keys(wanted)
        assert texts(driver, "#list li:not([hidden]) bdi") == sentences
        assert texts(driver, "#count") == [f"{len(sentences)} of 2 sentences"]


def test_the_longest_labels_fit_into_the_drawing_in_bold(show, make_translation) -> None:
    driver = show(records(make_translation("e" * 30 + " dog", ["é" * 24 + " chien"])))
    outside = driver.execute_script(
        "return [...document.querySelectorAll('#maps svg.nmt-map')].flatMap((svg) => {"
        "  const sheet = svg.getBoundingClientRect();"
        "  return [...svg.querySelectorAll('text')].map((label) => {"
        "    label.style.fontWeight = 'bold';"
        "    const box = label.getBoundingClientRect();"
        "    return Math.max(sheet.left - box.left, sheet.top - box.top, box.right - sheet.right);"
        "  });"
        "})"
    )
    assert len(outside) > 8
    assert max(outside) <= 0
