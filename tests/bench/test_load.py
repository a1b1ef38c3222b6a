"""Timing: work in turn, quotients round by round, and the load of others, ours taken off."""

import os
from functools import partial
from pathlib import Path

import pytest
import torch

from nmt.bench.load import Reading, Watch, read_cpu
from nmt.bench.timing import Timed, in_turn, speedup


def test_every_round_does_everything_once_after_one_that_does_not_count() -> None:
    done: list[str] = []
    work = {name: partial(done.append, name) for name in "AB"}
    timed = in_turn(work, 3, torch.device("cpu"))
    assert "".join(done) == "ABABABAB"
    assert {name: len(own.seconds) for name, own in timed.items()} == {"A": 3, "B": 3}


def test_ratios_are_taken_within_rounds_and_figures_are_medians() -> None:
    # A slow spell in the second round hits both; medians taken apart would say 4.
    own, base = Timed((1.0, 10.0, 2.0)), Timed((2.0, 20.0, 8.0))
    assert (speedup(own, base), speedup(own, own)) == (2, 1)
    assert own.figures() == (2.0, 1.0, 10.0)
    assert own.figures(1e3) == (2e3, 1e3, 1e4)
    assert own.rates(20) == (10.0, 2.0, 20.0)
    with pytest.raises(ValueError, match=r"shorter|longer"):
        speedup(Timed((1.0,)), Timed((1.0, 2.0)))


@pytest.mark.parametrize(
    ("line", "ticks"),
    # user nice system IDLE IOWAIT irq softirq steal, and guests, who are in user already
    [
        ("cpu  100 20 30 9999 8888 4 5 6 70 80", 165),
        ("cpu0 1 2 3 4 5 6 7 8", None),
        ("cpu 1", None),
    ],
)
def test_all_but_idle_and_waiting_is_busy(tmp_path: Path, line: str, ticks: int | None) -> None:
    assert read_cpu(tmp_path / "missing") is None
    (tmp_path / "stat").write_text(f"{line}\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n")
    reading = read_cpu(tmp_path)
    assert (reading is None) == (ticks is None)
    if reading is not None:
        assert reading.busy_seconds * os.sysconf("SC_CLK_TCK") == pytest.approx(ticks)


def test_own_work_is_no_load_and_a_watch_looks_back_to_its_last_look() -> None:
    readings = iter(
        [
            Reading(at=10.0, busy_seconds=100.0, own_seconds=7.0),
            Reading(at=14.0, busy_seconds=108.0, own_seconds=15.0),
            Reading(at=18.0, busy_seconds=118.0, own_seconds=23.0),
            Reading(at=19.0, busy_seconds=118.9, own_seconds=24.0),  # ticks that come late
            None,
        ]
    )
    watch = Watch(lambda: next(readings))
    assert [watch.look() for _ in range(4)] == [0, pytest.approx(0.5), 0, None]
