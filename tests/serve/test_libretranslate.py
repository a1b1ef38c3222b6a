"""LibreTranslate's requests and answers; the texts are those of Translator.translate."""

import html
from copy import copy
from dataclasses import replace

import pytest
from serve.conftest import TEXTS, Serve
from starlette.testclient import TestClient

import nmt
from nmt.translation.translator import Translator

ASKED = {"source": "en", "target": "fr"}


def alone(translator: Translator, text: str, n_best: int = 1) -> list[str]:
    return [h.text for h in translator.translate([text], n_best)[0].hypotheses]


def test_a_string_gives_a_string_and_a_list_a_list(
    client: TestClient, translator: Translator
) -> None:
    expected = [alone(translator, text)[0] for text in TEXTS]
    assert client.post("/translate", json={"q": TEXTS, **ASKED}).json() == {
        "translatedText": expected
    }
    for text, one in zip(TEXTS, expected, strict=True):
        assert client.post("/translate", json={"q": text, **ASKED}).json()["translatedText"] == one


def test_sentences_are_translated_one_by_one(client: TestClient, translator: Translator) -> None:
    first, second, third = TEXTS[:3]
    text = f"{first}  {second}\n\n  \n{third}\n"
    answer = client.post("/translate", json={"q": text, **ASKED}).json()["translatedText"]
    one, two, three = (alone(translator, sentence)[0] for sentence in TEXTS[:3])
    assert answer == f"{one}  {two}\n\n  \n{three}\n"


@pytest.mark.parametrize("kind", ["json", "data", "files"])
def test_json_and_both_kinds_of_forms_are_read(
    client: TestClient, translator: Translator, kind: str
) -> None:
    fields = {"q": "Où, 50 % & more?", **ASKED, "alternatives": "2", "whatever": "1"}
    if kind == "files":
        sent = {"files": {name: (None, value) for name, value in fields.items()}}
    else:
        sent = {kind: fields}
    best, *others = alone(translator, fields["q"], 3)
    answer = client.post("/translate", **sent)  # type: ignore[arg-type]
    assert answer.json() == {"translatedText": best, "alternatives": others}


def test_alternatives_are_as_many_as_the_beam_has(
    client: TestClient, translator: Translator
) -> None:
    best, *others = alone(translator, TEXTS[0], translator.search.beam)
    for n in (len(others), len(others) + 1, 10**30):
        answer = client.post("/translate", json={"q": TEXTS[0], **ASKED, "alternatives": n})
        assert answer.json() == {"translatedText": best, "alternatives": others}


@pytest.mark.parametrize(
    "pair", ["en-US fr-FR", "EN FR", "eng fra", "en_gb fr", "En-Latn-us fr-CA"]
)
def test_a_language_tag_means_its_language(client: TestClient, pair: str) -> None:
    source, target = pair.split()
    expected = client.post("/translate", json={"q": "Is", **ASKED}).json()
    tagged = {"q": "Is", "source": source, "target": target}
    assert client.post("/translate", json=tagged).json() == expected


def test_the_exact_tag_is_preferred(serve: Serve, translator: Translator) -> None:
    british, tokenizers = copy(translator), translator.tokenizers
    source = copy(tokenizers.src)
    source.lang = "en-GB"
    british.tokenizers = replace(tokenizers, src=source)
    with serve([("any", translator), ("british", british)]) as client:
        for code, name in (("en-GB", "british"), ("en", "any"), ("en-US", "any"), ("EN", "any")):
            asked = {"q": "Is", "source": code, "target": "fr"}
            assert client.post("/v1/translate", json=asked).json()["model"] == name


def test_a_list_has_a_list_of_alternatives_for_each_text(
    client: TestClient, translator: Translator
) -> None:
    asked = {"q": TEXTS[:2], **ASKED, "alternatives": 1}
    answer = client.post("/translate", json=asked).json()
    expected = [alone(translator, text, 2) for text in TEXTS[:2]]
    assert answer["translatedText"] == [best for best, _ in expected]
    assert answer["alternatives"] == [[other] for _, other in expected]


def test_tags_of_html_stay_and_text_is_escaped(client: TestClient, translator: Translator) -> None:
    text = (
        '<!DOCTYPE html><!-- a --><p class="x">He is <b>tired</b> &amp;&nbsp;'
        "cats.<br/></p><script>1 < 2</script>\n<i>a &lt;"
    )
    asked = {"q": text, **ASKED, "format": "html"}
    answer = client.post("/translate", json=asked).json()["translatedText"]
    assert answer == nmt.translate_text(translator, text, "html")
    assert answer.startswith('<!DOCTYPE html><!-- a --><p class="x">')
    assert "<br/></p><script>1 < 2</script>\n<i>" in answer
    assert (answer.count("<b>"), answer.count("</b>")) == (1, 1)
    last = html.escape(alone(translator, "a <")[0], quote=False)
    assert answer.endswith(last)


def test_the_only_source_language_is_given_without_confidence(client: TestClient) -> None:
    assert client.post("/detect", data={"q": "Hi"}).json() == [
        {"confidence": 0.0, "language": "en"}
    ]
    detected = {"confidence": 0.0, "language": "en"}
    for q, expected in (("Is", detected), (["Is", "He"], [detected, detected])):
        asked = {"q": q, "source": "auto", "target": "fr"}
        assert client.post("/translate", json=asked).json()["detectedLanguage"] == expected


def test_languages_and_health(client: TestClient) -> None:
    languages = [{"code": "en", "name": "English", "targets": ["fr"]}]
    assert client.get("/languages").json() == languages
    assert client.post("/languages", data={}).json() == languages  # as libretranslatepy asks
    assert client.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"q": ""}, "q: got '', allowed: text that"),
        ({"q": 5}, "q: got 5, allowed: text"),
        ({"q": []}, "q: got []"),
        ({"q": None}, "q: got null"),
        ({"target": "en"}, "en to en is not supported; allowed: en to fr"),
        ({"target": "f\nr"}, "en to f\\nr is not supported; allowed: en to fr"),
        ({"source": "de"}, "de to fr is not supported"),
        ({"format": "pdf"}, "format: got 'pdf', allowed: 'text' or 'html'"),
        ({"q": ["Is", ""]}, "q: got '', allowed: text that"),
        ({"alternatives": -1}, "alternatives: got -1, allowed: >= 0"),
        ({"q": "x" * 5001}, "q: got 5,001 characters, allowed: 5,000"),
        ({"q": "A cat.\n" * 201}, "q: got 201 sentences, allowed: 200"),
    ],
)
def test_what_is_wrong_is_said_with_400(
    client: TestClient, changed: dict[str, object], expected: str
) -> None:
    answer = client.post("/translate", json={"q": "Is", **ASKED, **changed})
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    assert expected in answer.json()["error"]


def test_a_missing_field_is_named(client: TestClient) -> None:
    answer = client.post("/translate", json={})
    assert answer.status_code == 400
    for name in ("q", "source", "target"):
        assert f"{name}: missing" in answer.json()["error"]


def test_two_source_languages_are_not_told_apart(serve: Serve, translator: Translator) -> None:
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
