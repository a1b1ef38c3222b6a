"""Every route: limits, keys, headers, the queue, the description of the API."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from evaluation.test_confidence import CALIBRATION
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.conftest import TEXTS
from starlette.testclient import TestClient
from translation.small import turned

import nmt

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


def test_two_models_are_chosen_by_name_or_languages(serve, translator) -> None:
    with serve([("one", translator), ("two", translator)]) as client:
        models = client.get("/v1/models").json()
        assert [model["name"] for model in models["models"]] == ["one", "two"]
        assert models["needs_key"] is False
        for asked, name in (({"model": "two"}, "two"), (LANGS, "one")):
            assert client.post("/v1/translate", json={"q": "Is", **asked}).json()["model"] == name
        for asked, text in (({}, "which model?"), ({"model": "tow"}, "did you mean 'two'?")):
            answer = client.post("/v1/translate", json={"q": "Is", **asked})
            assert (answer.status_code, text in answer.text) == (400, True)


def test_a_glossary_is_for_every_route(serve, translator) -> None:
    other = translator.cancelled_by(lambda: None)
    other.use_glossary({"is": "chats"})
    with serve([("terms", other)]) as client:
        asked = {"q": "He is here. Is", "n_best": 2, "prefix": "Il"}
        [answer] = client.post("/v1/translate", json=asked).json()["translations"]
        for text in (hypothesis["text"] for hypothesis in answer["hypotheses"]):
            assert text.startswith("Il")
            assert "chats" in text.lower()
        assert "chats" in post(client).json()["translatedText"].lower()


def test_the_own_api_gives_what_the_translator_gives(client, translator) -> None:
    asked = {"q": TEXTS, "n_best": 3, "attention": "piece"}
    answers = client.post("/v1/translate", json=asked).json()["translations"]
    for text, answer in zip(TEXTS, answers, strict=True):
        [expected] = translator.translate([text], n_best=3)
        assert (answer["text"], answer["pieces"]) == (text, list(expected.source.pieces))
        for answered, output in zip(answer["hypotheses"], expected.hypotheses, strict=True):
            candidate, table = output.hypothesis, answered["attention"]
            assert (answered["text"], answered["ids"]) == (output.text, list(candidate.ids))
            assert answered["score"] == pytest.approx(candidate.score, abs=1e-5)
            assert answered["log_probs"] == pytest.approx(candidate.log_probs, abs=1e-5)
            assert table["columns"] == [*expected.source.pieces, "</s>"]
            np.testing.assert_allclose(table["weights"], candidate.attention, atol=1e-5)


PIECES = st.sampled_from([*TEXTS, " ", "\n", "\n\n", "\t", "<b>", "12", "\x00"])


@settings(max_examples=10, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.lists(PIECES, min_size=1))
def test_the_parts_of_a_document_are_the_text(client, translator, pieces) -> None:
    q = "".join(pieces)
    [parts] = client.post("/v1/document", json={"q": q}).json()
    assert "".join(part["text"] for part in parts) == q
    assert "".join(part["translation"] for part in parts) == nmt.translate_text(translator, q)
    for part in parts:
        assert "sentence" in part or part["translation"] == part["text"]
        if part.get("sentence") == part["text"]:
            [expected] = translator.translate([part["text"]])
            assert part["translation"] == expected.hypotheses[0].text


def test_a_document_has_its_model_and_no_file_is_given(serve, translator) -> None:
    with serve([("one", translator), ("two", translator)], sentences=3) as client:
        for q, status in (("Is", 200), ("Is\n" * 4, 400)):
            asked = {"q": q, "model": "two"}
            assert client.post("/v1/document", json=asked).status_code == status
        for path in ("/etc/passwd", "/static/../app.py", "/%2F"):
            assert client.get(path).status_code == 404


def test_a_right_to_left_model_says_that_it_is_not_steered(serve, translator) -> None:
    with serve([("ltr", translator), ("rtl", turned(translator))]) as client:
        models = client.get("/v1/models").json()["models"]
        for model, expected in zip(models, (True, False), strict=True):
            asked = {"q": "Is", "model": model["name"], "prefix": "Il"}
            answer = client.post("/v1/translate", json=asked)
            assert (model["steerable"], answer.status_code == 200) == (expected, expected)


def test_a_calibrated_run_gives_its_confidence(serve, translator, monkeypatch) -> None:
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


def test_a_failure_hides_its_reason_and_health_tells_the_device(serve, translator, slow) -> None:
    slow.go.set()
    with serve([("live", translator), ("dead", slow)]) as client:
        for device, status in ((slow.device, 200), (torch.device("meta"), 503)):
            slow.device = device  # the tensors of "meta" have no values
            answer = client.post("/v1/translate", json={"q": "raise", "model": "dead"})
            assert (answer.status_code, answer.json()) == (500, {"error": "internal error"})
            health = client.get("/health")
            assert (health.status_code, "dead" in health.text) == (status, status == 503)
            assert "live" not in health.text


def test_a_full_queue_answers_429_and_a_late_answer_is_504(serve, slow) -> None:
    limits = {"waiting": 3, "seconds": 1.5}
    with serve([("slow", slow)], **limits) as client, ThreadPoolExecutor() as pool:
        first = pool.submit(post, client)
        assert slow.started.wait(20)
        second = pool.submit(post, client, ["a", "b"])
        wait_until(lambda: 'nmt_waiting{model="slow"} 2.0' in client.get("/metrics").text)
        refused = post(client, ["c", "d"])
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert [late.result(20).status_code for late in (first, second)] == [504, 504]
        assert 'nmt_waiting{model="slow"} 0.0' in client.get("/metrics").text
        slow.go.set()
        wait_until(lambda: post(client).status_code == 200)
    assert ["a", "b"] not in slow.seen  # cancelled while it waited


def test_a_large_body_is_413_before_it_is_parsed(serve) -> None:
    with serve(characters=10) as client:
        for size, status in ((16_505, 413), (16_504, 415)):
            assert client.post("/translate", content=b"x" * size).status_code == status


def test_a_server_with_keys_asks_for_one(serve) -> None:
    with serve(keys=["another key, which is longer", KEY]) as client:
        bearer = {"Authorization": f"Bearer {KEY}"}
        assert post(client, api_key=KEY).status_code == 200
        assert client.post("/translate", json=ASKED, headers=bearer).status_code == 200
        for key in (None, "", KEY[:-1], f"{KEY} ", "clé\u0000"):
            answer = post(client, api_key=key)
            assert (answer.status_code, list(answer.json())) == (403, ["error"])
        for path in ("/detect", "/v1/translate"):
            assert client.post(path, json={"q": "Is"}).status_code == 403
        assert client.get("/v1/models").json()["needs_key"] is True
        for path in ("/health", "/languages", "/metrics"):
            assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("headers", "cors", "status"),
    [
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, (), 403),
        ({"Origin": "null"}, (), 403),
        ({"Origin": "http://testserver:81"}, (), 403),
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
def test_hosts_and_origins_are_own_or_named(serve, headers, cors, status) -> None:
    with serve(cors=cors) as client:
        answer = client.post("/translate", data=ASKED, headers=headers)
    assert answer.status_code == status
    allowed = {headers.get("Origin"), "*"} if cors and status == 200 else {None}
    assert answer.headers.get("access-control-allow-origin") in allowed


def test_every_answer_allows_a_browser_nothing_but_this_server(client) -> None:
    for path in ("/health", "/nothing", "/metrics"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"


def test_metrics_count_answers_by_route_and_status(client) -> None:
    post(client, ["Is", "He"])
    post(client, "")
    client.get("/x/1")
    client.get("/x/2")
    text = client.get("/metrics").text
    for line in (
        'request_seconds_count{path="/translate",status="200"} 1.0',
        'request_seconds_count{path="/translate",status="400"} 1.0',
        'request_seconds_count{path="other",status="404"} 2.0',
        'batch_sentences_count{model="tiny"} 1.0',
        'batch_sentences_sum{model="tiny"} 2.0',
    ):
        assert f"\nnmt_{line}\n" in text
