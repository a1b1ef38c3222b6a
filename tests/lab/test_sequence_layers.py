"""The theory of layers holds: operations, connections, and the paths of a signal."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt.lab import sequence_layers as lab
from nmt.lab.architectures import connections, sequential_steps, shortest_paths

N, D = 17, 6

LAYERS = {
    "convolution": lambda: lab.Convolution(D, 5),
    "dilated": lambda: lab.DilatedConvolution(D, 3),
    "recurrence": lambda: lab.Recurrence(D),
    "self-attention": lambda: lab.SelfAttention(D, with_weights=False),
    "self-attention, with weights": lambda: lab.SelfAttention(D, with_weights=True),
    "local": lambda: lab.LocalAttention(D, 3),
}


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> lab.SequenceLayer:
    torch.manual_seed(1)
    return LAYERS[request.param]().double()


def test_each_layer_has_the_connections_of_its_kind() -> None:
    i, j = np.indices((N, N))
    expected = {
        "convolution": abs(i - j) <= 2,
        "dilated": np.isin(i - j, [0, 1, 2]),
        "recurrence": i == j,
        "self-attention": i == i,
        "local": abs(i - j) <= 3,
    }
    for name, build in LAYERS.items():
        inputs, outputs = connections(build().double(), N, D)
        np.testing.assert_array_equal(inputs, expected[name.split(",")[0]], err_msg=name)
        np.testing.assert_array_equal(outputs, (i - j == 1) & (name == "recurrence"))
    inputs, _ = connections(lab.DilatedConvolution(D, 3).above().double(), N, D)
    np.testing.assert_array_equal(np.flatnonzero(inputs[9]), [3, 6, 9])  # the kernel, spread


@pytest.mark.parametrize("n", [2, N, 28])
def test_operations_paths_and_steps_are_those_of_the_theory(
    layer: lab.SequenceLayer, n: int
) -> None:
    plainly = sdpa_kernel(SDPBackend.MATH)  # nobody counts within the fused one
    with torch.no_grad(), plainly, FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, n, D).double())
    assert counter.get_total_flops() == 2 * layer.theory.macs(n)
    paths = shortest_paths(layer, n, D)
    assert paths.longest == layer.theory.path(n)
    assert sequential_steps(layer, n, D) == layer.theory.steps(n)
    if isinstance(layer, lab.DilatedConvolution | lab.Recurrence):
        assert np.array_equal(paths.lengths > 0, np.tri(n, dtype=bool))
    for last in range(n):
        path = paths.between(0, last)
        assert (path[0], path[-1], len(path)) == (0, last, 1 + paths.lengths[last, 0])
        for hop, (place, following) in enumerate(itertools.pairwise(path)):
            assert paths.hops[hop][following, place]


def test_a_sweep_over_known_outputs_is_the_forward_pass(layer: lab.SequenceLayer) -> None:
    x = torch.randn(3, N, D).double()
    y = layer(x)
    assert y.shape == x.shape
    torch.testing.assert_close(layer.sweep(x, y), y)
    torch.testing.assert_close(y[1:2], layer(x[1:2]))


def test_with_weights_and_without_are_the_same() -> None:
    plain, weighted = LAYERS["self-attention"](), LAYERS["self-attention, with weights"]()
    weighted.load_state_dict(plain.state_dict())
    x, local = torch.randn(2, N, D), lab.LocalAttention(D, 3)
    torch.testing.assert_close(plain(x), weighted(x))
    context = local.inner(x, local.inner.init_state(lab.memory_of(x))).context
    torch.testing.assert_close(local(x), context)
