"""Compiled operations are torch's, at sizes that fill no vector, tile or part of them."""

import pytest
import torch

from nmt.ops.precision import Dtypes
from tests.ops.conftest import NEEDS_NATIVE
from tests.ops.test_steps import (
    BF16,
    FP64,
    SMALL,
    TOLERANCES,
    assert_near,
    drawn,
    gate_inputs,
    gates,
    look,
    look_inputs,
    native,
    some_kept,
)

PRECISIONS = pytest.mark.parametrize("dtypes", TOLERANCES, ids=["fp64", "fp32", "bf16"])
pytestmark = NEEDS_NATIVE


@PRECISIONS
def test_products_of_few_columns_and_transposes(dtypes: Dtypes) -> None:
    for n_columns in range(10):
        weight, rows = drawn(dtypes, weight=(37, 101), rows=(n_columns, 101)).values()
        expected = weight.double() @ rows.double().t()
        for columns in (rows.t(), rows.t().contiguous()):
            result = native(dtypes).product(weight, columns)
            assert result.dtype == dtypes.compute
            assert_near([result], [expected], 10 * TOLERANCES[dtypes])
    for shape in ((83, 130), (64, 16), (16, 64), (15, 1), (1, 200), (0, 3)):
        (x,) = drawn(dtypes, x=shape).values()
        assert torch.equal(native(dtypes).transpose(x), x.t())


@PRECISIONS
def test_loss_and_its_gradient(dtypes: Dtypes) -> None:
    rows, real, n = 700, 695, 45
    for smoothing in (0.0, 0.2):
        logits, bias = drawn(dtypes, logits=(rows, n), bias=(rows,)).values()
        logits *= 5
        bias[real:] = -1e4
        targets = torch.randint(0, real, (n,))
        exact = (logits.double() + bias.double().unsqueeze(1)).t().requires_grad_()
        log_p = exact.log_softmax(1)
        nlls = -log_p[torch.arange(n), targets]
        means = -log_p[:, :real].mean(1)
        ((1 - smoothing) * nlls + smoothing * means).sum().backward()
        of_logits, of_bias = logits.clone(), torch.ones(rows, dtype=dtypes.accumulate)
        losses = native(dtypes).loss(
            of_logits, bias.to(dtypes.accumulate), targets, real, smoothing, of_bias
        )
        assert exact.grad is not None
        results, expected = [losses[0], of_logits], [nlls, exact.grad.t()]
        if smoothing:
            results.append(losses[1])
            expected.append(means)
        assert_near(results, expected, TOLERANCES[dtypes])
        torch.testing.assert_close(of_bias.double() - 1, exact.grad.sum(0), rtol=0, atol=1e-4)


def test_a_target_outside_of_the_vocabulary_is_refused() -> None:
    by, logits = native(FP64), torch.zeros(9, 2, dtype=torch.float64)
    for target in (-1, 9):
        with pytest.raises(IndexError, match="9 rows"):
            by.loss(logits, logits[:, 0], torch.tensor([0, target]), 9, 0.0, None)


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
    following, narrow = native(BF16).gru_gates(shares, None, shares, bias, state, saved, out)
    finite, number = following.isfinite(), ~following.isnan()
    torch.testing.assert_close(following[finite], state[finite])
    for rounded in (narrow, out.t()):
        assert torch.equal(~rounded.isnan(), number)
        assert torch.equal(rounded[number], following.to(torch.bfloat16)[number])


@PRECISIONS
def test_the_same_bits_by_any_number_of_threads(dtypes: Dtypes) -> None:
    by = native(dtypes)
    results = []
    before = torch.get_num_threads()
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            looks = look(by, look_inputs(dtypes), some_kept(SMALL))
            (logits,) = drawn(dtypes, logits=(700, 45)).values()
            of_bias = torch.zeros(700, dtype=by.accumulate_dtype)
            targets = torch.arange(45)
            losses = by.loss(logits, torch.zeros_like(of_bias), targets, 700, 0.1, of_bias)
            results.append([*gates(by, gate_inputs(dtypes)), *looks, *losses, logits, of_bias])
    finally:
        torch.set_num_threads(before)
    for first, *others in zip(*results, strict=True):
        assert all(torch.equal(first, other) for other in others)
