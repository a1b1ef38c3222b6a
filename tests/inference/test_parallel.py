"""Work side by side: order, errors, Ctrl-C, and how many threads it takes."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest
import torch

from nmt.inference.parallel import Check, in_parallel, n_at_once

CPU = torch.device("cpu")


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def wait_for_the_end(check: Check) -> None:
    while True:
        check()


@pytest.mark.usefixtures("three_threads")
def test_results_are_in_order_and_threads_are_divided() -> None:
    together = threading.Barrier(3)

    def work(i: int, check: Check) -> tuple[int, int]:
        together.wait(timeout=60)  # passes only with three at a time
        check()
        return i, torch.get_num_threads()

    assert n_at_once(CPU) == 3
    assert in_parallel(work, range(6), CPU) == [(i, 1) for i in range(6)]
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_one_item_has_all_threads_and_so_has_another_device() -> None:
    here = threading.current_thread()

    def work(i: int, _: Check) -> int:
        assert threading.current_thread() is here
        return i + torch.get_num_threads()

    assert in_parallel(work, [4], CPU) == [7]
    assert in_parallel(work, [], CPU) == []
    assert in_parallel(work, [4, 5], torch.device("cuda")) == [7, 8]


@pytest.mark.usefixtures("three_threads")
def test_an_error_ends_what_runs_beside_it() -> None:
    begun: list[int] = []

    def work(i: int, check: Check) -> None:
        begun.append(i)
        if i == 0:
            raise ValueError("of the first")
        wait_for_the_end(check)

    with pytest.raises(ValueError, match="of the first"):
        in_parallel(work, range(50), CPU)
    assert len(begun) <= 4
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_ctrl_c_ends_it() -> None:
    def work(i: int, check: Check) -> None:
        if i == 2:
            os.kill(os.getpid(), signal.SIGINT)
        wait_for_the_end(check)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            in_parallel(work, range(50), CPU)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert torch.get_num_threads() == 3
