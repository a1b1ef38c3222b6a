"""The experiment on complexity: what it counts is the same at every run and grows as it should."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from nmt.errors import ConfigError
from nmt.lab import costs
from nmt.lab.complexity import (
    ALL_WEIGHTS,
    ATTENTION,
    CONVOLUTION,
    DILATED,
    LOCAL,
    LOCAL_WEIGHTS,
    RECURRENCE,
    ComplexityOptions,
    run,
)
from nmt.lab.perform import perform

SMALL = ("longest=256", "size=37", "window=3", "repetitions=1")


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "_LEAST_SECONDS", 0.0)
        yield


def small() -> dict[str, Any]:
    return run(ComplexityOptions(longest=256, size=37, window=3, repetitions=1)).numbers()


@pytest.fixture(scope="module")
def found(quick: None) -> dict[str, Any]:
    return small()


def test_all_that_is_not_timed_is_the_same_at_every_run(found: dict[str, Any]) -> None:
    again = small()
    assert again["timed"] != found["timed"]
    assert {**again, "timed": None} == {**found, "timed": None}


def test_memory_grows_with_the_table_of_weights_and_not_without(found: dict[str, Any]) -> None:
    slopes = {name: each["bytes_slope"]["forward"] for name, each in found["layers"].items()}
    for name in (CONVOLUTION, RECURRENCE, ATTENTION, LOCAL):
        assert slopes[name] == pytest.approx(1, abs=0.01)
    assert 0.5 < slopes[DILATED] <= 1.01  # its padding is the same at every length
    for name in (ALL_WEIGHTS, LOCAL_WEIGHTS):
        assert slopes[name] > 1.2


def test_one_local_query_costs_the_same_over_any_source(found: dict[str, Any]) -> None:
    queries = found["one_query"]
    assert queries["global"]["macs_slope"] == pytest.approx(1)
    assert queries["local"]["macs_slope"] == pytest.approx(0, abs=1e-9)


def test_attention_costs_more_than_recurrence_from_n_equal_to_d_on(found: dict[str, Any]) -> None:
    where = found["macs_crossings"][f"{ATTENTION} / {RECURRENCE}"]
    assert where == pytest.approx(37, rel=0.03)  # straight lines between 32 and 64 miss a little


def test_paths_and_steps_that_were_followed_are_those_of_the_theory() -> None:
    result = run(ComplexityOptions(longest=256, size=37, window=3, repetitions=1))
    assert result.followed == [32, 64, 128]
    for name, theory in result.theory.items():
        assert result.paths[name] == [theory.path(n) for n in result.followed]
        assert result.steps[name] == [theory.steps(n) for n in result.followed]


def test_the_files_and_the_summary(tmp_path: Path) -> None:
    report = perform("complexity", SMALL, tmp_path)
    text = "\n".join(report.summary)
    assert "n = 256" in text
    assert "S = 2,048" in text
    for name in ComplexityOptions().layers(2):
        assert text.count(f"\n{name}  ") == 3
    height, width, _ = imread(report.paths[1]).shape
    assert 800 <= width <= 1600
    assert 400 <= height <= 1600


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("longest=1000", "got 1000, allowed: 32 times a power of 2"),
        ("longest=64", "got 64, allowed: >= 256"),
        ("kernel=4", "got 4, allowed: an odd number"),
        ("window=0", "got 0, allowed: > 0"),
    ],
)
def test_bad_options_are_refused(option: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        perform("complexity", [option], tmp_path)
