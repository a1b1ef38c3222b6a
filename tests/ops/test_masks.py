"""Masks: what may be attended, and the softmax that obeys."""

import pytest
import torch

from nmt.ops.masks import (
    causal_keep,
    keep_from_lengths,
    masked_softmax,
    softmax_where,
    window_keep,
)


def test_keep_from_lengths_per_sentence_and_per_query() -> None:
    assert keep_from_lengths(torch.tensor([2, 0, 3]), 3).tolist() == [
        [True, True, False],
        [False, False, False],
        [True, True, True],
    ]
    per_query = keep_from_lengths(torch.tensor([[1, 2], [3, 0]]), 3)
    assert per_query.shape == (2, 2, 3)
    assert per_query.sum(-1).tolist() == [[1, 2], [3, 0]]


def test_a_causal_mask_ends_at_the_querys_own_place() -> None:
    cpu = torch.device("cpu")
    assert causal_keep(0, 5, cpu).tolist() == torch.ones(5, 5).tril().bool().tolist()
    later = causal_keep(2, 3, cpu)
    assert torch.equal(later, causal_keep(0, 5, cpu)[2:])
    assert torch.equal(causal_keep(2, 3, cpu, window=1), later & window_keep(5, 1, cpu)[2:])


def test_a_window_reaches_as_far_on_each_side() -> None:
    assert window_keep(4, 1, torch.device("cpu")).int().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [0, 1, 1, 1],
        [0, 0, 1, 1],
    ]


@pytest.mark.parametrize("lengths", [[2, 3], [[1, 3], [2, 4]]])
def test_masked_softmax_takes_lengths_per_sentence_or_per_query(lengths: list[object]) -> None:
    torch.manual_seed(0)
    scores = torch.randn(2, 2, 4)
    weights = masked_softmax(scores, torch.tensor(lengths))
    table = torch.tensor(lengths)
    table = table if table.dim() == 2 else table.unsqueeze(1).expand(2, 2)
    for b in range(2):
        for q in range(2):
            n = int(table[b, q])
            torch.testing.assert_close(weights[b, q, :n], scores[b, q, :n].softmax(-1))
            assert (weights[b, q, n:] == 0).all()


def test_masked_softmax_without_lengths_is_softmax() -> None:
    scores = torch.randn(2, 3, 5)
    assert torch.equal(masked_softmax(scores), scores.softmax(-1))


def test_a_row_that_may_look_nowhere_gets_zeros_and_a_finite_gradient() -> None:
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
