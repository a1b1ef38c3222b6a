"""The worker: what waits is the next batch, each text gets its answer, a bad one fails alone."""

import threading
import weakref
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait

import pytest

from nmt.serve.worker import Check, QueueFullError, ShuttingDownError, Worker


class Translating:
    """Upper case; waits for `go`, and raises for the text "bad"."""

    def __init__(self) -> None:
        self.go, self.started = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []

    def __call__(self, texts: Sequence[str], options: Hashable, check: Check) -> list[str]:
        self.batches.append(list(texts))
        self.started.set()
        assert self.go.wait(10)
        if "bad" in texts:
            raise ValueError("bad")
        return [f"{text.upper()}{options}" for text in texts]


@pytest.fixture
def translating() -> Translating:
    return Translating()


@pytest.fixture
def worker(translating: Translating) -> Iterator[Worker[str]]:
    thread = Worker(translating, batch_size=5, capacity=10)
    yield thread
    translating.go.set()
    thread.close()


def busy(worker: Worker[str], translating: Translating) -> Future[str]:
    """The model is translating a first text."""
    [future] = worker.submit(["first"], 0)
    assert translating.started.wait(10)
    return future


def test_what_waits_is_the_next_batch(worker: Worker[str], translating: Translating) -> None:
    first = busy(worker, translating)
    others = [future for text in "abcdefg" for future in worker.submit([text], 0)]
    translating.go.set()
    assert first.result(10) == "FIRST0"
    assert [future.result(10) for future in others] == [f"{text}0" for text in "ABCDEFG"]
    assert translating.batches == [["first"], list("abcde"), list("fg")]


def test_texts_of_other_options_wait_for_a_batch_of_their_own(
    worker: Worker[str], translating: Translating
) -> None:
    busy(worker, translating)
    futures = [worker.submit([text], number % 2)[0] for number, text in enumerate("abcd")]
    translating.go.set()
    assert [future.result(10) for future in futures] == ["A0", "B1", "C0", "D1"]
    assert translating.batches[1:] == [["a", "c"], ["b", "d"]]


@pytest.mark.parametrize("place", range(5))
def test_a_text_that_raises_fails_alone(
    worker: Worker[str], translating: Translating, place: int
) -> None:
    busy(worker, translating)
    texts = list("abcd")
    texts.insert(place, "bad")
    futures = [worker.submit([text], 0)[0] for text in texts]
    translating.go.set()
    wait(futures, 10)
    for text, future in zip(texts, futures, strict=True):
        if text == "bad":
            with pytest.raises(ValueError, match="bad"):
                future.result()
        else:
            assert future.result() == f"{text.upper()}0"


def test_what_is_cancelled_while_it_waits_leaves_the_queue(
    worker: Worker[str], translating: Translating
) -> None:
    busy(worker, translating)
    futures = worker.submit(list("abcd"), 0)
    assert worker.n_waiting == 4
    assert futures[1].cancel()
    assert worker.n_waiting == 3
    translating.go.set()
    assert [futures[i].result(10) for i in (0, 2, 3)] == ["A0", "C0", "D0"]
    assert translating.batches[1] == ["a", "c", "d"]


def test_a_full_queue_takes_all_of_a_request_or_nothing(
    worker: Worker[str], translating: Translating
) -> None:
    busy(worker, translating)
    futures = worker.submit(["x"] * 8, 0)
    with pytest.raises(QueueFullError, match="too busy: 8 sentences wait already"):
        worker.submit(["y"] * 3, 0)
    assert worker.n_waiting == 8
    worker.submit(["z"] * 2, 0)
    futures[0].cancel()
    worker.submit(["z"], 0)


def test_an_idle_worker_takes_a_request_larger_than_the_queue(
    worker: Worker[str], translating: Translating
) -> None:
    translating.go.set()
    assert [f.result(10) for f in worker.submit(["x"] * 23, 0)] == ["X0"] * 23


def test_closing_finishes_what_runs_and_cancels_what_waits(
    worker: Worker[str], translating: Translating
) -> None:
    first = busy(worker, translating)
    [waiting] = worker.submit(["a"], 0)
    threading.Timer(0.05, translating.go.set).start()
    worker.close()
    assert first.result(0) == "FIRST0"
    with pytest.raises(CancelledError):
        waiting.result(0)
    with pytest.raises(ShuttingDownError):
        worker.submit(["b"], 0)


def test_many_clients_each_get_their_own_answers(translating: Translating) -> None:
    translating.go.set()
    worker = Worker(translating, batch_size=7, capacity=10_000)
    wrong: list[str] = []

    def ask(client: int) -> None:
        for i in range(50):
            texts = [f"t{client}-{i}-{k}" for k in range(i % 4 + 1)]
            results = [future.result(10) for future in worker.submit(texts, i % 3)]
            if results != [f"{text.upper()}{i % 3}" for text in texts]:
                wrong.append(f"{texts}: {results}")

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    worker.close()
    assert wrong == []
    assert max(map(len, translating.batches)) <= 7


def test_an_abandoned_batch_ends_before_its_next_step() -> None:
    started, n_steps = threading.Event(), [0]

    def translate(texts: Sequence[str], options: Hashable, check: Check) -> list[str]:
        started.set()
        for _ in range(10_000 if "long" in texts else 1):
            check()
            n_steps[0] += 1
            threading.Event().wait(0.001)
        return list(texts)

    worker = Worker(translate, batch_size=5, capacity=10)
    [first] = worker.submit(["long"], 0)
    assert started.wait(10)
    assert first.cancel()
    assert worker.submit(["next"], 0)[0].result(5) == "next"
    assert n_steps[0] < 5_000
    worker.close()


def test_closing_ends_a_batch_that_does_not_end() -> None:
    started = threading.Event()

    def translate(texts: Sequence[str], options: Hashable, check: Check) -> list[str]:
        started.set()
        while True:
            check()
            threading.Event().wait(0.001)

    worker = Worker(translate, batch_size=5, capacity=10)
    [future] = worker.submit(["a"], 0)
    assert started.wait(10)
    worker.close(0.1)
    assert future.cancelled()
    assert not worker.is_able  # the thread has ended


def test_a_short_text_is_translated_between_steps_of_a_long_one() -> None:
    started, go, order = threading.Event(), threading.Event(), []

    def translate(texts: Sequence[str], options: Hashable, check: Check) -> list[str]:
        started.set()
        assert go.wait(10)
        for _ in range(3):
            check()
        order.append(len(texts[0]))
        return list(texts)

    worker = Worker(translate, batch_size=5, capacity=10)
    futures = worker.submit(["x" * 3000], 0)
    assert started.wait(10)
    for size in (3000, 600, 100):
        futures += worker.submit(["y" * size], 0)
    go.set()
    wait(futures, 10)
    assert order == [100, 600, 3000, 3000]
    worker.close()


def test_long_and_short_texts_share_no_batch_and_long_ones_few(
    worker: Worker[str], translating: Translating
) -> None:
    first = busy(worker, translating)
    futures = worker.submit(["x" * 120, "a", "y" * 300, "z" * 300, "w" * 300, "b"], 0)
    translating.go.set()
    wait([first, *futures], 10)
    sizes = [[len(text) for text in batch] for batch in translating.batches[1:]]
    assert sizes == [[120, 1, 1], [300, 300], [300]]


def test_requests_take_turns(translating: Translating) -> None:
    worker = Worker(translating, batch_size=5, capacity=100)
    busy(worker, translating)
    futures = worker.submit(list("abcdefghijkl"), 0)
    futures += worker.submit(["new", "x"], 0)
    translating.go.set()
    wait(futures, 10)
    assert translating.batches[1:] == [["a", "new", "x", "b", "c"], list("defgh"), list("ijkl")]
    worker.close()


def test_after_a_slow_batch_the_next_are_smaller(
    translating: Translating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.serve.worker._SLOW_SECONDS", 0.0)
    monkeypatch.setattr("nmt.serve.worker._SLOWEST_BATCH", 2)
    worker = Worker(translating, batch_size=16, capacity=100)
    first = busy(worker, translating)
    futures = worker.submit(["x"] * 20, 0)
    translating.go.set()
    wait([first, *futures], 10)
    assert max(map(len, translating.batches)) == 2
    worker.close()


def test_the_last_places_are_for_small_requests(translating: Translating) -> None:
    worker = Worker(translating, batch_size=5, capacity=40)
    busy(worker, translating)
    worker.submit(["x"] * 20, 0)
    with pytest.raises(QueueFullError):
        worker.submit(["y"] * 12, 0)
    assert len(worker.submit(["z"] * 3, 0)) == 3
    translating.go.set()
    worker.close()


class Tensor:
    """A value whose life can be watched."""


def test_a_retry_begins_without_the_tensors_of_what_failed() -> None:
    tensors: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def translate(texts: Sequence[str], options: Hashable, check: Check) -> list[str]:
        alive.append(sum(tensor() is not None for tensor in tensors))
        tensor = Tensor()
        tensors.append(weakref.ref(tensor))
        raise RuntimeError("out of memory")

    worker = Worker(translate, batch_size=4, capacity=10)
    futures = worker.submit(list("abcd"), 0)
    wait(futures, 10)
    assert max(alive) == 0
    worker.close()


@pytest.mark.parametrize(("computes", "is_able"), [(True, True), (False, False)])
def test_a_worker_tells_whether_its_device_computes(computes: bool, is_able: bool) -> None:
    def translate(texts: Sequence[str], options: Hashable, check: Check) -> list[str]:
        raise RuntimeError("an illegal memory access")

    def compute() -> None:
        if not computes:
            raise RuntimeError("an illegal memory access")

    worker = Worker(translate, batch_size=4, capacity=10, compute=compute)
    with pytest.raises(RuntimeError):
        worker.submit(["a"], 0)[0].result(10)
    assert worker.is_able is is_able
    worker.close()
