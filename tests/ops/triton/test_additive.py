"""Additive attention in Triton against the textbook's expression in fp64.

Without a GPU the kernels run in Triton's interpreter (tests/conftest.py).
"""

import importlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton, which PyTorch for CUDA brings, is not installed")
kernels = importlib.import_module("nmt.ops.triton.additive")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = (3, 5, 7, 11)  # B, S, K, M: one block of each
LARGE = (2, 139, 269, 263)  # several blocks of each, the last ones not full
T = 3
# Half a unit of the last place; the interpreter does not round to bf16, it cuts off.
LAST_PLACE = {
    torch.float32: 1e-6,
    torch.bfloat16: 2**-8 if DEVICE == "cuda" else 2**-7,
    torch.float16: 2**-11,
}


class Example:
    """One decoder step's inputs; positions are kept at random, but for the first row's, if asked.

    Keys and values hold NaN where nothing may look.
    """

    def __init__(self, sizes: tuple[int, ...] = SMALL, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        self.B, self.S, self.K, self.M = B, S, K, M = sizes
        self.keep = (torch.rand(B, S) < 0.7).to(DEVICE)
        self.keep[:, S // 2] = True
        self.keep[0, 1:] = False  # one position, hence weight 1
        self.query = torch.randn(B, K).to(DEVICE, dtype)
        self.keys = torch.randn(B, S, K).to(DEVICE, dtype)
        self.values = torch.randn(B, S, M).to(DEVICE, dtype)
        self.v = torch.randn(K).to(DEVICE) / K**0.5
        self.grad_context = torch.randn(B, M).to(DEVICE, dtype)
        self.grad_weights: Tensor | None = None
        for x in (self.keys, self.values):
            x[~self.keep] = torch.nan

    def forward(self) -> tuple[Tensor, Tensor]:
        context, weights = kernels.attend(self.query, self.keys, self.values, self.keep, self.v)
        return context, weights

    def backward(self) -> tuple[Tensor, Tensor]:
        _, weights = self.forward()
        grad_query, grad_energies = kernels.attend_backward(
            self.grad_context,
            self.query,
            self.keys,
            self.values,
            self.v,
            weights,
            self.grad_weights,
        )
        return grad_query, grad_energies

    def everything(self) -> list[Tensor]:
        return [*self.forward(), *self.backward()]

    def textbook(self) -> tuple[list[Tensor], list[Tensor]]:
        """Context and weights; gradients of query and scores."""
        query = self.query.double().requires_grad_()
        keys, values = (x.double().nan_to_num() for x in (self.keys, self.values))
        scores = textbook_scores(query.unsqueeze(1), keys, self.v.double()).squeeze(1)
        empty = ~self.keep.any(dim=1, keepdim=True)
        weights = scores.masked_fill(~self.keep & ~empty, -torch.inf).softmax(-1) * self.keep
        context = torch.einsum("bs,bsm->bm", weights, values)
        total = (context * self.grad_context.double()).sum()
        if self.grad_weights is not None:
            total = total + (weights * self.grad_weights.double()).sum()
        grads = torch.autograd.grad(total, [query, scores])
        return [context.detach(), weights.detach()], list(grads)


def textbook_scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(B, T, S) of (B, T, K) and (B, S, K)."""
    return torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1)) @ v


def assert_near(got: Tensor, expected: Tensor, scale: float = 1.0) -> None:
    """Within 3e-6 `scale`, which is the sums' in fp32, and what rounding to the dtype adds."""
    rtol = LAST_PLACE[got.dtype]
    torch.testing.assert_close(got.double(), expected, rtol=1.01 * rtol, atol=3e-6 * scale)


def assert_same(got: list[Tensor], expected: list[Tensor]) -> None:
    """Bit by bit."""
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", LAST_PLACE)
@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_a_look_is_the_textbooks(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    example = Example(sizes, dtype)
    context, weights = example.forward()
    (expected_context, expected_weights), _ = example.textbook()
    assert (context.dtype, weights.dtype) == (dtype, torch.float32)
    assert_near(context, expected_context)
    assert_near(weights, expected_weights)
    assert (weights[~example.keep] == 0).all()


@pytest.mark.parametrize("dtype", LAST_PLACE)
@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_its_gradients_are_the_textbooks(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    example = Example(sizes, dtype)
    grad_query, grad_energies = example.backward()
    _, (expected_query, expected_energies) = example.textbook()
    assert (grad_query.dtype, grad_energies.dtype) == (dtype, torch.float32)
    scale = example.M**0.5  # a product with a value is as large
    assert_near(grad_query, expected_query, scale)
    assert_near(grad_energies, expected_energies, scale)
    assert (grad_energies[~example.keep] == 0).all()


@pytest.mark.parametrize("dtype", LAST_PLACE)
@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_the_gradients_of_keys_and_v_are_the_textbooks(
    sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    B, S, K, _ = sizes
    example = Example(sizes, dtype)
    grad_energies = torch.randn(B, T, S, device=DEVICE)
    queries = torch.randn(B, T, K, device=DEVICE).to(dtype)
    keys = torch.randn(B, S, K, device=DEVICE).to(dtype)
    grad_keys, grad_v = kernels.keys_backward(grad_energies, queries, keys, example.v)
    inputs = [keys.double().requires_grad_(), example.v.double().requires_grad_()]
    scores = textbook_scores(queries.double(), *inputs)
    expected_keys, expected_v = torch.autograd.grad(scores, inputs, grad_energies.double())
    assert (grad_keys.dtype, grad_v.dtype) == (dtype, torch.float32)
    assert_near(grad_keys, expected_keys, T**0.5)
    assert_near(grad_v, expected_v, (B * T * S) ** 0.5)


@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_weights_may_have_a_gradient_of_their_own(sizes: tuple[int, ...]) -> None:
    example = Example(sizes)
    example.grad_weights = torch.randn(example.B, example.S, device=DEVICE)
    _, (expected_query, expected_energies) = example.textbook()
    grad_query, grad_energies = example.backward()
    assert_near(grad_query, expected_query, example.M**0.5)
    assert_near(grad_energies, expected_energies, example.M**0.5)
    wide = torch.stack([example.grad_weights, torch.full_like(grad_energies, torch.nan)], dim=2)
    example.grad_weights = wide[..., 0]
    assert_same(list(example.backward()), [grad_query, grad_energies])


def test_v_may_be_narrow_too() -> None:
    example = Example(SMALL, torch.bfloat16)
    example.v = example.v.bfloat16()
    (context, weights), (grad_query, _) = example.textbook()
    assert_near(example.forward()[0], context)
    assert_near(example.forward()[1], weights)
    assert_near(example.backward()[0], grad_query, example.M**0.5)
    grad_energies = torch.randn(3, T, 5, device=DEVICE)
    queries = torch.randn(3, T, 7, device=DEVICE)
    keys = example.keys.nan_to_num()
    _, grad_v = kernels.keys_backward(grad_energies, queries, keys, example.v)
    expected = kernels.keys_backward(grad_energies, queries, keys, example.v.float())[1]
    assert torch.equal(grad_v, expected.bfloat16())


def test_a_row_that_may_look_nowhere_gets_zeros_and_gives_none() -> None:
    example = Example()
    example.keep[1] = False
    got = example.everything()
    for tensor in got:
        assert (tensor[1] == 0).all()
    results, grads = example.textbook()
    for tensor, expected in zip(got, [*results, *grads], strict=True):
        assert_near(tensor, expected, 4)


def test_what_is_not_kept_is_not_read() -> None:
    example = Example()
    with_nan = example.everything()
    for x in (example.keys, example.values):
        x[~example.keep] = 1000.0
    assert_same(example.everything(), with_nan)
    assert all(tensor.isfinite().all() for tensor in with_nan)


@pytest.mark.parametrize("more", [1, 131])
def test_padding_changes_no_bit(more: int) -> None:
    example = Example()
    context, weights, grad_query, grad_energies = example.everything()
    nothing = torch.zeros(example.B, more, device=DEVICE)
    example.keep = torch.cat([example.keep, nothing.bool()], dim=1)
    for name in ("keys", "values"):
        x = getattr(example, name)
        padding = x.new_full((example.B, more, x.shape[2]), torch.nan)
        setattr(example, name, torch.cat([x, padding], dim=1))
    longer = [
        context,
        torch.cat([weights, nothing], dim=1),
        grad_query,
        torch.cat([grad_energies, nothing], dim=1),
    ]
    assert_same(example.everything(), longer)


def test_a_batch_is_its_rows_bit_by_bit() -> None:
    example = Example()
    together = example.everything()
    names = ("keep", "query", "keys", "values", "grad_context")
    whole = {name: getattr(example, name) for name in names}
    for b in range(example.B):
        for name in names:
            setattr(example, name, whole[name][b : b + 1])
        assert_same(example.everything(), [tensor[b : b + 1] for tensor in together])


def time_major(x: Tensor) -> Tensor:
    """The same numbers, the first two dimensions swapped in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def a_part(x: Tensor) -> Tensor:
    """The same numbers, inside a tensor with more of everything around them."""
    around = torch.full([size + 2 for size in x.shape], 1, dtype=x.dtype, device=x.device)
    inside = around[tuple(slice(1, -1) for _ in x.shape)]
    return inside.copy_(x)


def from_behind(x: Tensor) -> Tensor:
    """The same numbers, the last dimension not in one piece."""
    return x.unsqueeze(-1).expand(*x.shape, 2).contiguous()[..., 0]


@pytest.mark.parametrize("lay", [time_major, a_part, from_behind])
def test_any_strides(lay: Callable[[Tensor], Tensor]) -> None:
    example = Example()
    expected = example.everything()
    weights = expected[1]
    names = ("keep", "query", "keys", "values", "grad_context")
    for name in names:
        x = getattr(example, name)
        setattr(example, name, lay(x))
        assert getattr(example, name).stride() != x.stride()
    example.v = from_behind(example.v)
    assert_same(example.everything(), expected)
    arguments = (example.query, example.keys, example.values, example.v, lay(weights))
    assert_same(kernels.attend_backward(example.grad_context, *arguments), expected[2:])

    grad_energies = torch.randn(example.B, T, example.S, device=DEVICE)
    queries = torch.randn(example.B, T, example.K, device=DEVICE)
    keys = example.keys.nan_to_num()
    once = kernels.keys_backward(grad_energies, queries, keys.contiguous(), example.v.contiguous())
    assert_same(kernels.keys_backward(lay(grad_energies), lay(queries), lay(keys), example.v), once)


def test_results_are_written_where_they_are_wanted() -> None:
    example = Example()
    expected = example.everything()
    room = torch.full((example.B, 3, 64), 7.0, device=DEVICE)
    context, weights = room[:, 1, 1 : 1 + example.M], room[:, 2, 2 : 2 + example.S]
    inputs = (example.query, example.keys, example.values)
    got = kernels.attend(*inputs, example.keep, example.v, out=(context, weights))
    assert got[0] is context
    assert got[1] is weights
    assert_same(list(got), expected[:2])
    assert (room == 7).sum() == room.numel() - context.numel() - weights.numel()

    room = torch.full((example.B, 3, 64), 7.0, device=DEVICE)
    of_query, of_scores = room[:, 1, 1 : 1 + example.K], room[:, 2, 2 : 2 + example.S]
    got = kernels.attend_backward(
        example.grad_context, *inputs, example.v, weights, out=(of_query, of_scores)
    )
    assert got[0] is of_query
    assert got[1] is of_scores
    assert_same(list(got), expected[2:])
    assert (room == 7).sum() == room.numel() - of_query.numel() - of_scores.numel()


def test_rows_may_share_their_keys() -> None:
    example = Example()
    for name in ("keys", "values", "keep"):
        x = getattr(example, name)[1:2]
        setattr(example, name, x.expand(example.B, *x.shape[1:]))
    shared = example.everything()
    for name in ("keys", "values", "keep"):
        setattr(example, name, getattr(example, name).contiguous())
    assert_same(shared, example.everything())


def test_the_same_bits_every_time() -> None:
    sizes = LARGE if DEVICE == "cuda" else SMALL  # the interpreter runs one program at a time
    first, second = (Example(sizes).everything() for _ in range(2))
    assert_same(first, second)
    B, S, K, _ = sizes
    example = Example(sizes)
    grad_energies = torch.randn(B, T, S, device=DEVICE)
    queries = torch.randn(B, T, K, device=DEVICE)
    arguments = (grad_energies, queries, example.keys.nan_to_num(), example.v)
    assert_same(kernels.keys_backward(*arguments), kernels.keys_backward(*arguments))


@pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # the interpreter's numpy
@pytest.mark.parametrize("query", [-3e4, -20.0, 20.0, 3e4])
def test_a_saturated_tanh_is_one_and_has_no_slope(query: float) -> None:
    example = Example()
    example.query.fill_(query)
    (context, weights), (grad_query, _) = example.textbook()
    got = example.everything()
    assert_near(got[0], context)
    assert_near(got[1], weights)
    assert_near(got[2], grad_query)
    assert got[2].abs().max() < 1e-6


def test_scores_may_be_huge_the_last_the_largest() -> None:
    example = Example(LARGE)
    example.v *= 1e5
    example.keep[:, -1] = True
    example.keys[:, -1] = 30 * example.v.sign() - example.query
    example.values[:, -1] = torch.randn(example.B, example.M, device=DEVICE)
    context, weights = example.forward()
    assert (weights[:, -1] == 1).all()
    assert (weights[:, :-1] == 0).all()
    assert torch.equal(context, example.values[:, -1])


def test_a_query_that_is_no_number_is_not_hidden() -> None:
    example = Example()
    example.query[1, 2] = torch.nan
    context, weights = example.forward()
    assert context[1].isnan().all()
    assert weights[1][example.keep[1]].isnan().all()
    assert context[2].isfinite().all()
