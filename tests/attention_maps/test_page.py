import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.attention_maps.heads import Head
from nmt.attention_maps.packed import unpack
from nmt.attention_maps.page import write_page
from nmt.attention_maps.record import AttentionRecord, records
from nmt.attention_maps.web import map_script, map_style

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=http://evil.example/x onerror=alert(1)>",
    "]]>\u202e\u2028\x00\x1b[2J",
    "'\"&amp;`${alert(1)}",
    "\udce9",
)


class Elements(HTMLParser):
    """What a parser finds: the start tags with their attributes, and the text of each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.texts.append((self.tags[-1][0], data))


def data_of(page: str) -> Any:
    [block] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(block)


@pytest.fixture
def page_of(tmp_path: Path):
    def make(found: Sequence[AttentionRecord], level: str = "word") -> str:
        write_page(found, tmp_path / "page.html", level, force=True)
        return (tmp_path / "page.html").read_bytes().decode()

    return make


def test_the_data_are_the_records_within_the_bound(make_translation, page_of) -> None:
    translation = make_translation(
        "the cat|s sleep", ["les chat|s", "un chat"], n_heads=2, n_self_heads=2
    )
    heads = [Head("h 1", 0), Head("encoder 2", 1, "encoder"), Head("decoder 1", 0, "decoder")]
    found = records(translation, 3, heads=heads)
    [sentence] = data_of(page_of(found))
    assert sentence["number"] == 3
    assert sentence["source"] == {
        "text": "the cats sleep",
        "pieces": ["▁the", "▁cat", "s", "▁sleep", "</s>"],
        "words": ["the", "cats", "sleep", "</s>"],
        "ends": [1, 3, 4, 5],
    }
    assert [each["text"] for each in sentence["hypotheses"]] == ["les chats", "un chat"]
    for record, shown in zip(found, sentence["hypotheses"], strict=True):
        assert (shown["rank"], shown["score"]) == (record.rank, record.score)
        expected = [record.weights, record.heads[0], *_own(record)]
        assert [each["name"] for each in shown["maps"]] == ["mean", "h 1", "encoder 2", "decoder 1"]
        for packed, weights in zip(shown["maps"], expected, strict=True):
            back = unpack(packed, weights.shape[1])
            assert np.abs(back - weights).max() <= weights.max() / 510 + 1e-7


def _own(record: AttentionRecord) -> list[np.ndarray]:
    return [own.heads[0] for own in record.self_attention.values()]


def test_hypotheses_stand_with_their_sentence(make_translation, page_of) -> None:
    several = [make_translation("a b", ["c", "d"]), make_translation("e", ["f"])]
    found = [record for i, each in enumerate(several) for record in records(each, 2 * i)]
    sentences = data_of(page_of(found))
    assert [each["number"] for each in sentences] == [0, 2]
    assert [len(each["hypotheses"]) for each in sentences] == [2, 1]
    assert data_of(page_of([])) == []


def test_a_score_without_bound_is_null(make_translation, page_of) -> None:
    [record] = records(make_translation())
    page = page_of([dataclasses.replace(record, score=-np.inf)])
    assert data_of(page)[0]["hypotheses"][0]["score"] is None


def test_the_page_refers_to_nothing_and_runs_its_own_script_only(make_translation, page_of) -> None:
    page = page_of(records(make_translation()))
    elements = Elements(page)
    for tag, attributes in elements.tags:
        assert not {"src", "href", "srcset", "action", "style", "data"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert tag not in ("link", "iframe", "object", "embed", "base", "img", "form")
    assert not re.findall(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket", page)
    [policy] = [each["content"] for _, each in elements.tags if "http-equiv" in each]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


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


def test_equal_records_give_equal_bytes(make_translation, page_of) -> None:
    found = records(make_translation())
    assert page_of(found) == page_of(found)
    assert 'data-level="piece"' in page_of(found, "piece")


def _lightness(colour: np.ndarray) -> float:
    """CIE L* of an sRGB colour in 0 to 1."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    y = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


def _colours(style: str) -> list[dict[str, np.ndarray]]:
    blocks = re.findall(r"\{[^{}]*--attention-ink[^{}]*\}", style)
    found = [dict(re.findall(r"--attention-(\w+): #(\w{6})", block)) for block in blocks]
    return [
        {name: np.array(list(bytes.fromhex(text))) / 255 for name, text in each.items()}
        for each in found
    ]


def test_the_scale_is_even_in_lightness_and_all_text_is_readable() -> None:
    light, *dark = _colours(map_style())
    assert len(dark) == 2
    assert all(np.array_equal(dark[0][name], dark[1][name]) for name in light)
    for theme in (light, dark[0]):
        shares = np.linspace(0, 1, 21)[:, None]
        lightness = [
            _lightness(each) for each in (1 - shares) * theme["paper"] + shares * theme["ink"]
        ]
        assert abs(lightness[-1] - lightness[0]) > 65
        even = np.linspace(lightness[0], lightness[-1], 21)
        assert np.abs(lightness - even).max() < 5
        assert (np.diff(lightness) * np.sign(lightness[-1] - lightness[0]) > 0).all()
        for name in ("text", "mark"):
            assert _contrast(theme[name], theme["paper"]) >= 4.5
        # The numbers in cells: paper on cells above 0.55 of full ink, else text.
        for share in shares[:, 0]:
            cell = (1 - share) * theme["paper"] + share * theme["ink"]
            assert _contrast(theme["paper" if share > 0.55 else "text"], cell) >= 3


def _contrast(one: np.ndarray, other: np.ndarray) -> float:
    """WCAG's ratio of luminances."""

    def luminance(colour: np.ndarray) -> float:
        linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        return float(linear @ np.array([0.2126, 0.7152, 0.0722])) + 0.05

    ratio = luminance(one) / luminance(other)
    return max(ratio, 1 / ratio)


def test_the_scripts_can_be_served_as_one_file() -> None:
    script = map_script()
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert script.index("unpack, mergeWords") < script.index("heatMap, thumbnail")
