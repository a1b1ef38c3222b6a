"""The load of others: read from /proc, ours taken off, and said beside every figure."""

import os
from pathlib import Path

import pytest

from nmt.bench.load import CLEAN_BELOW, Reading, Watch, describe_load, is_clean, read_cpu


def proc_with(folder: Path, first_line: str) -> Path:
    (folder / "stat").write_text(f"{first_line}\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n")
    return folder


def load_between(*readings: Reading) -> float | None:
    reading = iter(readings)
    return Watch(lambda: next(reading)).look()


def test_all_but_idle_and_waiting_is_busy(tmp_path: Path) -> None:
    # user nice system IDLE IOWAIT irq softirq steal, and guests, who are in user already
    reading = read_cpu(proc_with(tmp_path, "cpu  100 20 30 9999 8888 4 5 6 70 80"))
    assert reading is not None
    assert reading.busy_seconds * os.sysconf("SC_CLK_TCK") == pytest.approx(165)


@pytest.mark.parametrize("line", ["cpu0 1 2 3 4 5 6 7 8", "", "cpu 1 2"])
def test_what_cannot_be_read_is_not_known(tmp_path: Path, line: str) -> None:
    assert read_cpu(tmp_path / "missing") is None
    if line:
        assert read_cpu(proc_with(tmp_path, line)) is None


def test_own_work_is_no_load_of_others() -> None:
    before = Reading(at=10.0, busy_seconds=100.0, own_seconds=7.0)
    alone = Reading(at=14.0, busy_seconds=108.0, own_seconds=15.0)
    assert load_between(before, alone) == 0
    beside = Reading(at=14.0, busy_seconds=110.0, own_seconds=15.0)
    assert load_between(before, beside) == pytest.approx(0.5)


def test_ticks_that_come_late_make_no_negative_load() -> None:
    before = Reading(at=10.0, busy_seconds=100.0, own_seconds=7.0)
    assert load_between(before, Reading(11.0, 100.9, 8.0)) == 0


def test_this_process_is_seen_as_ours() -> None:
    before = read_cpu()
    if before is None:
        pytest.skip("no /proc/stat")
    total = sum(i * i for i in range(2_000_000))
    after = read_cpu()
    assert total
    assert after is not None
    assert after.own_seconds > before.own_seconds
    assert after.busy_seconds >= before.busy_seconds


def test_a_watch_looks_back_to_its_last_look() -> None:
    readings = iter([Reading(0.0, 0.0, 0.0), Reading(2.0, 2.0, 0.0), Reading(4.0, 2.1, 0.1), None])
    watch = Watch(lambda: next(readings))
    assert watch.look() == pytest.approx(1.0)
    assert watch.look() == pytest.approx(0.0, abs=1e-9)
    assert watch.look() is None


@pytest.mark.parametrize(
    ("others", "clean", "said"),
    [
        (0.0, True, "clean: others took 0 % of a core"),
        (CLEAN_BELOW, False, "not clean: 5 % of a core was busy elsewhere"),
        (1.96, False, "not clean: 196 % of a core was busy elsewhere"),
        (None, False, "not clean: this system does not tell what others did"),
    ],
)
def test_it_is_said_in_words(others: float | None, clean: bool, said: str) -> None:
    assert is_clean(others) is clean
    assert describe_load(others) == said
