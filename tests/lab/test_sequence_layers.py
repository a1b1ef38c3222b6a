"""What theory says of a layer is so: its operations, and how far a signal goes."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt.lab.sequence_layers import (
    Convolution,
    DilatedConvolution,
    LocalAttention,
    Recurrence,
    SelfAttention,
    SequenceLayer,
    theory_rows,
)

N, D, KERNEL, REACH = 17, 6, 5, 3

LAYERS = {
    "convolution": lambda: Convolution(D, KERNEL),
    "dilated": lambda: DilatedConvolution(D, 3),
    "recurrence": lambda: Recurrence(D),
    "self-attention": lambda: SelfAttention(D, with_weights=False),
    "self-attention, with weights": lambda: SelfAttention(D, with_weights=True),
    "local": lambda: LocalAttention(D, REACH, with_weights=False),
    "local, with weights": lambda: LocalAttention(D, REACH, with_weights=True),
}


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> SequenceLayer:
    torch.manual_seed(1)
    return LAYERS[request.param]()


@pytest.mark.parametrize("n", [2, N])
def test_the_operations_are_those_that_torch_counts(layer: SequenceLayer, n: int) -> None:
    plainly = sdpa_kernel(SDPBackend.MATH)  # nobody counts within the fused one
    with torch.no_grad(), plainly, FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, n, D))
    assert counter.get_total_flops() == 2 * layer.theory.macs(n)


def test_a_sequence_gives_a_sequence_whatever_the_batch(layer: SequenceLayer) -> None:
    x = torch.randn(3, N, D)
    together = layer(x)
    assert together.shape == x.shape
    torch.testing.assert_close(together[1:2], layer(x[1:2]))


@pytest.mark.parametrize("n", [2, 8, N])
def test_the_path_is_how_many_layers_connect_both_ends(layer: SequenceLayer, n: int) -> None:
    if isinstance(layer, Recurrence):
        assert layer.theory.path(n) == n  # through the steps of one layer
        return
    stack = [layer.double()]
    while len(stack) < layer.theory.path(n):
        stack.append(stack[-1].above())
    for used in (stack, stack[:-1]):
        x = torch.randn(1, n, D, dtype=torch.float64, requires_grad=True)
        y = x
        for each in used:
            y = each(y)
        (gradient,) = torch.autograd.grad(y[0, -1].sum(), x)
        assert bool(gradient[0, 0].any()) == (used is stack)


def test_a_dilated_convolution_never_sees_a_later_position() -> None:
    layer, x = DilatedConvolution(D, 3, dilation=2), torch.randn(1, N, D)
    other = x.clone()
    other[:, 9:] = torch.randn(1, N - 9, D)
    torch.testing.assert_close(layer(x)[:, :9], layer(other)[:, :9])
    assert not torch.allclose(layer(x)[:, 9:], layer(other)[:, 9:])


def test_a_sweep_over_known_outputs_is_the_forward_pass(layer: SequenceLayer) -> None:
    x = torch.randn(2, N, D)
    y = layer(x)
    torch.testing.assert_close(layer.sweep(x, y), y)


@pytest.mark.parametrize("kind", ["self-attention", "local"])
def test_with_weights_and_without_are_the_same(kind: str) -> None:
    plain, weighted = LAYERS[kind](), LAYERS[f"{kind}, with weights"]()
    weighted.load_state_dict(plain.state_dict())
    x = torch.randn(2, N, D)
    torch.testing.assert_close(plain(x), weighted(x))


def test_the_table_of_the_paper() -> None:
    theory = {name: build().theory for name, build in LAYERS.items()}
    rows = {row[0]: row[1:] for row in theory_rows(theory, 1000)}
    assert rows["convolution"] == ("k n d²", "1", "1", "n / k", "500")
    assert rows["dilated"] == ("k n d²", "1", "1", "log_k n", "7")  # 3^6 < 1000 <= 3^7
    assert rows["recurrence"] == ("n d²", "n", "1,000", "n", "1,000")
    assert rows["self-attention"] == ("n² d", "1", "1", "1", "1")
    assert rows["local"] == ("n w d", "1", "1", "n / w", "333")
