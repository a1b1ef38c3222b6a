"""Measuring: bytes that are known beforehand, and times that are medians."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nmt.lab import costs
from nmt.lab.costs import (
    FORWARD,
    KEPT,
    TRAINING,
    Costs,
    Work,
    bytes_kept,
    cost_rows,
    measure,
    median_seconds,
    one_thread,
    peak_tensor_bytes,
)

N = 13
ONE = N * 4  # bytes of a vector


@pytest.fixture
def x() -> Tensor:
    return torch.arange(N, dtype=torch.float32, requires_grad=True)


@pytest.mark.parametrize(
    ("compute", "vectors"),
    [
        (lambda x: x + 1, 1),
        (lambda x: (x + 1) + 1, 2),
        (lambda x: ((x + 1) + 1) + 1, 2),  # the first is gone when the third comes
        (lambda x: (x + 1)[:3].unsqueeze(0), 1),  # views hold nothing of their own
        (lambda x: x.view(1, N), 0),
        (lambda x: (x + 1).mul_(2), 1),
        (lambda x: [x + 1, x + 2, x + 3], 3),
        (lambda x: [x.add_(1), x.mul_(2)], 0),
        (lambda x: torch.stack([x, x]).sum(), 2 + 1 / N),
    ],
)
def test_the_peak_is_what_lives_at_one_time(
    x: Tensor, compute: Callable[[Tensor], object], vectors: float
) -> None:
    def work() -> object:
        with torch.no_grad():
            return compute(x)

    assert peak_tensor_bytes(work) == round(vectors * ONE)
    assert peak_tensor_bytes(work) == round(vectors * ONE)


def test_the_peak_of_a_backward_pass_counts_what_was_saved(x: Tensor) -> None:
    def training() -> object:
        return torch.autograd.grad(x.exp().sum(), x)

    # what exp gave, the sum and its gradient of one number each, and the gradient of x
    assert peak_tensor_bytes(training) == 2 * ONE + 8


@pytest.mark.parametrize(
    ("compute", "vectors"),
    [
        (lambda x: x + 1, 0),
        (lambda x: x * x, 1),  # x itself
        (lambda x: x.exp(), 1),
        (lambda x: x.exp().exp(), 2),
        (lambda x: x.exp().square(), 1),  # the same tensor, kept by both
    ],
)
def test_what_is_kept_for_the_backward_pass(
    x: Tensor, compute: Callable[[Tensor], Tensor], vectors: int
) -> None:
    assert bytes_kept(lambda: compute(x), []) == vectors * ONE


def test_what_is_shared_does_not_count(x: Tensor) -> None:
    other = torch.ones(N, requires_grad=True)
    assert bytes_kept(lambda: x * other, []) == 2 * ONE
    assert bytes_kept(lambda: x * other, [other]) == ONE


def test_the_time_is_the_median_and_the_first_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, taken = [0.0], iter([50.0, 3.0, 1.0, 9.0])
    monkeypatch.setattr("time.process_time", lambda: clock[0])

    def work() -> None:
        clock[0] += next(taken)

    assert median_seconds(work, 3) == 3


def test_short_work_is_repeated_until_it_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        clock[0] += costs._LEAST_SECONDS / 9.5

    median_seconds(work, 3)
    assert len(calls) == 1 + 10


def test_one_thread_and_then_as_before() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_measuring_gives_every_cost_at_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_LEAST_SECONDS", 0.0)
    weight = torch.ones(5, 5, requires_grad=True)

    def work_of(n: int) -> Work:
        x = torch.ones(n, 5, requires_grad=True)
        return Work(lambda: x @ weight, [x], [weight])

    found = measure([2, 4, 8], work_of, lambda n: 25 * n, repetitions=2)
    assert found.sizes == [2, 4, 8]
    assert found.macs == [50, 100, 200]
    assert found.memory_bytes == {FORWARD: [40, 80, 160], KEPT: [40, 80, 160]}
    assert set(found.seconds) == {FORWARD, TRAINING}
    assert all(second > 0 for row in found.seconds.values() for second in row)
    assert found.counted()["macs_slope"] == pytest.approx(1)


def test_the_table_tells_memory_of_both_passes() -> None:
    seconds = {FORWARD: [0.1, 0.2, 0.4], TRAINING: [0.1, 0.2, 0.4]}
    memory = {FORWARD: [10**6, 2 * 10**6, 4 * 10**6], KEPT: [3 * 10**6, 6 * 10**6, 12 * 10**6]}
    head, row = cost_rows({"x": Costs([2, 4, 8], [1, 2, 4], memory, seconds)}, "n = 8")
    assert dict(zip(head, row, strict=True))["MB forward"] == "4.00"
    assert dict(zip(head, row, strict=True))["MB kept"] == "12.00"
