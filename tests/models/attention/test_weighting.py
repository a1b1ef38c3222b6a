"""Sparse and hard weights: exactness, chances, and the gradient of a choice."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from laws.family import model_of, perturbed
from torch import nn

from nmt.batches.batching import make_batch
from nmt.models.attention import weighting
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.attention.weighting import HardConfig, HardGumbelConfig, Reinforce
from nmt.models.base import DecoderOutput, Memory
from nmt.models.vocabulary import VocabLinear
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import cross_entropy
from nmt.text.vocabulary import PAD_ID
from nmt.training.step import StepSettings, translation_loss
from tests.ops.conftest import FASTER

CREDITS = pytest.mark.parametrize("credit", ["sentence", "future"])


def _projection(z: torch.Tensor) -> torch.Tensor:
    """The nearest point of the simplex, by bisection on tau in sum max(z - tau, 0) = 1."""
    low, high = z.min() - 1, z.max()
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if torch.relu(z - tau).sum() > 1 else (low, tau)
    return torch.relu(z - tau)


def test_sparsemax_is_the_projection_on_the_simplex() -> None:
    by_hand = torch.tensor([[0.5, 0.3, -2.0], [3.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    expected = torch.tensor([[0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(weighting.masked_sparsemax(by_hand, by_hand < 9), expected)
    scores = 2 * torch.randn(100, 17, dtype=torch.float64)
    weights = weighting.masked_sparsemax(scores, scores < 99)
    torch.testing.assert_close(weights, torch.stack([*map(_projection, scores)]))
    assert 0.1 < float((weights == 0).double().mean()) < 0.95
    scores = scores[:5, :7].requires_grad_()
    assert torch.autograd.gradcheck(lambda z: weighting.masked_sparsemax(z, z < 99), scores)
    keep = torch.arange(1001) < torch.tensor([[1001], [1], [17]])
    for scale in (1e-4, 1e4):
        weights = weighting.SparsemaxWeighting()(scale * torch.randn(3, 1, 5, 1001), keep).weights
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 5))
        assert (weights[~keep[:, None, None].expand_as(weights)] == 0).all()


@pytest.mark.parametrize("config", [HardConfig(soft_share=0.0), HardGumbelConfig()])
def test_positions_are_drawn_as_often_as_they_are_likely(config) -> None:
    """After training it is the most likely one."""
    scores = torch.tensor([0.0, 1.0, -1.0, 2.0]).expand(1, 1, 20_000, 4)
    keep = torch.tensor([[True, True, True, False]])
    drawn = config.build().train()(scores, keep)
    weights, samples = drawn.weights, drawn.samples
    # Straight-through weights are 0 and 1 up to rounding of + soft - soft.
    torch.testing.assert_close(weights, weights.round(), atol=1e-6, rtol=0)
    expected = torch.tensor([0.0, 1.0, -1.0]).softmax(0)
    torch.testing.assert_close(weights.mean(dim=(0, 1, 2))[:3], expected, atol=0.012, rtol=0)
    if samples is not None:
        torch.testing.assert_close(samples.log_probs[0], weights[0, 0, :, :3] @ expected.log())
        entropy = -(expected * expected.log()).sum()
        torch.testing.assert_close(samples.entropies, entropy.expand(1, 20_000))
    best = config.build().eval()(scores[:, :, :1], keep)
    assert (best.weights.tolist(), best.samples) == ([[[[0, 1, 0, 0]]]], None)


def test_a_straight_through_choice_has_the_gradient_of_softmax() -> None:
    """Of the scores and the same noise, over the temperature."""
    scores = torch.randn(1, 1, 3, 5, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(1)
    soft = ((scores + weighting.gumbel_like(scores)) / 0.7).softmax(-1)
    torch.manual_seed(1)
    keep = torch.ones(1, 5, dtype=torch.bool)
    hard = HardGumbelConfig(temperature=0.7).build().train()(scores, keep).weights
    shares = torch.randn_like(soft)
    gradients = (torch.autograd.grad(weights, scores, shares) for weights in (soft, hard))
    torch.testing.assert_close(*gradients)


def test_some_sentences_of_hard_attention_are_soft_at_all_steps() -> None:
    config = AdditiveConfig(weights=HardConfig(soft_share=0.3))
    attention = config.build(3, 5, "reference").train()
    memory = Memory(torch.randn(2000, 4, 5), torch.ones(2000, 4).bool(), torch.zeros(2000, 1, 5))
    state = attention.init_state(memory)
    outputs = [attention(torch.randn(2000, 1, 3), state) for _ in range(2)]
    is_hard = torch.cat([output.heads.amax(-1) == 1 for output in outputs], dim=2)[:, 0]
    assert torch.equal(is_hard[:, 0], is_hard[:, 1])
    assert float((~is_hard).float().mean()) == pytest.approx(0.3, abs=0.04)
    for output in outputs:
        assert ((output.samples.log_probs == 0) == ~is_hard[:, :1]).all()
    assert attention.eval().init_state(memory).soft is None


@CREDITS
def test_the_loss_adds_the_auxiliary_term_of_steps_that_count(credit: str) -> None:
    """The baseline moves once a batch: by a tenth of the mean of sentences, or of pieces."""
    features, tgt_out = torch.randn(2, 3, 7), torch.tensor([[5, 6, 7], [8, PAD_ID, PAD_ID]])
    vocabulary = VocabLinear(7, 9)
    nn.init.normal_(vocabulary.weight)
    hard = weighting.HardWeighting(HardConfig(reward=2.0, entropy=0.5, credit=credit))
    hard.baseline.fill_(-1.0)
    samples = weighting.SampleStatistics(-torch.rand(2, 3), torch.rand(2, 3))
    output = DecoderOutput(features, vocabulary)
    plain = cross_entropy(output, tgt_out)
    loss = cross_entropy(replace(output, auxiliary_loss=Reinforce(hard, samples)), tgt_out)
    log_probs = output.logits.log_softmax(-1).gather(-1, tgt_out.unsqueeze(-1)).squeeze(-1)
    expected = torch.zeros(())
    for row, length in enumerate((3, 1)):
        for t in range(length):
            rewarded = log_probs[row, (t if credit == "future" else 0) : length]
            baseline = -float(len(rewarded)) if credit == "future" else -1.0
            reward = 2.0 * (rewarded.sum() - baseline) * samples.log_probs[row, t]
            expected = expected - reward - 0.5 * samples.entropies[row, t]
    torch.testing.assert_close(loss.loss_sum - plain.loss_sum, expected)
    torch.testing.assert_close(loss.nll_sum, plain.nll_sum)
    moved = 0.9 * -1.0 - 0.1 * plain.nll_sum / (4 if credit == "future" else 2)
    torch.testing.assert_close(hard.state_dict()["baseline"], moved.detach())
    Reinforce(hard, samples).loss_sum(tgt_out < 0, torch.zeros(2, 3))
    torch.testing.assert_close(hard.baseline, moved.detach())


@CREDITS
def test_the_mean_gradient_of_draws_is_that_of_the_lower_bound(credit: str, monkeypatch) -> None:
    """L_s = sum_s p(s) log p(y | s), over the 9 ways to draw 3 positions in 2 steps.

    The mean over draws is computed exactly, as the sum of p(s) times the gradient that the training
    loss has when s is drawn. The second draw depends on the first through the decoder's state.
    """
    weights = {"kind": "hard", "credit": credit, "reward": 1.0, "soft_share": 0.0, "entropy": 0.0}
    model = perturbed(model_of("rnn", attention={"kind": "additive", "weights": weights})).train()
    drawn: list[int] = []

    def noise(scores: torch.Tensor) -> torch.Tensor:
        return 1e6 * nn.functional.one_hot(torch.tensor(drawn.pop(0)), scores.shape[-1])

    monkeypatch.setattr(weighting, "gumbel_like", noise)
    src, keep = torch.tensor([[4, 5, 3]]), torch.ones(1, 3, dtype=torch.bool)
    tgt_in, tgt_out = torch.tensor([[2, 4]]), torch.tensor([[4, 6]])
    bound, mean, likelihoods = 0, 0, []
    for path in product(range(3), repeat=2):
        drawn.extend(path)
        model.decoder.attention.weighting.baseline.fill_(-2.0)
        output = model(src, keep, tgt_in)
        log_p = output.auxiliary_loss.samples.log_probs.sum()
        loss = cross_entropy(output, tgt_out)
        log_likelihood = -cross_entropy(replace(output, auxiliary_loss=None), tgt_out).loss_sum
        mean = mean + log_p.exp().detach() * loss.loss_sum
        bound = bound + log_p.exp() * log_likelihood
        likelihoods.append(log_p + log_likelihood)
    assert bound.item() < torch.stack(likelihoods).logsumexp(0).item()  # log p(y)
    parameters = list(model.parameters())
    estimate = torch.autograd.grad(-mean, parameters, retain_graph=True)
    expected = torch.autograd.grad(bound, parameters)
    torch.testing.assert_close(estimate, expected, rtol=1e-5, atol=1e-6)  # 1e-9 on a CPU


@pytest.mark.parametrize("backend", ["reference", *FASTER])
def test_doubly_stochastic_penalty_is_the_papers_without_padding(backend: str) -> None:
    """It is the sum over the sentences, and of training only."""
    sources, targets = [(4, 5, 6, 7), (8,)], [(5,), (4, 9, 10)]
    pairs = make_batch(sources, targets)
    attention = {"kind": "additive", "doubly_stochastic": 0.3}
    model, reference = (
        model_of("rnn", attention=attention, backend=by).train() for by in (backend, "reference")
    )
    loss, expected_loss = (translation_loss(m, pairs, StepSettings()) for m in (model, reference))
    keep = keep_from_lengths(pairs.src_lengths, pairs.src_ids.shape[1])
    weights = model(pairs.src_ids, keep, pairs.tgt_in, with_weights=True).weights
    sums = weights[0, :2].sum(0)[:5], weights[1, :4].sum(0)[:2]
    penalty = sum((1 - column).square().sum() for column in sums)
    torch.testing.assert_close(loss.loss_sum - loss.nll_sum, 0.3 * penalty)
    gradients = torch.autograd.grad(loss.loss_sum, list(model.parameters()))
    expected = torch.autograd.grad(expected_loss.loss_sum, list(reference.parameters()))
    torch.testing.assert_close(gradients, expected)
    singles = (make_batch([src], [tgt]) for src, tgt in zip(sources, targets, strict=True))
    total = sum(translation_loss(model, single, StepSettings()).loss_sum for single in singles)
    torch.testing.assert_close(total, loss.loss_sum)
    evaluated = translation_loss(model.eval(), pairs, StepSettings())
    torch.testing.assert_close(evaluated.loss_sum, evaluated.nll_sum)
