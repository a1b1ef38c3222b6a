"""The experiment on the size of keys: its task, its counts, and what it says is so."""

import itertools

import numpy as np
import pytest
import torch

from nmt.lab import costs
from nmt.lab.key_size import KeySizeOptions, KeySizeResult, draw_memories, macs, run

SMALL = KeySizeOptions(sizes=(3, 8), draws=2, updates=2, items=5, names=7, compared=6)


@pytest.fixture(scope="module")
def result() -> KeySizeResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "_LEAST_SECONDS", 0.0)
        return run(SMALL)


def test_no_name_stands_twice_in_a_memory() -> None:
    found = draw_memories(11, SMALL, torch.Generator().manual_seed(3))
    assert found.names.shape == found.answers.shape == (11, 5)
    assert all(len(set(row)) == 5 for row in found.names.tolist())
    assert found.names.max() < 7
    assert found.answers.max() < SMALL.answers


def test_every_kind_has_numbers_at_every_size(result: KeySizeResult) -> None:
    for kind in SMALL.kinds:
        assert result.learned[kind].loss.shape == (2, 2)
        assert np.all((result.learned[kind].right >= 0) & (result.learned[kind].right <= 1))


def test_two_runs_differ_in_times_alone(result: KeySizeResult) -> None:
    again = run(SMALL)
    for kind, each in again.learned.items():
        np.testing.assert_array_equal(each.loss, result.learned[kind].loss)
        assert again.costs[kind].counted() == result.costs[kind].counted()


def test_the_counts_are_those_of_the_scores() -> None:
    n, d = 5, 7
    pairs = n * n * d
    assert macs("dot", n, d) == macs("scaled_dot", n, d) == pairs
    assert macs("general", n, d) == pairs + n * d * d
    assert macs("additive", n, d) == pairs + 2 * n * d * d


def test_additive_scores_keep_a_layer_for_every_pair(result: KeySizeResult) -> None:
    kept = {kind: each.memory_bytes[costs.KEPT] for kind, each in result.costs.items()}
    for place, d in enumerate(SMALL.sizes):
        assert kept["additive"][place] >= 4 * SMALL.compared**2 * d
        assert kept["additive"][place] > 2 * kept["dot"][place]


@pytest.mark.slow
def test_undivided_dot_products_learn_less_where_d_is_large() -> None:
    found = run(KeySizeOptions(sizes=(16, 512), draws=2, repetitions=1)).learned
    loss = {kind: each.loss.mean(axis=1) for kind, each in found.items()}
    assert loss["dot"][1] > 1.2 * loss["dot"][0]
    for one, other in itertools.permutations(("scaled_dot", "additive")):
        assert loss[one][1] < loss["dot"][1] / 2, (one, other)
