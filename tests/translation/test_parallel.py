"""Work side by side: order, errors, Ctrl-C, and how many threads it takes."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from nmt.translation.parallel import CheckCancelled, divide_threads, n_workers, parallel_map

CPU = torch.device("cpu")


@pytest.fixture
def three_threads() -> Iterator[None]:
    """Three threads of torch for this thread, one for each that begins later."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    divide_threads()
    yield
    torch.set_num_threads(before)


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.parametrize(("n_threads", "share", "workers"), [(1, 1, 1), (3, 1, 3), (19, 2, 8)])
def test_a_process_divides_its_threads_and_work_takes_them_all(
    n_threads: int, share: int, workers: int
) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        assert n_workers(CPU) == 1  # nothing is divided unless a process says so
        divide_threads()
        assert (torch.get_num_threads(), threads_of_a_new_thread()) == (n_threads, share)
        assert n_workers(CPU) == workers
    finally:
        torch.set_num_threads(before)


def wait_for_the_end(check: CheckCancelled) -> None:
    while True:
        check()


@pytest.mark.usefixtures("three_threads")
def test_results_are_in_order_and_threads_are_divided() -> None:
    together = threading.Barrier(3)

    def work(i: int, check: CheckCancelled) -> tuple[int, int, int]:
        together.wait(timeout=60)  # passes only with three at a time
        check()
        return i, torch.get_num_threads(), threads_of_a_new_thread()

    assert n_workers(CPU) == 3
    before = threads_of_a_new_thread()
    assert parallel_map(work, range(6), n_workers(CPU)) == [(i, 1, 1) for i in range(6)]
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (3, before)


@pytest.mark.usefixtures("three_threads")
def test_one_item_has_all_threads_and_so_has_another_device() -> None:
    here = threading.current_thread()

    def work(i: int, _: CheckCancelled) -> int:
        assert threading.current_thread() is here
        return i + torch.get_num_threads()

    assert parallel_map(work, [4], n_workers(CPU)) == [7]
    assert parallel_map(work, [], n_workers(CPU)) == []
    assert parallel_map(work, [4, 5], n_workers(torch.device("cuda"))) == [7, 8]


@pytest.mark.usefixtures("three_threads")
def test_an_error_ends_what_runs_beside_it() -> None:
    begun: list[int] = []

    def work(i: int, check: CheckCancelled) -> None:
        begun.append(i)
        if i == 0:
            raise ValueError("of the first")
        wait_for_the_end(check)

    with pytest.raises(ValueError, match="of the first"):
        parallel_map(work, range(50), n_workers(CPU))
    assert len(begun) <= 4
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_ctrl_c_ends_it() -> None:
    def work(i: int, check: CheckCancelled) -> None:
        if i == 2:
            os.kill(os.getpid(), signal.SIGINT)
        wait_for_the_end(check)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            parallel_map(work, range(50), n_workers(CPU))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert torch.get_num_threads() == 3
