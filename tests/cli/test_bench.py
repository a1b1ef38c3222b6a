"""`nmt bench`: what it prints, what it says of the load, and one line for what is wrong."""

import json
import sys

import pytest
from cli.helpers import nmt, refusal

from nmt.bench import load
from nmt.bench.load import Reading


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many cores others keep busy, to be set by the test; time passes with every look."""
    cores = [0.0]
    now = [0.0]

    def read() -> Reading:
        now[0] += 1
        return Reading(at=now[0], busy_seconds=now[0] * cores[0], own_seconds=0.0)

    monkeypatch.setattr(load, "read_cpu", read)
    return cores


def test_quick_json_says_everything_by_name(others: list[float]) -> None:
    parts = ("training", "memory", "decoding", "latency")
    result = nmt("bench", *parts, "--quick", "--rounds", "1", "--profile", "--json")
    report = json.loads(result.stdout)
    assert set(report) == {"machine", "settings", "clean", "sections", "profile"}
    assert report["clean"] is True
    assert report["machine"]["threads"] == 1
    assert (report["settings"]["hidden"], report["settings"]["rounds"]) == (16, 1)
    titles = [section["title"].split(",")[0] for section in report["sections"]]
    assert titles[:4] == ["training", "decoding", "decoding", "one sentence of 5 pieces to 7"]
    assert titles[4:] == ["memory of an update"] * (sys.platform == "linux")
    for section in report["sections"]:
        assert set(section) == {"title", "unit", "rows", "others", "timed", "notes", "clean"}
        for row in section["rows"]:
            assert set(row) == {"what", "value", "low", "high", "ratio", "ceiling", "also"}
    assert report["profile"]["rows"][0]["share"] > 0


def test_a_busy_machine_is_said_and_fails_only_if_asked(others: list[float]) -> None:
    others[0] = 0.4
    quick = ("bench", "training", "--quick", "--rounds", "1")
    result = nmt(*quick)
    assert "(not clean: 40 % of a core was busy elsewhere)" in result.stdout
    rows = [line for line in result.stdout.splitlines() if "of the ceiling" in line]
    assert rows
    assert all(row.endswith("not clean") for row in rows)
    nmt(*quick, "--strict", code=1)
    others[0] = 0
    nmt(*quick, "--strict")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["speed"], "part: got 'speed', allowed: training, decoding, latency, memory"),
        (["run"], "part 'run': give the run directory with --run"),
        (["training", "--sizes", "huge"], "--sizes: got 'huge', allowed: standard"),
        (["training", "--set", "hiden=3"], "did you mean 'hidden'?"),
        (["training", "--device", "tpu"], "device: got 'tpu', allowed: auto, cpu"),
        (["run", "--quick", "--run", "nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], words: str) -> None:
    assert words in refusal("bench", *arguments)
