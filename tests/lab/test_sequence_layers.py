"""Layers of sequences: connections, paths, operations and measured costs agree with theory."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt.lab import complexity, costs
from nmt.lab import sequence_layers as lab
from nmt.lab.architectures import connections, sequential_steps, shortest_paths
from nmt.lab.costs import crossing, peak_tensor_bytes, upper_slope

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
def test_operations_paths_and_steps_are_those_of_the_theory(layer, n: int) -> None:
    plainly = sdpa_kernel(SDPBackend.MATH)  # nobody counts within the fused one
    with torch.no_grad(), plainly, FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, n, D).double())
    assert counter.get_total_flops() == 2 * layer.theory.macs(n)
    paths = shortest_paths(layer, n, D)
    assert paths.max_length == layer.theory.path(n)
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
    plain, weighted = (lab.SelfAttention(D, with_weights) for with_weights in (False, True))
    weighted.load_state_dict(plain.state_dict())
    x, local = torch.randn(2, N, D), lab.LocalAttention(D, 3)
    torch.testing.assert_close(plain(x), weighted(x))
    context = local.inner(x, local.inner.init_state(lab.memory_of(x))).context
    torch.testing.assert_close(local(x), context)


@pytest.mark.parametrize(
    ("compute", "vectors"),
    [
        (lambda x: x + 1, 1),
        (lambda x: ((x + 1) + 1) + 1, 2),  # the first is gone when the third comes
        (lambda x: (x + 1)[:3].unsqueeze(0), 1),  # views hold nothing of their own
        (lambda x: x.view(1, 13), 0),
        (lambda x: (x + 1).mul_(2), 1),
        (lambda x: [x + 1, x + 2, x + 3], 3),
        (lambda x: [x.add_(1), x.mul_(2)], 0),
        (lambda x: torch.stack([x, x]).sum(), 2 + 1 / 13),
    ],
)
def test_the_peak_is_what_lives_at_one_time(compute, vectors: float) -> None:
    x = torch.ones(13)
    with torch.no_grad():
        assert peak_tensor_bytes(lambda: compute(x)) == round(vectors * 13 * 4)


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
