"""Requests, right and wrong: the answers are the translator's, and none is an answer 500."""

import html
import json
import random
import re
import time
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
from serve.conftest import TEXTS

import nmt
from nmt.documents.document import Document
from nmt.documents.translate import reader_of
from nmt.translation.arguments import merged_search
from nmt.translation.translator import Translator

ASKED = {"source": "en", "target": "fr"}


def alone(translator: Translator, text: str, n_best: int = 1) -> list[str]:
    document = Document(text, "text", reader_of(translator))
    return document.translated(translator.translate(document.sentences, n_best))


def test_a_string_gives_a_string_and_a_list_a_list(client, translator) -> None:
    expected = [alone(translator, text, 2) for text in TEXTS]
    answer = client.post("/translate", json={"q": TEXTS, **ASKED, "alternatives": 1}).json()
    assert answer["translatedText"] == [best for best, _ in expected]
    assert answer["alternatives"] == [[other] for _, other in expected]
    for text, (best, _) in zip(TEXTS, expected, strict=True):
        answer = client.post("/translate", json={"q": text, **ASKED}).json()
        assert answer == {"translatedText": best}


@pytest.mark.parametrize("kind", ["json", "data", "files"])
def test_json_and_both_kinds_of_forms_are_read(client, translator, kind) -> None:
    fields = {"q": "Où is 50 % & the cat?", **ASKED, "alternatives": "2", "whatever": "1"}
    best, *others = alone(translator, fields["q"], 3)
    form = {name: (None, value) for name, value in fields.items()}
    answer = client.post("/translate", **{kind: form if kind == "files" else fields})
    assert answer.json() == {"translatedText": best, "alternatives": others}


def test_alternatives_are_as_many_as_the_beam_has(client, translator) -> None:
    best, *others = alone(translator, TEXTS[0], translator.search.beam)
    for n in (len(others), len(others) + 1, 10**30):
        answer = client.post("/translate", json={"q": TEXTS[0], **ASKED, "alternatives": n})
        assert answer.json() == {"translatedText": best, "alternatives": others}


def test_a_tag_means_its_language_and_the_exact_one_is_preferred(serve, translator) -> None:
    tags = ("EN FR", "eng fra", "en_gb fr", "En-Latn-us fr-CA")
    british, tokenizers = copy(translator), translator.tokenizers
    source = copy(tokenizers.src)
    source.lang = "en-GB"
    british.tokenizers = replace(tokenizers, src=source)
    with serve([("any", translator)]) as client:
        for source, target in map(str.split, tags):
            asked = {"q": "Is", "source": source, "target": target}
            [expected] = alone(translator, "Is")
            assert client.post("/translate", json=asked).json() == {"translatedText": expected}
    with serve([("any", translator), ("british", british)]) as client:
        for code, name in (("en-GB", "british"), ("en", "any"), ("en-US", "any"), ("EN", "any")):
            asked = {"q": "Is", "source": code, "target": "fr"}
            assert client.post("/v1/translate", json=asked).json()["model"] == name


def test_tags_of_html_stay_and_text_is_escaped(client, translator) -> None:
    text = '<!-- a --><p class="x">He <b>is</b> &amp;&nbsp;cats.</p><script>1 < 2</script>a &lt;'
    asked = {"q": text, **ASKED, "format": "html"}
    answer = client.post("/translate", json=asked).json()["translatedText"]
    assert answer == nmt.translate_text(translator, text, "html")
    assert answer.startswith('<!-- a --><p class="x">')
    last = html.escape(alone(translator, "a <")[0], quote=False)
    assert answer.endswith(f"</p><script>1 < 2</script>{last}")


def test_the_only_source_language_is_given_without_confidence(client) -> None:
    detected = {"confidence": 0.0, "language": "en"}
    assert client.post("/detect", data={"q": "Hi"}).json() == [detected]
    for q, expected in (("Is", detected), (["Is", "He"], [detected, detected])):
        asked = {"q": q, "source": "auto", "target": "fr"}
        assert client.post("/translate", json=asked).json()["detectedLanguage"] == expected
    languages = [{"code": "en", "name": "English", "targets": ["fr"]}]
    assert client.get("/languages").json() == languages
    assert client.post("/languages", data={}).json() == languages  # as libretranslatepy asks
    assert client.get("/health").json() == {"status": "ok"}


def test_two_source_languages_are_not_told_apart(serve, translator) -> None:
    other, before = copy(translator), translator.tokenizers
    other.tokenizers = replace(before, src=before.tgt, tgt=before.src)
    with serve([("there", translator), ("back", other), ("again", translator)]) as client:
        assert client.get("/languages").json() == [
            {"code": "en", "name": "English", "targets": ["fr"]},
            {"code": "fr", "name": "French", "targets": ["en"]},
        ]
        answer = client.post("/detect", json={"q": "Is"})
        assert answer.status_code == 400
        assert "languages are not detected here; allowed as source: en, fr" in answer.text


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
GOOD = {path: {"q": "Is"} for path in ("/translate", "/detect", "/v1/translate", "/v1/document")}
GOOD["/translate"] |= {"source": "en", "target": "fr"}
KINDS = (
    *("application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"),
    *("application/json; charset=utf-16", "multipart/form-data; boundary=x", "\x7f", "", "a" * 999),
)


def damaged(chance: random.Random, content: bytes) -> bytes:
    """The bytes with some changed, cut or nested."""
    changed = bytearray(content)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(changed) + 1)
        changed[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
    nesting = b"[" * chance.randrange(100_000) if chance.random() < 0.1 else b""
    return nesting + changed[: chance.choice((None, chance.randrange(len(changed) + 1)))]


def bad_request(chance: random.Random, path: str) -> dict[str, Any]:
    """A request with some fields changed, in some form, perhaps damaged."""
    fields: dict[str, Any] = dict(GOOD[path])
    for _ in range(chance.randrange(1, 4)):
        fields[chance.choice(FIELDS)] = chance.choice(VALUES)
    if chance.random() < 0.2:
        fields.pop(chance.choice(list(fields)))
    encoded = {key: str(value).encode("utf-8", "replace") for key, value in fields.items()}
    content = json.dumps(fields).encode()
    kind = {"content-type": chance.choice(KINDS).encode()}
    forms: tuple[dict[str, Any], ...] = (
        {"data": encoded},
        {"files": {key: (None, value) for key, value in encoded.items()}},
        {"content": content, "headers": {"content-type": "application/json"}},
        {"content": damaged(chance, content), "headers": kind},
    )
    return chance.choice(forms)


@pytest.mark.parametrize("seed", range(2))
def test_bad_requests_are_refused_and_good_ones_answered(client, translator, seed) -> None:
    chance = random.Random(seed)
    texts = {text: alone(translator, text)[0] for text in TEXTS}
    for number in range(75):
        path = chance.choice(list(GOOD))
        sent = bad_request(chance, path)
        answer = client.post(path, **sent)
        shown = f"{answer.status_code} {answer.text[:300]} for {sent}"
        assert answer.status_code in (200, 400, 413, 415), shown
        if answer.status_code != 200:
            assert list(answer.json()) == ["error"], shown
            assert not re.search("\n|Traceback|.{2000}", answer.json()["error"]), shown
        if number % 10 == 0:
            text = chance.choice(TEXTS)
            asked = {**GOOD["/translate"], "q": text}
            assert client.post("/translate", json=asked).json() == {"translatedText": texts[text]}


TRANSLATE = [
    ({"q": ""}, "q: got '', allowed: text that"),
    ({"q": 5}, "q: got 5, allowed: text"),
    ({"q": []}, "q: got []"),
    ({"target": "f\nr"}, "en to f\\nr is not supported; allowed: en to fr"),
    ({"format": "pdf"}, "format: got 'pdf', allowed: 'text' or 'html'"),
    ({"q": ["Is", 5]}, "q: got 5, allowed: text"),
    ({"alternatives": -1}, "alternatives: got -1, allowed: >= 0"),
    ({"q": "x" * 5001}, "q: got 5,001 characters, allowed: 5,000"),
    ({"q": "A cat.\n" * 201}, "q: got 201 sentences, allowed: 200"),
    ({"q": "</" * 30_000, "format": "html"}, "60,000 characters"),  # measured before it is parsed
]
OWN = [
    ({"prefix": "Il", "prefix_ids": [5]}, "got both, allowed: one of them"),
    ({"prefix_ids": [3]}, "prefix: got id 3, allowed: pieces of text, below "),
    ({"prefix_ids": [10**30]}, "prefix: got id 1000"),
    ({"q": ["Is", "He"], "prefix": "Il"}, "got several texts, allowed: one"),
    ({"q": "Is\nHe"}, "q: got a line break, allowed: one sentence; send a list"),
    ({"attention_rows": {"1": [1]}}, "got weights for piece 1, allowed: 0 to 0"),
    ({"attention_rows": {"0": [1]}}, "attention: got 1 weights, allowed: one for each of"),
    ({"n_best": 5}, "n_best: got 5, allowed: 1 to 4, the beam"),
    ({"prefix_ids": [5] * 10}, "prefix: got 10 pieces, allowed: 9"),
    ({"prefix": "a " * 10}, "prefix"),
    ({"nbest": 3}, "nbest: unknown field"),
    ({"attention_rows": 5}, "attention_rows: got 5, allowed: an object"),
]


@pytest.mark.parametrize(
    ("path", "asked", "expected"),
    [*(("/translate", *row) for row in TRANSLATE), *(("/v1/translate", *row) for row in OWN)],
)
def test_what_is_wrong_is_said_with_400(client, path, asked, expected) -> None:
    started = time.process_time()
    answer = client.post(path, json={**GOOD[path], **asked})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert expected in answer.json()["error"]
    if asked.get("q") == "</" * 30_000:
        assert time.process_time() - started < 5


def test_a_search_steered_over_http_is_the_translator_s(client, serve, translator) -> None:
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
    for samples in (2, 9):  # without constraints, by minimum Bayes risk
        sampler = copy(translator)
        search = {"n_best": samples, "mbr": {"samples": samples}}
        sampler.search = merged_search(translator.search, search)
        with serve([("tiny", sampler)]) as other:
            answer = other.post("/v1/translate", json=asked).json()
            assert answer["translations"] == [translation]
            limits = {**ASKED, "alternatives": 3}
            assert other.post("/translate", json={"q": "He is tired.", **limits}).is_success
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
        ("/translate", {"q": list(range(10_000))}),
    ],
)
def test_of_many_faults_a_few_are_told(client, path, asked) -> None:
    answer = client.post(path, json=asked)
    assert (answer.status_code, len(answer.text) < 2_000) == (400, True)


def test_the_key_comes_before_what_is_wrong(serve) -> None:
    with serve(keys=["a key of some length"]) as client:
        sent = {"content": b"[", "headers": {"content-type": "application/json"}}
        assert client.post("/translate", **sent).status_code == 400  # a key may be in the body
        sent["headers"]["authorization"] = "Bearer wrong"  # type: ignore[index]
        assert client.post("/translate", **sent).status_code == 403
        for key in ("wrong", None, 5, ["a key of some length"]):
            assert client.post("/translate", json={"q": 5, "api_key": key}).status_code == 403


@pytest.mark.parametrize("charset", ["idna", "utf-7", "latin-1"])
def test_a_body_is_utf_8(client, charset) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nIs\r\n--x--\r\n'
    for value, status in ((charset, 415), ("UTF-8", 200)):
        kind = f"multipart/form-data; boundary=x; charset={value}"
        answer = client.post("/detect", content=body, headers={"content-type": kind})
        assert answer.status_code == status


def test_more_weights_than_an_answer_may_have_are_refused(client, monkeypatch) -> None:
    monkeypatch.setattr("nmt.serve.v1._MAX_WEIGHTS", 5)
    asked = {"q": "The garden is beautiful", "attention": "piece"}
    answer = client.post("/v1/translate", json=asked)
    assert (answer.status_code, "attention" in answer.json()["error"]) == (400, True)
    assert client.post("/v1/translate", json={**asked, "attention": "none"}).status_code == 200
