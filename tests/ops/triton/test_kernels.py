"""Additive attention and the GRU's gates in Triton against the textbooks' expressions in fp64.

Without a GPU the kernels run in Triton's interpreter (tests/conftest.py).
"""

import importlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton, which PyTorch for CUDA brings, is not installed")
additive = importlib.import_module("nmt.ops.triton.additive")
gru = importlib.import_module("nmt.ops.triton.gru")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = (3, 5, 7, 11)  # B, S, K, M: one block of each
LARGE = (2, 139, 269, 263)  # several blocks of each, the last ones not full
T = 3
# Half a unit of the last place; the interpreter does not round to bf16, it cuts off.
LAST_PLACE = {
    torch.float32: 2e-6,
    torch.bfloat16: 2**-8 if DEVICE == "cuda" else 2**-7,
    torch.float16: 2**-11,
}
CASES = pytest.mark.parametrize(
    ("sizes", "dtype"), [*((SMALL, dtype) for dtype in LAST_PLACE), (LARGE, torch.bfloat16)]
)


def _assert_near(result: Tensor, expected: Tensor, scale: float = 1.0) -> None:
    """Within 3e-6 `scale`, which is the sums' in fp32, and what rounding to the dtype adds."""
    rtol = 1.01 * LAST_PLACE[result.dtype]
    torch.testing.assert_close(result.double(), expected, rtol=rtol, atol=3e-6 * scale)


def _assert_same(results: list[Tensor], expected: list[Tensor]) -> None:
    """Bit by bit."""
    for one, other in zip(results, expected, strict=True):
        assert torch.equal(one, other)


class Example:
    """The inputs of a decoder step: of a look, and of the gradients of the keys.

    Positions are kept at random, but one in the first row and none in the last. Keys and values
    hold NaN where nothing may look.
    """

    def __init__(self, sizes: tuple[int, ...] = SMALL, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        self.B, self.S, self.K, self.M = B, S, K, M = sizes
        keep = torch.rand(B, S) < 0.7
        keep[:, S // 2] = True
        keep[0, 1:], keep[-1] = False, B == 2
        self.inputs: dict[str, Tensor] = {
            "query": torch.randn(B, K).to(DEVICE, dtype),
            "keys": torch.randn(B, S, K).to(DEVICE, dtype),
            "values": torch.randn(B, S, M).to(DEVICE, dtype),
            "keep": keep.to(DEVICE),
            "v": torch.randn(K).to(DEVICE) / K**0.5,
            "grad_context": torch.randn(B, M).to(DEVICE, dtype),
            "grad_weights": torch.randn(B, S, device=DEVICE),
            "grad_energies": torch.randn(B, T, S, device=DEVICE),
            "queries": torch.randn(B, T, K).to(DEVICE, dtype),
        }
        for name in ("keys", "values"):
            self.inputs[name][~self.inputs["keep"]] = torch.nan

    def results(self) -> list[Tensor]:
        """Context, weights; gradients of query and energies; gradients of keys and v."""
        query, keys, values, keep, v, *grads, grad_energies, queries = self.inputs.values()
        context, weights = additive.attend(query, keys, values, keep, v)
        look = query, keys, values, v, weights
        backward = additive.attend_backward(grads[0], *look, grads[1])
        of_keys = additive.keys_backward(grad_energies, queries, keys.nan_to_num(), v)
        return [context, weights, *backward, *of_keys]

    def textbook(self) -> list[Tensor]:
        """The same in fp64."""
        x = {name: tensor.nan_to_num() for name, tensor in self.inputs.items()}
        keep = x.pop("keep")
        x = {name: tensor.double().requires_grad_() for name, tensor in x.items()}
        scores = (torch.tanh(x["query"].unsqueeze(1) + x["keys"]) @ x["v"]).requires_grad_()
        empty = ~keep.any(dim=1, keepdim=True)
        weights = scores.masked_fill(~keep & ~empty, -torch.inf).softmax(-1) * keep
        context = torch.einsum("bs,bsm->bm", weights, x["values"])
        total = (context * x["grad_context"]).sum() + (weights * x["grad_weights"]).sum()
        backward = torch.autograd.grad(total, [x["query"], scores], retain_graph=True)
        energies = torch.tanh(x["queries"].unsqueeze(2) + x["keys"].unsqueeze(1)) @ x["v"]
        of_keys = torch.autograd.grad(energies, [x["keys"], x["v"]], x["grad_energies"])
        return [context.detach(), weights.detach(), *backward, *of_keys]


@CASES
def test_a_look_and_its_gradients_are_the_textbooks(
    sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    """What is not kept is not read; a row that may look nowhere gets zeros and gives none."""
    example = Example(sizes, dtype)
    results = example.results()
    B, S, _, M = sizes
    narrow, wide = dtype, torch.float32
    assert [x.dtype for x in results] == [narrow, wide, narrow, wide, narrow, wide]
    scales = (1, 1, M**0.5, M**0.5, T**0.5, (B * T * S) ** 0.5)
    for result, expected, scale in zip(results, example.textbook(), scales, strict=True):
        _assert_near(result, expected, 2 * scale)
    keep = example.inputs["keep"]
    for result in (results[1], results[3]):
        assert (result[~keep] == 0).all()
    if sizes == SMALL:
        example.inputs["v"] = example.inputs["v"].to(dtype)  # may be narrow too
        results = example.results()
        assert results[5].dtype == dtype
        _assert_near(results[0], example.textbook()[0])


def test_padding_and_other_rows_change_no_bit() -> None:
    """Nor does a second time, nor keys that rows share."""
    example = Example()
    expected = example.results()
    _assert_same(example.results(), expected)
    inputs = dict(example.inputs)
    for b in range(3):
        example.inputs = {n: x if n == "v" else x[b : b + 1] for n, x in inputs.items()}
        _assert_same(example.results()[:5], [x[b : b + 1] for x in expected[:5]])
    for more in (1, 131):
        for name, dim, fill in (("keys", 1, torch.nan), ("values", 1, torch.nan), ("keep", 1, 0)):
            shape = list(inputs[name].shape)
            shape[dim] = more
            padding = inputs[name].new_full(shape, fill)
            example.inputs = example.inputs | {name: torch.cat([inputs[name], padding], dim)}
        for name in ("query", "v", "grad_context", "queries"):
            example.inputs[name] = inputs[name]
        for name in ("grad_weights", "grad_energies"):
            example.inputs[name] = torch.nn.functional.pad(inputs[name], (0, more))
        results = example.results()
        for i, longer in ((1, 1), (3, 1), (4, 1)):
            assert (results[i].narrow(longer, 5, more) == 0).all()
            results[i] = results[i].narrow(longer, 0, 5)
        _assert_same(results[:4], expected[:4])
    one = {
        name: inputs[name][1:2].expand(3, *inputs[name].shape[1:]) for name in ("keys", "values")
    }
    example.inputs = {**inputs, **one, "keep": inputs["keep"][1:2].expand(3, 5)}
    shared = example.results()
    example.inputs = {name: x.contiguous() for name, x in example.inputs.items()}
    _assert_same(shared, example.results())


def _time_major(x: Tensor) -> Tensor:
    """The same numbers, the first two dimensions swapped in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1) if x.dim() > 1 else x


def _a_part(x: Tensor) -> Tensor:
    """The same numbers, inside a tensor with more of everything around them."""
    around = torch.full([size + 2 for size in x.shape], 1, dtype=x.dtype, device=x.device)
    return around[tuple(slice(1, -1) for _ in x.shape)].copy_(x)


def _from_behind(x: Tensor) -> Tensor:
    """The same numbers, the last dimension not in one piece."""
    return x.unsqueeze(-1).expand(*x.shape, 2).contiguous()[..., 0]


@pytest.mark.parametrize("lay", [_time_major, _a_part, _from_behind])
def test_any_strides(lay: Callable[[Tensor], Tensor]) -> None:
    example = Example()
    expected = example.results()
    example.inputs = {name: lay(x) for name, x in example.inputs.items()}
    _assert_same(example.results(), expected)
    gates = _gates((3, 7), torch.float32)
    _assert_same(_step([lay(x) for x in gates]), _step(gates))


def _room(*tensors: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A tensor full of 7, and places in it for results like these."""
    room = torch.full((len(tensors[0]), 5, 64), 7.0, device=DEVICE)
    return room, tuple(room[:, i, 1 : 1 + x.shape[1]] for i, x in enumerate(tensors))


def test_results_are_written_where_they_are_wanted() -> None:
    x = Example().inputs
    _, *others = inputs = [x[name] for name in ("query", "keys", "values", "keep", "v")]
    expected = list(additive.attend(*inputs))
    look = x["grad_context"], x["query"], *others[:2], x["v"], expected[1]
    expected += additive.attend_backward(*look)
    room, out = _room(*expected)
    results = [
        *additive.attend(*inputs, out=out[:2]),
        *additive.attend_backward(*look, out=out[2:]),
    ]
    gates = _gates((3, 7), torch.float32)
    expected_step = _step(gates)
    gate_room, gate_out = _room(*expected_step)
    step = [*gru.gates_forward(*gates[:3], out=gate_out[:2])]
    step += gru.gates_backward(gates[3], gate_out[1], gates[2], out=gate_out[2:])
    assert all(one is place for one, place in zip([*results, *step], out + gate_out, strict=True))
    _assert_same([*results, *step], [*expected, *expected_step])
    for space, tensors in ((room, expected), (gate_room, expected_step)):
        assert (space == 7).sum() == space.numel() - sum(x.numel() for x in tensors)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # the interpreter's numpy
@pytest.mark.parametrize("query", [-3e4, -20.0, 20.0, 3e4])
def test_a_saturated_tanh_is_one_and_has_no_slope(query: float) -> None:
    example = Example()
    example.inputs["query"].fill_(query)
    results = example.results()
    for result, expected in zip(results[:3], example.textbook(), strict=False):
        _assert_near(result, expected)
    assert results[2].abs().max() < 1e-6


def test_scores_may_be_huge_and_what_is_no_number_is_not_hidden() -> None:
    example = Example(LARGE)
    x = example.inputs
    x["v"] *= 1e5
    x["keep"][:, -1] = True
    x["keys"][:, -1] = 30 * x["v"].sign() - x["query"]
    x["values"][:, -1] = torch.randn(2, example.M, device=DEVICE)
    inputs = [x[name] for name in ("query", "keys", "values", "keep", "v")]
    context, weights = additive.attend(*inputs)
    assert (weights[:, -1] == 1).all()
    assert (weights[:, :-1] == 0).all()
    assert torch.equal(context, x["values"][:, -1])
    x = Example().inputs
    x["query"][1, 2] = torch.nan
    inputs = [x[name] for name in ("query", "keys", "values", "keep", "v")]
    context, weights = additive.attend(*inputs)
    assert context[1].isnan().all()
    assert weights[1][x["keep"][1]].isnan().all()
    assert context[0].isfinite().all()


def _gates(sizes: tuple[int, int], dtype: torch.dtype) -> list[Tensor]:
    """x_gates, h_gates, hidden and the gradient of h'."""
    torch.manual_seed(0)
    return [torch.randn(sizes[0], n * sizes[1]).to(DEVICE, dtype) for n in (3, 3, 1, 1)]


def _textbook_step(x_gates: Tensor, h_gates: Tensor, hidden: Tensor) -> Tensor:
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x_gates.chunk(3, -1), h_gates.chunk(3, -1)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * h_n)
    return (1 - z) * n + z * hidden


def _step(inputs: list[Tensor]) -> list[Tensor]:
    """h', what is saved, and the three gradients."""
    x_gates, h_gates, hidden, grad = inputs
    following, saved = gru.gates_forward(x_gates, h_gates, hidden)
    return [following, saved, *gru.gates_backward(grad, saved, hidden)]


@pytest.mark.parametrize("dtype", LAST_PLACE)
@pytest.mark.parametrize("sizes", [(3, 7), (2, 1031)])  # one block of units; two, one not full
def test_the_gates_and_their_gradients_are_the_textbooks(
    sizes: tuple[int, int], dtype: torch.dtype
) -> None:
    inputs = _gates(sizes, dtype)
    following, saved, *grads = _step(inputs)
    leaves = [x.double().requires_grad_() for x in inputs[:3]]
    expected = _textbook_step(*leaves)
    expected_grads = torch.autograd.grad(expected, leaves, inputs[3].double())
    assert {x.dtype for x in (following, saved, *grads)} == {dtype}
    _assert_near(following, expected)
    # What backward reads has been rounded once: gates are below 1, h_n and the gradient below 5.
    for result, exact in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(result.double(), exact, rtol=0, atol=5 * LAST_PLACE[dtype])
    for b in range(sizes[0]):
        _assert_same(_step([x[b : b + 1] for x in inputs])[:1], [following[b : b + 1]])


def test_a_state_may_be_wider_than_its_gates() -> None:
    x_gates, h_gates, _, _ = _gates((3, 7), torch.bfloat16)
    hidden = torch.randn(3, 7, device=DEVICE)
    following, saved = gru.gates_forward(x_gates, h_gates, hidden)
    assert (following.dtype, saved.dtype) == (torch.float32, torch.bfloat16)
    expected = _textbook_step(x_gates.double(), h_gates.double(), hidden.double())
    torch.testing.assert_close(following.double(), expected, rtol=0, atol=1e-6)
    *grad_gates, grad_hidden = gru.gates_backward(hidden, saved, hidden)
    assert {x.dtype for x in grad_gates} == {torch.bfloat16}
    assert torch.equal(grad_hidden, hidden * saved[:, 7:14].float())


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # the interpreter's numpy
@pytest.mark.parametrize("size", [-3e4, 3e4])
def test_saturated_gates_stay_numbers(size: float) -> None:
    inputs = _gates((3, 7), torch.float32)
    inputs[0].fill_(size)
    following, _, *grads = _step(inputs)
    expected = inputs[2] if size > 0 else torch.full_like(following, -1.0)
    torch.testing.assert_close(following, expected, rtol=0, atol=1e-6)
    assert all(x.isfinite().all() for x in grads)
