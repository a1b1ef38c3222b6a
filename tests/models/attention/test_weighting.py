"""Sparse and hard weights: exactness, chances, and the gradient of a choice."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from laws.family import model_of
from torch import nn

from nmt.batches.batching import Batch, make_batch
from nmt.models.attention import weighting
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.attention.weighting import (
    HardConfig,
    HardGumbelConfig,
    HardWeighting,
    Reinforce,
    SampleStatistics,
    SparsemaxWeighting,
    masked_sparsemax,
)
from nmt.models.base import DecoderOutput, Memory, Seq2Seq
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.vocabulary import VocabLinear
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import LossSum, cross_entropy
from nmt.text.vocabulary import PAD_ID
from nmt.training.step import StepSettings, translation_loss
from tests.ops.conftest import NEEDS_NATIVE


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
    by_hand = torch.tensor([[0.5, 0.3, -2.0], [3.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    expected = torch.tensor([[0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(masked_sparsemax(by_hand, _all(by_hand)), expected)
    scores = 2 * torch.randn(100, 17, dtype=torch.float64)
    weights = masked_sparsemax(scores, _all(scores))
    for row, nearest in zip(weights, map(_projection, scores), strict=True):
        torch.testing.assert_close(row, nearest)
    assert 0.1 < float((weights == 0).double().mean()) < 0.95
    scores = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: masked_sparsemax(z, _all(z)), scores)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
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
    weighted = config.build().train()(scores, keep)
    weights = weighted.weights
    # Straight-through weights are 0 and 1 up to rounding of + soft - soft.
    assert bool(((weights.abs() < 1e-6) | ((weights - 1).abs() < 1e-6)).all())
    expected = torch.tensor([0.0, 1.0, -1.0]).softmax(0)
    torch.testing.assert_close(weights.mean(dim=(0, 1, 2))[:3], expected, atol=0.012, rtol=0)
    if weighted.samples is not None:
        log_probs = (weights[0, 0, :, :3] @ expected.log()).unsqueeze(0)
        torch.testing.assert_close(weighted.samples.log_probs, log_probs)
        entropy = -(expected * expected.log()).sum()
        torch.testing.assert_close(weighted.samples.entropies, entropy.expand(1, 20_000))


def test_a_straight_through_choice_has_the_gradient_of_softmax() -> None:
    """Of the scores and the same noise, over the temperature."""
    scores = torch.randn(1, 1, 3, 5, dtype=torch.float64, requires_grad=True)
    shares = torch.randn(1, 1, 3, 5, dtype=torch.float64)
    torch.manual_seed(1)
    noisy = (scores + weighting.gumbel_like(scores)) / 0.7
    torch.manual_seed(1)
    weights = HardGumbelConfig(temperature=0.7).build().train()(scores, _all(scores)[0, 0, :1])
    gradients = [
        torch.autograd.grad((x * shares).sum(), scores, retain_graph=True)[0]
        for x in (noisy.softmax(-1), weights.weights)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("config", [HardConfig(), HardGumbelConfig()])
def test_afterwards_it_is_the_most_likely_position(config: HardConfig | HardGumbelConfig) -> None:
    scores = torch.tensor([0.0, 3.0, 5.0, 3.0]).expand(2, 1, 1, 4)
    keep = torch.tensor([[True, True, False, True], [True, True, True, True]])
    weighted = config.build().eval()(scores, keep)
    assert weighted.weights.squeeze().tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert weighted.samples is None


def test_some_sentences_of_hard_attention_are_soft_at_all_steps() -> None:
    torch.manual_seed(0)
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


CREDITS = ("sentence", "future")


@pytest.mark.parametrize(("credit", "expected"), [("sentence", -1.4), ("future", -0.7)])
def test_the_baseline_moves_once_a_batch_and_is_saved(credit: str, expected: float) -> None:
    """A tenth of the mean of sentences, (-12 - 16) / 2, or of pieces, -28 / 4."""
    hard = HardWeighting(HardConfig.model_validate({"credit": credit}))
    samples = SampleStatistics(torch.zeros(2, 3), torch.zeros(2, 3))
    keep = torch.tensor([[True, True, True], [True, False, False]])
    Reinforce(hard, samples).loss_sum(keep, torch.tensor([[-4.0, -7.0, -1.0], [-16.0, 0.0, 0.0]]))
    assert float(hard.baseline) == pytest.approx(expected)
    assert float(hard.state_dict()["baseline"]) == pytest.approx(expected)
    Reinforce(hard, samples).loss_sum(torch.zeros_like(keep), torch.zeros(2, 3))
    assert float(hard.baseline) == pytest.approx(expected)


@pytest.mark.parametrize("credit", CREDITS)
def test_the_loss_adds_the_auxiliary_term_of_steps_that_count(credit: str) -> None:
    torch.manual_seed(0)
    features, tgt_out = torch.randn(2, 3, 7), torch.tensor([[5, 6, 7], [8, PAD_ID, PAD_ID]])
    vocabulary = VocabLinear(7, 9)
    nn.init.normal_(vocabulary.weight)
    config = {"reward": 2.0, "entropy": 0.5, "credit": credit}
    hard = HardWeighting(HardConfig.model_validate(config))
    hard.baseline.fill_(-1.0)
    samples = SampleStatistics(-torch.rand(2, 3), torch.rand(2, 3))
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


@pytest.mark.parametrize("credit", CREDITS)
def test_the_mean_gradient_of_draws_is_that_of_the_lower_bound(
    credit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L_s = sum_s p(s) log p(y | s), over the 9 ways to draw 3 positions in 2 steps.

    The mean over draws is computed exactly, as the sum of p(s) times the gradient that the training
    loss has when s is drawn. The second draw depends on the first through the decoder's state.
    """
    torch.manual_seed(0)
    weights = {"kind": "hard", "credit": credit, "reward": 1.0, "soft_share": 0.0, "entropy": 0.0}
    attention = {"kind": "additive", "weights": weights}
    config = RNNConfig.model_validate(
        {"embedding": 3, "hidden": 5, "dropout": 0.0, "attention": attention}
    )
    model = build_model(config, 7, 7).double().train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    drawn: list[int] = []

    def noise(scores: torch.Tensor) -> torch.Tensor:
        return 1e6 * nn.functional.one_hot(torch.tensor(drawn.pop(0)), scores.shape[-1])

    monkeypatch.setattr(weighting, "gumbel_like", noise)
    src, keep = torch.tensor([[4, 5, 3]]), torch.ones(1, 3, dtype=torch.bool)
    tgt_in, tgt_out = torch.tensor([[2, 4]]), torch.tensor([[4, 6]])
    baseline = model.decoder.attention.weighting.baseline
    bound, mean, likelihoods = 0, 0, []
    for path in product(range(3), repeat=2):
        drawn.extend(path)
        baseline.fill_(-2.0)
        output = model(src, keep, tgt_in)
        log_p = output.auxiliary_loss.samples.log_probs.sum()
        loss = cross_entropy(output, tgt_out)
        log_likelihood = -cross_entropy(replace(output, auxiliary_loss=None), tgt_out).loss_sum
        mean = mean + log_p.exp().detach() * loss.loss_sum
        bound = bound + log_p.exp() * log_likelihood
        likelihoods.append(log_p + log_likelihood)
    assert float(bound.detach()) < float(torch.stack(likelihoods).logsumexp(0).detach())  # log p(y)
    parameters = list(model.parameters())
    estimated = torch.autograd.grad(-mean, parameters, retain_graph=True)
    for one, other in zip(estimated, torch.autograd.grad(bound, parameters), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)


BATCH = make_batch([(4, 5, 6, 7), (8,)], [(5,), (4, 9, 10)])


@pytest.mark.parametrize(
    "backend", ["reference", "fused", pytest.param("native", marks=NEEDS_NATIVE)]
)
def test_doubly_stochastic_penalty_is_the_papers_without_padding(backend: str) -> None:
    """It is the sum over the sentences, and of training only."""

    def loss_of(model: Seq2Seq, batch: Batch = BATCH) -> LossSum:
        return translation_loss(model, batch, StepSettings())

    attention = {"kind": "additive", "doubly_stochastic": 0.3}
    model, reference = (
        model_of("rnn", attention=attention, backend=by).train() for by in (backend, "reference")
    )
    loss = loss_of(model)
    keep = keep_from_lengths(BATCH.src_lengths, BATCH.src_ids.shape[1])
    weights = model(BATCH.src_ids, keep, BATCH.tgt_in, with_weights=True).weights
    penalty = torch.zeros(())
    for row, (n_src, n_tgt) in enumerate(((5, 2), (2, 4))):
        for i in range(n_src):
            penalty = penalty + (1 - weights[row, :n_tgt, i].sum()) ** 2
    torch.testing.assert_close(loss.loss_sum - loss.nll_sum, 0.3 * penalty)
    gradients = torch.autograd.grad(loss.loss_sum, list(model.parameters()))
    expected = torch.autograd.grad(loss_of(reference).loss_sum, list(reference.parameters()))
    torch.testing.assert_close(gradients, expected)
    halves = [make_batch([(4, 5, 6, 7)], [(5,)]), make_batch([(8,)], [(4, 9, 10)])]
    torch.testing.assert_close(sum(loss_of(model, half).loss_sum for half in halves), loss.loss_sum)
    evaluated = loss_of(model.eval())
    torch.testing.assert_close(evaluated.loss_sum, evaluated.nll_sum)
