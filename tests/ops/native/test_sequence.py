"""Compiled operations are torch's, at sizes that fill no vector, tile or part of them."""

import pytest
import torch

from nmt.ops.native.operations import NativeOperations
from nmt.ops.native.sequence import NativeSteps
from tests.ops.conftest import NEEDS_NATIVE
from tests.ops.test_steps import (
    BF16,
    FP32,
    FP64,
    SMALL,
    TOLERANCES,
    assert_near,
    drawn,
    gate_inputs,
    gates,
    look,
    look_inputs,
    some_kept,
)

PRECISIONS = pytest.mark.parametrize("dtype", [FP64, FP32, BF16])
pytestmark = NEEDS_NATIVE


@PRECISIONS
def test_products_of_few_columns_and_transposes(dtype: torch.dtype) -> None:
    for n_columns in range(10):
        weight, rows = drawn(dtype, weight=(37, 101), rows=(n_columns, 101)).values()
        expected = weight.double() @ rows.double().t()
        for columns in (rows.t(), rows.t().contiguous()):
            result = NativeSteps(dtype).product(weight, columns)
            assert result.dtype == dtype
            assert_near([result], [expected], 10 * TOLERANCES[dtype])
    for shape in ((83, 130), (64, 16), (16, 64), (15, 1), (1, 200), (0, 3)):
        (x,) = drawn(dtype, x=shape).values()
        assert torch.equal(NativeSteps(dtype).transpose(x), x.t())


def test_a_target_outside_of_the_vocabulary_is_refused() -> None:
    rows = torch.zeros(9, 2, dtype=FP64)
    for target in (-1, 9):
        with pytest.raises(IndexError, match="9 rows"):
            NativeOperations(FP64).linear_cross_entropy(
                rows[:2], rows, rows[:, 0], torch.tensor([0, target]), rows[:2, 0] == 0, 9, 0.0
            )


def test_bf16_is_rounded_as_torch_rounds() -> None:
    """To the nearest, ties to even; NaN and infinities stay what they are."""
    torch.manual_seed(0)
    ties = (torch.randint(1, 0x7F00, (1000,)) * 2**16 + 2**15).to(torch.int32).view(torch.float32)
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38, 1e-40, 0.0])
    state = torch.cat([torch.randn(1000), ties, -ties, special]).unsqueeze(0)
    saved, out = torch.empty(4, state.numel()), torch.empty(state.numel(), 1, dtype=torch.bfloat16)
    # With z = 1 the next state is the one before.
    shares = torch.zeros(3, state.numel(), dtype=torch.bfloat16)
    bias = torch.tensor([0.0, 0.0, 200.0, 0.0])
    following, narrow = NativeSteps(BF16).gru_gates(shares, None, shares, bias, state, saved, out)
    finite, number = following.isfinite(), ~following.isnan()
    torch.testing.assert_close(following[finite], state[finite])
    for rounded in (narrow, out.t()):
        assert torch.equal(~rounded.isnan(), number)
        assert torch.equal(rounded[number], following.to(torch.bfloat16)[number])


@PRECISIONS
def test_the_same_bits_by_any_number_of_threads(dtype: torch.dtype) -> None:
    by, results = NativeSteps(dtype), []
    x, table, bias = drawn(dtype, x=(45, 31), table=(700, 31), bias=(700,)).values()
    bias.requires_grad_()
    before = torch.get_num_threads()
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            looks = look(by, look_inputs(dtype), some_kept(SMALL))
            losses = NativeOperations(dtype).linear_cross_entropy(
                x, table, bias, torch.arange(45), torch.arange(45) > 2, 700, 0.1
            )
            of_loss = torch.autograd.grad(losses[0], bias)
            results.append([*gates(by, gate_inputs(dtype)), *looks, *losses, *of_loss])
    finally:
        torch.set_num_threads(before)
    for first, *others in zip(*results, strict=True):
        assert all(torch.equal(first, other) for other in others)
