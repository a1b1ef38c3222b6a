"""Wrong requests of many kinds: none is answered with 500, none gets another's translation."""

import json
import random
import time
from typing import Any

import pytest
from serve.conftest import TEXTS, Serve
from starlette.testclient import TestClient

from nmt.translation.translator import Translator

N_REQUESTS = 200
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 10**30, 1.5, float("nan"), float("inf"), "", " ", "\n", "\x00", "Is"),
    *("é" * 300, "\ud800", "<b", "<![CDATA[", "<!--", "&#x110000;", "\u202e", "auto", "en", "fr"),
    *([], {}, [[]], [""], ["Is", None], {"q": "Is"}, {"0": [1]}, {"x": 1}, [0, 4, 5], [10**6, -5]),
    *("html", "text", "word", "piece", "tiny", "../tiny", {"0": []}, {"1": [1, float("nan")]}),
)
FIELDS = (
    *("q", "source", "target", "format", "alternatives", "api_key"),
    *("model", "n_best", "attention", "prefix", "prefix_ids", "attention_rows", "unknown"),
)
PATHS = ("/translate", "/detect", "/v1/translate", "/v1/document")
GOOD = {
    "/translate": {"q": "Is", "source": "en", "target": "fr"},
    "/detect": {"q": "Is"},
    "/v1/translate": {"q": "Is"},
    "/v1/document": {"q": "Is"},
}
KINDS = (
    *("application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"),
    *("application/json; charset=utf-16", "multipart/form-data; boundary=x", "\x7f", "", "a" * 999),
)


def damaged(chance: random.Random, content: bytes) -> bytes:
    """The bytes with some changed, cut, doubled or nested."""
    changed = bytearray(content)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(changed) + 1)
        changed[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
    kind = chance.randrange(8)
    if kind == 0:
        return bytes(changed[: chance.randrange(len(changed) + 1)])
    if kind == 1:
        return b"[" * chance.randrange(100_000) + bytes(changed)
    return bytes(changed)


def bad_request(chance: random.Random, path: str) -> dict[str, Any]:
    """A request with some fields changed, in some form, perhaps damaged."""
    fields: dict[str, Any] = dict(GOOD[path])
    for _ in range(chance.randrange(1, 4)):
        fields[chance.choice(FIELDS)] = chance.choice(VALUES)
    if chance.random() < 0.2:
        fields.pop(chance.choice(list(fields)))
    how = chance.randrange(4)
    if how == 0:
        return {"data": {k: str(v).encode("utf-8", "replace") for k, v in fields.items()}}
    if how == 1:
        files = {k: (None, str(v).encode("utf-8", "replace")) for k, v in fields.items()}
        return {"files": files}
    content = json.dumps(fields).encode()
    kind = "application/json"
    if how == 3:
        content, kind = damaged(chance, content), chance.choice(KINDS)
    return {"content": content, "headers": {"content-type": kind.encode()}}


def check(answer: Any, sent: dict[str, Any]) -> None:
    shown = f"{answer.status_code} {answer.text[:300]} for {sent}"
    assert answer.status_code in (200, 400, 413, 415), shown
    if answer.status_code != 200:
        body = answer.json()
        assert list(body) == ["error"], shown
        assert "\n" not in body["error"], shown
        assert "Traceback" not in body["error"], shown
        assert len(body["error"]) < 2000, shown


@pytest.mark.parametrize("seed", range(4))
def test_bad_requests_are_refused_and_good_ones_answered(
    client: TestClient, translator: Translator, seed: int
) -> None:
    chance = random.Random(seed)
    texts = {text: translator.translate([text])[0].text for text in TEXTS}
    for number in range(N_REQUESTS // 4):
        path = chance.choice(PATHS)
        sent = bad_request(chance, path)
        check(client.post(path, **sent), sent)
        if number % 10 == 0:
            text = chance.choice(TEXTS)
            asked = {**GOOD["/translate"], "q": text}
            assert client.post("/translate", json=asked).json() == {"translatedText": texts[text]}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"prefix": "Il", "prefix_ids": [5]}, "got both, allowed: one of them"),
        ({"prefix_ids": [3]}, "prefix: got id 3, allowed: pieces of text, below "),
        ({"prefix_ids": [10**30]}, "prefix: got id 1000"),
        ({"q": ["Is", "He"], "prefix": "Il"}, "got several texts, allowed: one"),
        ({"q": "Is\nHe"}, "q: got a line break, allowed: one sentence; send a list"),
        ({"attention_rows": {"1": [1]}}, "got weights for piece 1, allowed: 0 to 0"),
        ({"attention_rows": {"0": [1]}}, "attention: got 1 weights, allowed: one for each of"),
        ({"n_best": 5}, "n_best: got 5, allowed: 1 to 4, the beam"),
        ({"model": "x"}, "model: got 'x', allowed: tiny"),
        ({"prefix_ids": [5] * 10}, "prefix: got 10 pieces, allowed: 9"),
        ({"prefix": "a " * 10}, "prefix"),
        ({"nbest": 3}, "nbest: unknown field"),
        ({"q": {}}, "q: got {}, allowed: text"),
        ({"attention_rows": 5}, "attention_rows: got 5, allowed: an object"),
    ],
)
def test_what_does_not_go_together_is_said(
    client: TestClient, asked: dict[str, Any], expected: str
) -> None:
    answer = client.post("/v1/translate", json={"q": "Is", **asked})
    assert (answer.status_code, expected in answer.json()["error"]) == (400, True), answer.text


def test_a_search_steered_over_http_is_the_translator_s(
    client: TestClient, translator: Translator
) -> None:
    [plain] = translator.translate(["He is tired."])
    ids = plain.hypotheses[0].hypothesis.ids[:2]
    row = [0.0] * (len(plain.source.ids) + 1)
    row[0] = 3.0
    rows = [{1: row, 2: row}]
    [expected] = translator.translate(["He is tired."], prefixes=[ids], attention=rows)
    asked: dict[str, Any] = {"q": "He is tired.", "prefix_ids": list(ids), "attention": "piece"}
    asked["attention_rows"] = {"1": row, "2": row}
    [translation] = client.post("/v1/translate", json=asked).json()["translations"]
    [hypothesis] = translation["hypotheses"]
    assert hypothesis["ids"] == list(expected.hypotheses[0].hypothesis.ids)
    assert hypothesis["ids"][:2] == list(ids)
    assert hypothesis["attention"]["weights"][1] == [1.0, *row[1:]]
    for weight in (-1.0, 0.0):
        asked["attention_rows"] = {"0": [weight] * len(row)}
        answer = client.post("/v1/translate", json=asked)
        assert (answer.status_code, "allowed: shares" in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/translate", {"q": "a", "attention_rows": {f"k{n}": [] for n in range(5_000)}}),
        ("/v1/translate", {"q": "a", "attention_rows": {str(n): ["x"] * 9 for n in range(1_000)}}),
        ("/v1/translate", {"q": "a", **{f"k{n}": 0 for n in range(5_000)}}),
        ("/translate", {"q": list(range(10_000)), "source": "en", "target": "fr"}),
        ("/v1/translate", {"q": "a", "prefix_ids": ["x"] * 10_000}),
    ],
)
def test_of_many_faults_a_few_are_told(
    client: TestClient, path: str, asked: dict[str, Any]
) -> None:
    answer = client.post(path, json=asked)
    assert answer.status_code == 400
    assert len(answer.text) < 2_000


def test_the_key_comes_before_what_is_wrong(serve: Serve) -> None:
    with serve(keys=["a key of some length"]) as client:
        sent = {"content": b"[", "headers": {"content-type": "application/json"}}
        assert client.post("/translate", **sent).status_code == 400  # a key may be in the body
        sent["headers"]["authorization"] = "Bearer wrong"  # type: ignore[index]
        assert client.post("/translate", **sent).status_code == 403
        for key in ("wrong", None, 5, ["a key of some length"]):
            assert client.post("/translate", json={"q": 5, "api_key": key}).status_code == 403


@pytest.mark.parametrize("charset", ["idna", "utf-7", "unicode_escape", "punycode", "latin-1"])
def test_a_body_is_utf_8(client: TestClient, charset: str) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nIs\r\n--x--\r\n'
    for value, status in ((charset, 415), ("UTF-8", 200)):
        kind = f"multipart/form-data; boundary=x; charset={value}"
        answer = client.post("/detect", content=body, headers={"content-type": kind})
        assert answer.status_code == status


def test_more_weights_than_an_answer_may_have_are_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.serve.v1._MAX_WEIGHTS", 5)
    asked = {"q": "The garden is beautiful", "attention": "piece"}
    answer = client.post("/v1/translate", json=asked)
    assert (answer.status_code, "attention" in answer.json()["error"]) == (400, True)
    assert client.post("/v1/translate", json={**asked, "attention": "none"}).status_code == 200


def test_html_is_measured_before_it_is_parsed(client: TestClient) -> None:
    asked = {**GOOD["/translate"], "q": "</" * 30_000, "format": "html"}
    started = time.monotonic()
    assert "60,000 characters" in client.post("/translate", json=asked).text
    assert time.monotonic() - started < 2
