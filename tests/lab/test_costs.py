"""Measured costs: bytes known beforehand, medians of times, growth, and what experiments count."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nmt.lab import complexity, costs
from nmt.lab.costs import crossing, peak_tensor_bytes, upper_slope

N = 13
ONE = N * 4  # bytes of a vector


@pytest.mark.parametrize(
    ("compute", "vectors"),
    [
        (lambda x: x + 1, 1),
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
    compute: Callable[[Tensor], object], vectors: float
) -> None:
    x = torch.ones(N)
    with torch.no_grad():
        assert peak_tensor_bytes(lambda: compute(x)) == round(vectors * ONE)


def test_the_time_is_a_median_and_short_work_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, durations = [0.0], iter([50.0, 3.0, 1.0, 9.0, *[costs._MIN_SECONDS / 9.5] * 11])
    monkeypatch.setattr("time.process_time", lambda: clock[0])

    def work() -> None:
        clock[0] += next(durations)

    assert costs.median_seconds(work, 3) == 3  # the first, which warms up, does not count
    costs.median_seconds(work, 3)
    assert not list(durations)


def test_slopes_and_crossings_of_power_laws() -> None:
    sizes = [32, 64, 128, 256, 512]
    assert upper_slope(sizes, [3 * n**2.5 for n in sizes]) == pytest.approx(2.5, abs=1e-12)
    assert upper_slope(sizes, [9.0, 9.0, 128.0, 256.0, 512.0]) == pytest.approx(1)
    for where in (32.0, 100.0, 511.0):
        others = [n * where for n in sizes]
        assert crossing(sizes, [n**2 for n in sizes], others) == pytest.approx(where)
    assert crossing(sizes, [2.0 * n for n in sizes], sizes) == 32
    assert crossing(sizes, sizes, [2.0 * n for n in sizes]) is None
    last = crossing(sizes, [2.0, 1.0, 2.0, 1.0, 4.0], [1.0, 2.0, 1.0, 2.0, 1.0])
    assert 256 < last < 512


def test_complexity_grows_as_the_theory_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_MIN_SECONDS", 0.0)
    options = complexity.ComplexityOptions(longest=256, size=37, window=3, repetitions=1)
    result = complexity.run(options)
    attention, recurrence = complexity.ATTENTION, complexity.RECURRENCE
    numbers = result.content()
    slopes = {name: layer["bytes_slope"] for name, layer in numbers["layers"].items()}
    for name in (complexity.CONVOLUTION, recurrence, attention, complexity.LOCAL):
        assert slopes[name] == pytest.approx(1, abs=0.01)
    assert 0.5 < slopes[complexity.DILATED] <= 1.01  # its padding is the same at every length
    assert slopes[complexity.ALL_WEIGHTS] > 1.2
    where = numbers["macs_crossings"][f"{attention} / {recurrence}"]
    assert where == pytest.approx(37, rel=0.03)  # straight lines between 32 and 64 miss a little
    assert complexity.draw(result).axes
