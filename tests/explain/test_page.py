"""The page of records: the data in it, its policy, hostile texts, and weights of 8 bits."""

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nmt.explain.page import pack, write_page
from nmt.explain.web import map_script
from nmt.translation.heads import Head
from nmt.translation.record import AttentionRecord, records

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
    """The start tags that a parser finds, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


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
    translation = make_translation(
        "the cat|s sleep", ["les chat|s", "un chat"], n_heads=2, n_self_heads=2
    )
    heads = [Head("h 1", 0), Head("encoder 2", 1, "encoder"), Head("decoder 1", 0, "decoder")]
    both = records(translation, 3, heads=heads)
    other = dataclasses.replace(records(make_translation("e", ["f"]), 5)[0], score=-np.inf)
    page = page_of([*both, other])
    assert page == page_of([*both, other])
    assert 'data-level="word"' in page
    sentence, second = data_of(page)
    assert (second["number"], second["hypotheses"][0]["score"]) == (5, None)
    assert sentence["number"] == 3
    assert sentence["source"] == {
        "text": "the cats sleep",
        "pieces": ["▁the", "▁cat", "s", "▁sleep", "</s>"],
        "words": ["the", "cats", "sleep", "</s>"],
        "ends": [1, 3, 4, 5],
    }
    for record, shown in zip(both, sentence["hypotheses"], strict=True):
        assert (shown["rank"], shown["score"], shown["text"]) == (
            *(record.rank, record.score, record.target_text),
        )
        self_heads = [maps.heads[0] for maps in record.self_attention.values()]
        expected = [record.weights, record.heads[0], *self_heads]
        assert [item["name"] for item in shown["maps"]] == ["mean", "h 1", "encoder 2", "decoder 1"]
        for packed, weights in zip(shown["maps"], expected, strict=True):
            back = unpack(packed, weights.shape[1])
            assert np.abs(back - weights).max() <= weights.max() / 510 + 1e-7
    assert data_of(page_of([], "piece")) == []


@given(
    arrays(
        np.float32,
        st.tuples(st.integers(0, 7), st.integers(0, 11)),
        elements=st.floats(0, 1, width=32),
    )
)
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
        assert not {"src", "href", "srcset", "action", "style", "data"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert tag not in ("link", "iframe", "object", "embed", "base", "img", "form")
    assert not re.findall(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket", page)
    [policy] = [
        attributes["content"] for _, attributes in elements.tags if "http-equiv" in attributes
    ]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    script = map_script()
    assert "</script" not in script.lower()
    assert "<!--" not in script


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_text_is_data_and_no_element(hostile: str, make_translation, page_of) -> None:
    plain, evil = (
        make_translation(text, [text], n_heads=1) for text in ("word", hostile.replace(" ", "_"))
    )
    name = f"head {hostile}"
    page = page_of(records(evil, heads=[Head(name, 0)]))
    expected = Elements(page_of(records(plain, heads=[Head("head", 0)]))).tags
    assert Elements(page).tags == expected
    [sentence] = data_of(page)
    assert sentence["source"]["text"] == evil.src_text
    assert sentence["hypotheses"][0]["words"][0] == evil.text
    assert sentence["hypotheses"][0]["maps"][1]["name"] == name
