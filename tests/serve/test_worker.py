"""The worker: what waits is the next batch, each text gets its answer, a bad one fails alone."""

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any

import pytest

from nmt.serve.worker import CheckCancelled, Decoding, QueueFullError, Worker

PLAIN = Decoding()


class Translating:
    """Upper case, in three steps; waits for `go`. "bad" raises, and "endless" never ends."""

    def __init__(self) -> None:
        self.go, self.started = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []
        self.ends: list[str] = []

    def __call__(self, texts: Sequence[str], decoding: Decoding, check: Any) -> list[Any]:
        self.batches.append(list(texts))
        self.started.set()
        assert self.go.wait(10)
        for _ in itertools.count() if "endless" in texts else range(3):
            check()
        if "bad" in texts:
            raise ValueError("bad")
        self.ends += texts
        return [f"{text.upper()}{decoding.n_best}" for text in texts]


@pytest.fixture
def translating() -> Translating:
    return Translating()


@pytest.fixture
def start(translating: Translating) -> Iterator[Callable[..., Worker]]:
    """Starts workers, busy with a `first` text as long as `translating` does not go."""
    workers = []

    def start_worker(batch_size: int = 5, capacity: int = 10, first: str = "first") -> Worker:
        worker = Worker(translating, batch_size, capacity)
        workers.append(worker)
        if not translating.go.is_set():
            worker.submit([first], PLAIN)
            assert translating.started.wait(10)
        return worker

    yield start_worker
    translating.go.set()
    for worker in workers:
        worker.close()


def results(futures: Sequence[Future[Any]]) -> list[object]:
    return [future.result(10) for future in futures]


@pytest.mark.parametrize(
    ("requests", "batches"),
    [
        ([(text, 1) for text in "abcdefg"], ["abcde", "fg"]),
        ([("a", 0), ("b", 1), ("c", 0), ("d", 1)], ["ac", "bd"]),  # of equal options
        ([("abcdefghijkl", 1), ("yz", 1)], ["ayzbc", "defgh", "ijkl"]),  # requests take turns
    ],
)
def test_what_waits_is_divided_into_batches(start, translating, requests, batches) -> None:
    worker = start(capacity=100)
    futures = [worker.submit(list(texts), Decoding(n_best)) for texts, n_best in requests]
    translating.go.set()
    for (texts, n_best), answers in zip(requests, futures, strict=True):
        assert results(answers) == [f"{text.upper()}{n_best}" for text in texts]
    assert translating.batches == [["first"], *map(list, batches)]


def test_long_and_short_texts_share_no_batch_and_long_ones_few(start, translating) -> None:
    worker = start(batch_size=8)
    futures = worker.submit(["x" * 120, "a", "y" * 300, "z" * 300, "w" * 300, "b"], PLAIN)
    translating.go.set()
    wait(futures, 10)
    sizes = [[len(text) for text in batch] for batch in translating.batches[1:]]
    assert sizes == [[120, 1, 1], [300, 300], [300]]


@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_text_that_raises_fails_alone(start, translating, place) -> None:
    worker, texts = start(), list("abcd")
    texts.insert(place, "bad")
    futures = [worker.submit([text], PLAIN)[0] for text in texts]
    translating.go.set()
    with pytest.raises(ValueError, match="bad"):
        futures.pop(place).result(10)
    assert results(futures) == [f"{text}1" for text in "ABCD"]


def test_a_full_queue_takes_all_of_a_request_or_nothing(start, translating) -> None:
    worker = start()
    futures = worker.submit(list("abcdefgh"), PLAIN)
    with pytest.raises(QueueFullError, match="too busy: 8 sentences wait already"):
        worker.submit(["y"] * 3, PLAIN)
    assert worker.n_waiting == 8
    worker.submit(["z"] * 2, PLAIN)
    assert futures.pop(1).cancel()  # what is cancelled while it waits leaves the queue
    assert worker.n_waiting == 9
    worker.submit(["z"], PLAIN)
    translating.go.set()
    assert results(futures) == [f"{letter}1" for letter in "ACDEFGH"]
    assert "b" not in itertools.chain(*translating.batches)


def test_the_last_places_are_for_small_requests(start, translating) -> None:
    worker = start(capacity=40)
    worker.submit(["x"] * 20, PLAIN)
    with pytest.raises(QueueFullError):
        worker.submit(["y"] * 12, PLAIN)
    assert len(worker.submit(["z"] * 3, PLAIN)) == 3
    translating.go.set()  # an idle worker takes more than the queue holds
    assert results(start().submit(["x"] * 23, PLAIN)) == ["X1"] * 23


def test_an_abandoned_batch_ends_before_its_next_step(start, translating) -> None:
    translating.go.set()
    worker = start()
    [future] = worker.submit(["endless"], PLAIN)
    assert translating.started.wait(10)
    assert future.cancel()
    assert results(worker.submit(["next"], PLAIN)) == ["NEXT1"]


def test_closing_ends_what_runs_and_cancels_what_waits(start, translating) -> None:
    worker = start(first="endless")
    [waiting] = worker.submit(["a"], PLAIN)
    translating.go.set()
    worker.close()
    assert waiting.cancelled()
    assert not worker.is_able  # the thread has ended


def test_a_short_text_comes_between_steps_of_a_long_one(start, translating) -> None:
    worker = start(first="x" * 2900)
    futures = [worker.submit(["y" * size], PLAIN)[0] for size in (3000, 600, 100)]
    translating.go.set()
    wait(futures, 10)
    assert [len(text) for text in translating.ends] == [100, 600, 2900, 3000]


def test_after_a_slow_batch_the_next_are_smaller(start, translating, monkeypatch) -> None:
    monkeypatch.setattr("nmt.serve.worker._SLOW_SECONDS", 0.0)
    monkeypatch.setattr("nmt.serve.worker._SLOWEST_BATCH", 2)
    futures = start(batch_size=16, capacity=100).submit(["x"] * 20, PLAIN)
    translating.go.set()
    wait(futures, 10)
    assert max(map(len, translating.batches)) == 2


def test_a_retry_begins_without_the_tensors_of_what_failed() -> None:
    tensors: list[weakref.ref[Translating]] = []
    alive: list[int] = []

    def translate(texts: Sequence[str], decoding: Decoding, check: CheckCancelled) -> list[str]:
        alive.append(sum(tensor() is not None for tensor in tensors))
        tensor = Translating()  # stands in for what a batch holds
        tensors.append(weakref.ref(tensor))
        raise RuntimeError("out of memory")

    worker = Worker(translate, batch_size=4, capacity=10)
    wait(worker.submit(list("abcd"), PLAIN), 10)
    assert max(alive) == 0
    worker.close()
