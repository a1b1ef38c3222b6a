"""Batches of a search, and work side by side: order, errors, Ctrl-C, number of threads."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.batched import search_batches
from nmt.translation.parallel import CheckCancelled, divide_threads, n_workers, parallel_map

CPU = torch.device("cpu")


@pytest.fixture(params=[3])
def n_threads(request: pytest.FixtureRequest):
    """Threads of torch for this thread, of which each that begins later has a share."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    assert n_workers(CPU) == 1  # nothing is divided unless a process says so
    divide_threads()
    yield request.param
    torch.set_num_threads(before)


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.parametrize(
    ("n_threads", "share", "workers"), [(1, 1, 1), (19, 2, 8)], indirect=["n_threads"]
)
def test_a_process_divides_its_threads(n_threads: int, share: int, workers: int) -> None:
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (n_threads, share)
    assert n_workers(CPU) == workers


@pytest.mark.usefixtures("n_threads")
def test_results_are_in_order_and_threads_are_divided() -> None:
    together = threading.Barrier(3)

    def work(i: int, check: CheckCancelled) -> tuple[int, int, int]:
        together.wait(timeout=60)  # passes only with three at a time
        check()
        return i, torch.get_num_threads(), threads_of_a_new_thread()

    assert n_workers(CPU) == 3
    assert parallel_map(work, range(6), n_workers(CPU)) == [(i, 1, 1) for i in range(6)]
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (3, 1)


@pytest.mark.usefixtures("n_threads")
def test_one_item_has_all_threads_and_so_has_another_device() -> None:
    here = threading.current_thread()

    def work(i: int, _: CheckCancelled) -> int:
        assert threading.current_thread() is here
        return i + torch.get_num_threads()

    assert parallel_map(work, [4], n_workers(CPU)) == [7]
    assert parallel_map(work, [], n_workers(CPU)) == []
    assert parallel_map(work, [4, 5], n_workers(torch.device("cuda"))) == [7, 8]


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_or_ctrl_c_ends_what_runs_beside_it(error) -> None:
    begun: list[int] = []

    def work(i: int, check: CheckCancelled) -> None:
        begun.append(i)
        if i == 0 and error is ValueError:
            raise ValueError
        if i == 0:
            os.kill(os.getpid(), signal.SIGINT)
        while True:
            check()

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(error):
            parallel_map(work, range(50), n_workers(CPU))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert len(begun) <= 4
    assert torch.get_num_threads() == 3


def test_long_texts_are_batched_by_their_pieces() -> None:
    sizes = [3, 0, 900, 100, 101, 7, 0, 5, 1000]
    assert list(search_batches(sizes, 4)) == [[8], [2], [4, 3, 5], [7, 0]]
    assert [len(batch) for batch in search_batches([50] * 10, 4)] == [4, 4, 2]
    batches = list(search_batches([200] * 3, 4, by_area=True))
    assert [len(batch) for batch in batches] == [1, 1, 1]  # 4 * (100 / 200)^2


@pytest.mark.parametrize("by_area", [False, True])
@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 9), st.integers(1, 5))
def test_each_text_is_in_one_batch_of_some_worker(by_area, sizes, batch_size, n_parts) -> None:
    batches = list(search_batches(sizes, batch_size, n_parts, by_area))
    order = [i for batch in batches for i in batch]
    assert sorted(order) == [i for i, size in enumerate(sizes) if size]
    assert [sizes[i] for i in order] == sorted((s for s in sizes if s), reverse=True)
    assert all(0 < len(batch) <= batch_size for batch in batches)
    if n_parts <= len(order) <= n_parts * batch_size and len(order) % n_parts == 0:
        assert len(batches) >= n_parts
