"""Masks: what may be attended, and the softmax that obeys."""

import pytest
import torch
from devices import HERE

from nmt.ops.masks import (
    causal_keep,
    keep_from_lengths,
    masked_softmax,
    softmax_where,
    window_keep,
)


def test_keep_from_lengths_per_sentence_and_per_query() -> None:
    keep = keep_from_lengths(torch.tensor([2, 0, 3]), 3)
    assert keep.int().tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    per_query = keep_from_lengths(torch.tensor([[1, 2], [3, 0]]), 3)
    assert per_query.shape == (2, 2, 3)
    assert per_query.sum(-1).tolist() == [[1, 2], [3, 0]]


def test_a_causal_mask_ends_at_the_querys_own_place() -> None:
    assert torch.equal(causal_keep(0, 5, HERE), torch.ones(5, 5).tril().bool())
    later = causal_keep(2, 3, HERE)
    assert torch.equal(later, causal_keep(0, 5, HERE)[2:])
    assert torch.equal(causal_keep(2, 3, HERE, window=1), later & window_keep(5, 1, HERE)[2:])


def test_a_window_reaches_as_far_on_each_side() -> None:
    expected = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert window_keep(4, 1, HERE).int().tolist() == expected


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
    weights = softmax_where(scores, torch.tensor([[[True, False, True], [False] * 3]]))
    assert weights[0, 1].tolist() == [0, 0, 0]
    weights.square().sum().backward()
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[0, 1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_huge_scores_in_every_precision(dtype: torch.dtype) -> None:
    scores = torch.tensor([[[6e4, -6e4, 6e4]]], dtype=dtype)
    weights = softmax_where(scores, torch.tensor([[True, True, False]]))
    assert weights.tolist() == [[[1.0, 0.0, 0.0]]]
