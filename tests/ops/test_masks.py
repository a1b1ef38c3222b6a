"""The softmax that obeys masks."""

import pytest
import torch

from nmt.ops.masks import masked_softmax, softmax_over_kept


def test_masked_softmax_takes_lengths_per_sentence_or_per_query() -> None:
    scores = torch.randn(2, 2, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(masked_softmax(scores), scores.softmax(-1))
    for lengths, per_query in (([2, 3], [[2, 2], [3, 3]]), ([[1, 3], [2, 4]], [[1, 3], [2, 4]])):
        weights = masked_softmax(scores, torch.tensor(lengths))
        for row, row_scores, row_lengths in zip(weights, scores, per_query, strict=True):
            for got, raw, n in zip(row, row_scores, row_lengths, strict=True):
                torch.testing.assert_close(got[:n], raw[:n].softmax(-1))
                assert (got[n:] == 0).all()


def test_a_row_that_sees_nothing_gets_zeros_and_finite_gradients() -> None:
    scores = torch.randn(1, 2, 3, requires_grad=True)
    weights = softmax_over_kept(scores, torch.tensor([[[True, False, True], [False] * 3]]))
    assert weights[0, 1].tolist() == [0, 0, 0]
    weights.square().sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[0, 1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_huge_scores_in_every_precision(dtype: torch.dtype) -> None:
    scores = torch.tensor([[[6e4, -6e4, 6e4]]], dtype=dtype)
    weights = softmax_over_kept(scores, torch.tensor([[True, True, False]]))
    assert weights.tolist() == [[[1.0, 0.0, 0.0]]]
