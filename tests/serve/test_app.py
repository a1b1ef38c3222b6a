"""Every route: limits, keys, headers, the queue, the description of the API."""

import concurrent.futures
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace

import pytest
import torch
from evaluation.test_confidence import CALIBRATION
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.conftest import TEXTS, Serve, Slow
from starlette.testclient import TestClient

import nmt
from nmt.serve import schema
from nmt.translation.translator import Translator

LANGS = {"source": "en", "target": "fr"}
ASKED = {"q": "Is", **LANGS}
KEY = "a key of some length"


def post(client: TestClient, q: object = "Is", **other: object):  # type: ignore[no-untyped-def]
    return client.post("/translate", json={**ASKED, "q": q, **other})


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_models_are_chosen_by_name_or_languages(serve: Serve, translator: Translator) -> None:
    with serve([("one", translator), ("two", translator)]) as client:
        models = client.get("/v1/models").json()
        assert [model["name"] for model in models["models"]] == ["one", "two"]
        assert models["needs_key"] is False
        for asked, name in (({"model": "two"}, "two"), (LANGS, "one")):
            assert client.post("/v1/translate", json={"q": "Is", **asked}).json()["model"] == name
        answer = client.post("/v1/translate", json={"q": "Is"})
        assert (answer.status_code, "which model?" in answer.text) == (400, True)
        answer = client.post("/v1/translate", json={"q": "Is", "model": "tow"})
        assert "model: got 'tow', allowed: one, two; did you mean 'two'?" in answer.text


def test_a_glossary_is_for_every_route(serve: Serve, translator: Translator) -> None:
    other = translator.cancelled_by(lambda: None)
    other.use_glossary({"is": "chats"})
    with serve([("terms", other)]) as client:
        asked = {"q": "He is here. Is", "n_best": 2, "prefix": "Il"}
        [answer] = client.post("/v1/translate", json=asked).json()["translations"]
        for text in (hypothesis["text"] for hypothesis in answer["hypotheses"]):
            assert text.startswith("Il")
            assert "chats" in text.lower()
        assert "chats" in post(client).json()["translatedText"].lower()


def test_the_own_api_gives_what_the_translator_gives(
    client: TestClient, translator: Translator
) -> None:
    asked = {"q": TEXTS, "n_best": 3, "attention": "piece"}
    answers = client.post("/v1/translate", json=asked).json()["translations"]
    for text, answer in zip(TEXTS, answers, strict=True):
        [expected] = translator.translate([text], n_best=3)
        assert answer["text"] == text
        assert answer["pieces"] == list(expected.source.pieces)
        for answered, candidate in zip(answer["hypotheses"], expected.hypotheses, strict=True):
            assert answered["text"] == candidate.text
            assert answered["ids"] == list(candidate.hypothesis.ids)
            assert answered["score"] == pytest.approx(candidate.hypothesis.score, abs=1e-5)
            assert answered["log_probs"] == pytest.approx(candidate.hypothesis.log_probs, abs=1e-5)
            table = answered["attention"]
            assert table["columns"] == [*expected.source.pieces, "</s>"]
            flat = [weight for row in table["weights"] for weight in row]
            assert flat == pytest.approx(
                candidate.hypothesis.attention.flatten().tolist(), abs=1e-5
            )


@settings(max_examples=30, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    st.lists(st.sampled_from([*TEXTS, " ", "\n", "\n\n", "\t", "<b>", "12", "\x00"]), min_size=1)
)
def test_the_parts_of_a_document_are_the_text(
    client: TestClient, translator: Translator, pieces: list[str]
) -> None:
    q = "".join(pieces)
    [parts] = client.post("/v1/document", json={"q": q}).json()
    assert "".join(part["text"] for part in parts) == q
    assert "".join(part["translation"] for part in parts) == nmt.translate_text(translator, q)
    for part in parts:
        assert "sentence" in part or part["translation"] == part["text"]
        if part.get("sentence") == part["text"]:
            [expected] = translator.translate([part["text"]])
            assert part["translation"] == expected.hypotheses[0].text


def test_a_document_has_its_model(serve: Serve, translator: Translator) -> None:
    with serve([("one", translator), ("two", translator)], sentences=3) as client:
        answers = client.post("/v1/document", json={"q": TEXTS[:2], "model": "two"}).json()
        assert [parts[1]["sentence"] for parts in answers] == TEXTS[:2]
        answer = client.post("/v1/document", json={"q": "Is\n" * 4, "model": "one"})
        assert (answer.status_code, "4 sentences, allowed: 3" in answer.text) == (400, True)


def test_a_right_to_left_model_says_that_it_is_not_steered(
    serve: Serve, translator: Translator
) -> None:
    other = copy(translator)
    other.tokenizers = replace(translator.tokenizers, reverse_target=True)
    with serve([("ltr", translator), ("rtl", other)]) as client:
        models = client.get("/v1/models").json()["models"]
        for model, expected in zip(models, (True, False), strict=True):
            asked = {"q": "Is", "model": model["name"], "prefix": "Il"}
            answer = client.post("/v1/translate", json=asked)
            assert (model["steerable"], answer.status_code == 200) == (expected, expected)


def test_a_calibrated_run_gives_its_confidence(
    serve: Serve, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.serve.service.find_calibration", lambda *_: CALIBRATION)
    row = [1] * (len(translator.tokenizers.src.encode("Is").ids) + 1)
    steered = ({"prefix": "Il"}, {"prefix_ids": [5]}, {"attention_rows": {"0": row}})
    with serve() as client:
        answer = client.post("/v1/translate", json={"q": TEXTS, "n_best": 3}).json()
        for fields in steered:  # not what was calibrated
            other = client.post("/v1/translate", json={"q": "Is", **fields})
            assert (other.status_code, "confidence" in other.text) == (200, False)
    monkeypatch.undo()
    for text, answered in zip(TEXTS, answer["translations"], strict=True):
        [expected] = translator.translate([text], n_best=3)
        values = [hypothesis["confidence"] for hypothesis in answered["hypotheses"]]
        assert values == pytest.approx(CALIBRATION.confidence(expected), abs=1e-4)
    with serve() as client:
        assert "confidence" not in client.post("/v1/translate", json={"q": TEXTS}).text


def test_a_sentence_that_raises_fails_alone_without_its_reason(
    serve: Serve, slow: Slow, translator: Translator
) -> None:
    with serve([("slow", slow)]) as client, concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(post, client)
        assert slow.started.wait(20)
        others = [pool.submit(post, client, q) for q in ("Is", "raise", "He is tired.")]
        wait_until(lambda: 'nmt_waiting{model="slow"} 3.0' in client.get("/metrics").text)
        slow.go.set()
        is_, bad, he = (other.result(20) for other in others)
        assert first.result(20).status_code == 200
        assert client.get("/health").status_code == 200  # the device computes
    assert (bad.status_code, bad.json()) == (500, {"error": "internal error"})
    for response, text in ((is_, "Is"), (he, "He is tired.")):
        [expected] = translator.translate([text])
        assert response.json() == {"translatedText": expected.text}
    assert len(slow.seen[1]) == 3


def test_a_full_queue_answers_429_and_a_late_answer_is_504(serve: Serve, slow: Slow) -> None:
    with (
        serve([("slow", slow)], waiting=3, seconds=1.5) as client,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(post, client)
        assert slow.started.wait(20)
        second = pool.submit(post, client, ["a", "b"])
        wait_until(lambda: 'nmt_waiting{model="slow"} 2.0' in client.get("/metrics").text)
        refused = post(client, ["c", "d"])
        assert refused.status_code == 429
        assert refused.json() == {"error": "too busy: 2 sentences wait already"}
        assert refused.headers["retry-after"] == "1"
        for late in (first, second):
            assert late.result(20).status_code == 504
            assert "no translation within 1.5 seconds" in late.result().json()["error"]
        assert 'nmt_waiting{model="slow"} 0.0' in client.get("/metrics").text
        slow.go.set()
        wait_until(lambda: post(client).status_code == 200)
    assert ["a", "b"] not in slow.seen  # cancelled while it waited


def test_a_large_body_is_413_before_it_is_parsed(serve: Serve) -> None:
    with serve(characters=10) as client:
        answer = client.post("/translate", content=b"x" * 16_505)
        assert answer.status_code == 413
        assert answer.json() == {"error": "the request is too large, allowed: 16,504 bytes"}
        assert client.post("/translate", content=b"x" * 16_504).status_code == 415


def test_a_server_with_keys_asks_for_one(serve: Serve) -> None:
    with serve(keys=["another key, which is longer", KEY]) as client:
        bearer = {"Authorization": f"Bearer {KEY}"}
        assert post(client, api_key=KEY).status_code == 200
        assert client.post("/translate", json=ASKED, headers=bearer).status_code == 200
        for key in (None, "", KEY[:-1], f"{KEY} ", "clé\u0000"):
            answer = post(client, api_key=key)
            assert answer.status_code == 403
            assert answer.json() == {"error": "this server needs a valid API key, as api_key"}
        assert client.post("/detect", json={"q": "Is"}).status_code == 403
        assert client.post("/v1/translate", json={"q": "Is"}).status_code == 403
        assert client.get("/v1/models").json()["needs_key"] is True
        for path in ("/health", "/languages", "/metrics"):
            assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("headers", "cors", "status"),
    [
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, (), 403),
        ({"Origin": "null"}, (), 403),
        ({"Origin": "http://testserver:81"}, (), 403),
        ({"Origin": "http://testserver"}, (), 200),
        ({"Origin": "https://a.example"}, ("https://a.example",), 200),
        ({"Origin": "https://b.example"}, ("https://a.example",), 403),
        ({"Origin": "https://b.example", "Host": "b.example"}, ("*",), 200),
        ({"Host": "evil.example"}, (), 403),
        ({"Host": "evil.example:5000", "Origin": "http://evil.example:5000"}, (), 403),
        ({"Host": "a.example:5000"}, ("https://a.example",), 200),
        ({"Host": "localhost:5000", "Origin": "http://localhost:5000"}, (), 200),
        ({"Host": "192.0.2.7:5000"}, (), 200),
        ({"Host": "[::1]:5000", "Origin": "http://[::1]:5000"}, (), 200),
    ],
)
def test_hosts_and_origins_are_own_or_named(
    serve: Serve, headers: dict[str, str], cors: tuple[str, ...], status: int
) -> None:
    with serve(cors=cors) as client:
        answer = client.post("/translate", data=ASKED, headers=headers)
    assert answer.status_code == status
    allowed = {headers.get("Origin"), "*"} if cors and status == 200 else {None}
    assert answer.headers.get("access-control-allow-origin") in allowed


def test_health_fails_where_a_model_cannot_compute(serve: Serve, translator: Translator) -> None:
    class Dead(Translator):
        def translate(self, *args, **keys):  # type: ignore[no-untyped-def]
            raise RuntimeError("an illegal memory access")

    dead = Dead(translator.model, translator.tokenizers, translator.device, translator.search)
    dead.device = torch.device("meta")  # whose tensors have no values
    with serve([("live", translator), ("dead", dead)]) as client:
        assert client.get("/health").status_code == 200
        assert client.post("/v1/translate", json={"q": "Is", "model": "dead"}).status_code == 500
        answer = client.get("/health")
        assert (answer.status_code, "dead" in answer.json()["error"]) == (503, True)
        assert "live" not in answer.json()["error"]


def test_every_answer_allows_a_browser_nothing_but_this_server(client: TestClient) -> None:
    for path in ("/health", "/nothing", "/metrics"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/etc/passwd", "/../pyproject.toml", "/static/../app.py", "/%2F"])
def test_no_file_is_given(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (404, {"error": "Not Found"})


def test_metrics_count_answers_by_route_and_status(client: TestClient) -> None:
    post(client, ["Is", "He"])
    post(client, "")
    client.get("/x/1")
    client.get("/x/2")
    text = client.get("/metrics").text
    for line in (
        'nmt_request_seconds_count{path="/translate",status="200"} 1.0',
        'nmt_request_seconds_count{path="/translate",status="400"} 1.0',
        'nmt_request_seconds_count{path="other",status="404"} 2.0',
        'nmt_batch_sentences_count{model="tiny"} 1.0',
        'nmt_batch_sentences_sum{model="tiny"} 2.0',
        'nmt_waiting{model="tiny"} 0.0',
    ):
        assert f"{line}\n" in text


@pytest.mark.parametrize(
    ("path", "method", "asked"),
    [
        ("/translate", "post", ASKED),
        ("/v1/translate", "post", {"q": "Is", "attention": "word"}),
        ("/v1/models", "get", None),
    ],
)
def test_the_description_is_of_the_answers(
    client: TestClient, path: str, method: str, asked: dict[str, str] | None
) -> None:
    api = client.get("/openapi.json").json()
    answer = client.request(method, path, json=asked).json()
    description = api["paths"][path][method]
    content = description["responses"]["200"]["content"]
    name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert set(answer) <= set(api["components"]["schemas"][name]["properties"])
    getattr(schema, name).model_validate(answer)
    if asked:
        body = description["requestBody"]["content"]["application/json"]["schema"]
        assert set(asked) <= set(body["properties"])
        [security] = description["security"]
        assert set(security) <= set(api["components"]["securitySchemes"])
