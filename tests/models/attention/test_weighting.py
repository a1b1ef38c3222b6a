"""Sparse and hard weights: exactness, chances, and the gradient of a choice."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from nmt.models.attention.weighting import (
    Choice,
    HardConfig,
    HardGumbelConfig,
    HardWeighting,
    Reinforce,
    SparsemaxWeighting,
    sparsemax_where,
)
from nmt.models.base import DecoderOutput
from nmt.models.vocabulary import VocabLinear
from nmt.text.vocabulary import PAD_ID
from nmt.training.loss import cross_entropy


def _all(scores: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(scores, dtype=torch.bool)


def _projection(z: torch.Tensor) -> torch.Tensor:
    """The nearest point of the simplex, by bisection on tau in sum max(z - tau, 0) = 1."""
    low, high = z.min() - 1, z.max()
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if torch.relu(z - tau).sum() > 1 else (low, tau)
    return torch.relu(z - tau)


def test_sparsemax_is_the_projection_on_the_simplex() -> None:
    torch.manual_seed(0)
    scores = 2 * torch.randn(100, 17, dtype=torch.float64)
    weights = sparsemax_where(scores, _all(scores))
    for row, expected in zip(weights, map(_projection, scores), strict=True):
        torch.testing.assert_close(row, expected)
    assert 0.1 < float((weights == 0).double().mean()) < 0.95


def test_sparsemax_by_hand() -> None:
    scores = torch.tensor([[0.5, 0.3, -2.0], [3.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    expected = torch.tensor([[0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(sparsemax_where(scores, _all(scores)), expected)


def test_the_gradient_of_sparsemax() -> None:
    torch.manual_seed(0)
    scores = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: sparsemax_where(z, _all(z)), scores)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_sparsemax_of_any_size_of_scores_sums_to_one(scale: float) -> None:
    scores = scale * torch.randn(3, 1, 5, 1001)
    keep = torch.arange(1001) < torch.tensor([[1001], [1], [17]])
    weights = SparsemaxWeighting()(scores, keep).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 5))
    assert (weights[~keep[:, None, None].expand_as(weights)] == 0).all()


@pytest.mark.parametrize("config", [HardConfig(soft_share=0.0), HardGumbelConfig()])
def test_positions_are_drawn_as_often_as_they_are_likely(
    config: HardConfig | HardGumbelConfig,
) -> None:
    torch.manual_seed(0)
    scores = torch.tensor([0.0, 1.0, -1.0, 2.0]).expand(1, 1, 20_000, 4)
    keep = torch.tensor([[True, True, True, False]])
    weights = config.build().train()(scores, keep).weights
    # Straight-through weights are 0 and 1 up to rounding of + soft - soft.
    assert bool(((weights.abs() < 1e-6) | ((weights - 1).abs() < 1e-6)).all())
    expected = torch.tensor([0.0, 1.0, -1.0]).softmax(0)
    torch.testing.assert_close(weights.mean(dim=(0, 1, 2))[:3], expected, atol=0.012, rtol=0)


@pytest.mark.parametrize("config", [HardConfig(), HardGumbelConfig()])
def test_afterwards_it_is_the_most_likely_position(config: HardConfig | HardGumbelConfig) -> None:
    scores = torch.tensor([0.0, 3.0, 5.0, 3.0]).expand(2, 1, 1, 4)
    keep = torch.tensor([[True, True, False, True], [True, True, True, True]])
    weighted = config.build().eval()(scores, keep)
    assert weighted.weights.squeeze().tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert weighted.choice is None


def test_some_steps_of_hard_attention_are_soft() -> None:
    torch.manual_seed(0)
    scores = torch.randn(1, 1, 2000, 5)
    weighted = HardConfig(soft_share=0.3).build().train()(scores, torch.ones(1, 5).bool())
    is_hard = (weighted.weights.amax(-1) == 1).squeeze()
    assert float((~is_hard).float().mean()) == pytest.approx(0.3, abs=0.04)
    assert weighted.choice is not None
    assert ((weighted.choice.log_probs[0] == 0) == ~is_hard).all()


def test_reinforce_estimates_the_gradient_of_the_expected_log_likelihood() -> None:
    """d/dz sum_s p(s) r(s), which the mean of r d log p(s) / dz over draws must approach."""
    torch.manual_seed(0)
    z = torch.tensor([0.3, -0.5, 1.0], dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([-1.0, -3.0, -0.5], dtype=torch.float64)
    (z.softmax(0) @ rewards).backward()
    assert z.grad is not None
    expected = z.grad.clone()
    z.grad = None

    n = 200_000
    weighting = HardWeighting(HardConfig(soft_share=0.0, entropy=0.0)).double().train()
    weighting.baseline.fill_(-1.5)
    weighted = weighting(z.expand(1, 1, n, 3), torch.ones(1, 3).bool())
    assert weighted.choice is not None
    drawn = (weighted.weights.squeeze().detach() * rewards).sum(-1)
    surrogate = Reinforce(weighting, weighted.choice)
    surrogate.loss_sum(torch.ones(1, n).bool(), drawn).div(n).backward()
    torch.testing.assert_close(-z.grad, expected, atol=5e-3, rtol=0)


def test_the_entropy_term_flattens() -> None:
    z = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    weighting = HardWeighting(HardConfig(entropy=1.0, soft_share=0.0)).train()
    weighted = weighting(z.expand(1, 1, 1, 3), torch.ones(1, 3).bool())
    assert weighted.choice is not None
    choice = Choice(torch.zeros_like(weighted.choice.log_probs), weighted.choice.entropies)
    Reinforce(weighting, choice).loss_sum(torch.ones(1, 1).bool(), torch.zeros(1)).backward()
    assert z.grad is not None
    assert z.grad[0] < 0 < z.grad[2]  # descent raises the least likely, lowers the likeliest


def test_the_baseline_moves_once_a_batch_and_is_saved() -> None:
    weighting = HardWeighting(HardConfig(baseline_decay=0.75))
    choice = Choice(torch.zeros(1, 2), torch.zeros(1, 2))
    keep = torch.tensor([[True, True]])
    Reinforce(weighting, choice).loss_sum(keep, torch.tensor([-4.0, -8.0]))
    assert float(weighting.baseline) == pytest.approx(-1.5)
    assert float(weighting.state_dict()["baseline"]) == pytest.approx(-1.5)


def test_the_loss_adds_the_surrogate_over_the_steps_that_count() -> None:
    torch.manual_seed(0)
    features, tgt_out = torch.randn(2, 3, 7), torch.tensor([[5, 6, 7], [8, PAD_ID, PAD_ID]])
    vocabulary = VocabLinear(7, 9)
    nn.init.normal_(vocabulary.weight)
    weighting = HardWeighting(HardConfig(reward=2.0, entropy=0.5))
    weighting.baseline.fill_(-1.0)
    choice = Choice(-torch.rand(2, 3), torch.rand(2, 3))
    output = DecoderOutput(features, vocabulary)
    plain = cross_entropy(output, tgt_out)
    loss = cross_entropy(replace(output, surrogate=Reinforce(weighting, choice)), tgt_out)
    log_probs = output.logits.log_softmax(-1).gather(-1, tgt_out.unsqueeze(-1)).squeeze(-1)
    terms = 2.0 * (log_probs + 1.0) * choice.log_probs + 0.5 * choice.entropies
    expected = -terms[tgt_out != PAD_ID].sum()
    torch.testing.assert_close(loss.loss_sum - plain.loss_sum, expected)
    torch.testing.assert_close(loss.nll_sum, plain.nll_sum)
