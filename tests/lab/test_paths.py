"""Paths read from layers: connections are those of the layer, and lengths are the shortest."""

import itertools

import numpy as np
import pytest
import torch

from nmt.lab.paths import connections, sequential_steps, shortest_paths
from nmt.lab.sequence_layers import (
    Convolution,
    DilatedConvolution,
    LocalAttention,
    Recurrence,
    SelfAttention,
    SequenceLayer,
)

N, D = 11, 2

LAYERS = {
    "convolution": lambda: Convolution(D, 5),
    "dilated": lambda: DilatedConvolution(D, 3),
    "recurrence": lambda: Recurrence(D),
    "self-attention": lambda: SelfAttention(D, with_weights=False),
    "local": lambda: LocalAttention(D, 3, with_weights=True),
}


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> SequenceLayer:
    torch.manual_seed(1)
    return LAYERS[request.param]().double()


def test_connections_of_each_kind() -> None:
    i, j = np.indices((N, N))
    torch.manual_seed(1)
    expected = {
        "convolution": abs(i - j) <= 2,
        "dilated": np.isin(i - j, [0, 1, 2]),
        "recurrence": i == j,
        "self-attention": i == i,
        "local": abs(i - j) <= 3,
    }
    for name, build in LAYERS.items():
        inputs, outputs = connections(build().double(), N, D)
        np.testing.assert_array_equal(inputs, expected[name], err_msg=name)
        np.testing.assert_array_equal(outputs, (i - j == 1) & (name == "recurrence"))


def test_dilations_grow_by_the_kernel() -> None:
    inputs, _ = connections(DilatedConvolution(D, 3).above().double(), N, D)
    np.testing.assert_array_equal(np.flatnonzero(inputs[9]), [3, 6, 9])


@pytest.mark.parametrize("n", [2, N, 28])
def test_the_longest_path_and_the_steps_are_those_of_the_theory(
    layer: SequenceLayer, n: int
) -> None:
    assert shortest_paths(layer, n, D).longest == layer.theory.path(n)
    assert sequential_steps(layer, n, D) == layer.theory.steps(n)


def test_a_path_goes_along_connections_and_is_as_long_as_it_says(layer: SequenceLayer) -> None:
    paths = shortest_paths(layer, N, D)
    for last in range(N):
        path = paths.between(0, last)
        assert (path[0], path[-1]) == (0, last)
        assert len(path) == 1 + paths.lengths[last, 0]
        for hop, (one, next_one) in enumerate(itertools.pairwise(path)):
            assert paths.hops[hop][next_one, one]


def test_no_path_leads_back_in_time() -> None:
    for kind in ("dilated", "recurrence"):
        lengths = shortest_paths(LAYERS[kind]().double(), N, D).lengths
        assert not np.triu(lengths, 1).any()
        assert np.all(lengths[np.tril_indices(N)] > 0)
