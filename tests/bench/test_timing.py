"""Work in turn: the order, the warm-up, and quotients taken round by round."""

import time
from functools import partial

import pytest
import torch

from nmt.bench.timing import Timed, in_turn, speedup

CPU = torch.device("cpu")


def test_every_round_does_everything_once_after_a_round_that_does_not_count() -> None:
    done: list[str] = []
    timed = in_turn({name: partial(done.append, name) for name in "AB"}, 3, CPU)
    assert "".join(done) == "ABABABAB"
    assert {name: len(own.seconds) for name, own in timed.items()} == {"A": 3, "B": 3}


def test_seconds_are_those_of_the_work() -> None:
    timed = in_turn({"long": partial(time.sleep, 0.03), "short": lambda: None}, 2, CPU)
    assert timed["long"].figures()[1] >= 0.03
    assert timed["short"].figures()[0] < 0.03


def test_a_ratio_is_taken_within_the_rounds() -> None:
    # A slow spell in the second round hits both; medians taken apart would say 4.
    own, base = Timed((1.0, 10.0, 2.0)), Timed((2.0, 20.0, 8.0))
    assert speedup(own, base) == 2
    assert speedup(own, own) == 1


def test_figures_and_rates_are_a_median_and_its_bounds() -> None:
    own = Timed((1.0, 10.0, 2.0))
    assert own.figures() == (2.0, 1.0, 10.0)
    assert own.figures(1e3) == (2e3, 1e3, 1e4)
    assert own.rates(20) == (10.0, 2.0, 20.0)


def test_rounds_must_match() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        speedup(Timed((1.0,)), Timed((1.0, 2.0)))
