"""Work in turn: the order, the warm-up, and quotients taken round by round."""

import time
from functools import partial

import pytest
import torch

from nmt.bench.timing import Timed, in_turn, median_of_quotients, ratio

CPU = torch.device("cpu")


def test_every_round_does_everything_once_after_a_round_that_does_not_count() -> None:
    done: list[str] = []
    timed = in_turn({name: partial(done.append, name) for name in "AB"}, 3, CPU)
    assert "".join(done) == "ABABABAB"
    assert {name: len(own.seconds) for name, own in timed.items()} == {"A": 3, "B": 3}


def test_seconds_are_those_of_the_work() -> None:
    timed = in_turn({"long": partial(time.sleep, 0.03), "short": lambda: None}, 2, CPU)
    assert timed["long"].shortest >= 0.03
    assert timed["short"].median < 0.03


def test_a_ratio_is_taken_within_the_rounds() -> None:
    # A slow spell in the second round hits both; medians taken apart would say 4.
    own, base = Timed((1.0, 10.0, 2.0)), Timed((2.0, 20.0, 8.0))
    assert ratio(own, base) == 2
    assert ratio(own, own) == 1
    assert (own.median, own.shortest, own.longest) == (2.0, 1.0, 10.0)


def test_rounds_must_match() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        median_of_quotients([1.0], [1.0, 2.0])
