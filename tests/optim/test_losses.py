"""Losses sum over the target tokens without padding; losses of two passes have known answers."""

import math

import pytest
import torch
from laws.family import MODELS, TGT_VOCAB, model_of
from torch import Tensor, nn

from nmt.batches.batching import make_batch
from nmt.models.base import DecoderOutput, Seq2Seq
from nmt.models.vocabulary import VocabLinear
from nmt.optim import losses
from nmt.optim.losses import CrossEntropy, Loss, LossSum, RDrop, cross_entropy, paired_loss
from nmt.text.vocabulary import PAD_ID
from nmt.training.step import StepSettings, translation_loss

PAIRS = [((5, 6, 7, 11), (8,)), ((9,), (4, 5, 6, 7)), ((4, 4), (6, 5)), ((8, 7), (9, 9, 9))]
BATCH = make_batch(*zip(*PAIRS, strict=True))
FIXED = [n for n in MODELS if not any(word in n for word in ("hard", "dropout", "penalty"))]
"""Models without a random choice."""


def measured(model: Seq2Seq, loss: Loss) -> tuple[LossSum, list[Tensor]]:
    """The sums for a batch, and the gradients of all parameters that have one."""
    model.zero_grad()
    sums = translation_loss(model, BATCH, StepSettings(loss=loss))
    sums.loss_sum.backward()
    return sums, [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_two_distributions_have_the_known_loss() -> None:
    """In multiples of log 2: KL(p || q) = 5/8, KL(q || p) = 1/2, CE(p) = 3, CE(q) = 2."""
    loss, vocabulary = RDrop(0.0, 2.0), VocabLinear(5, 5)
    nn.init.eye_(vocabulary.weight)
    p, q = [1 / 2, 1 / 8, 1 / 8, 1 / 8, 1 / 8], [1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 4]
    output = DecoderOutput(torch.tensor([[p, q], [q, q]]).log(), vocabulary)
    sums = loss(output, loss.inputs(make_batch([(4,)], [(4,)])))
    assert sums.nll_sum.item() == pytest.approx((3 / 2 + 2 / 2 + 2) * math.log(2))
    divergence = sums.loss_sum.item() - sums.nll_sum.item()
    assert divergence == pytest.approx((5 / 8 + 1 / 2) / 2 * math.log(2))


def paired_inputs() -> tuple[Tensor, VocabLinear, Tensor]:
    """Features of 2 x 3 rows, the layer, and targets with padding at the end of two rows."""
    torch.manual_seed(0)
    layer = VocabLinear(7, TGT_VOCAB).double()
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    targets = torch.randint(4, TGT_VOCAB, (3, 5))
    targets[1, 2:] = targets[2, 4:] = PAD_ID
    return torch.randn(6, 5, 7, dtype=torch.float64), layer, targets.repeat(2, 1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_torchs_cross_entropy_over_the_real_rows(smoothing: float) -> None:
    """Also the plain cross-entropy beside a smoothed loss; padding gets no gradient."""
    features, layer, targets = paired_inputs()
    output = DecoderOutput(features.requires_grad_(), layer)
    loss = cross_entropy(output, targets, smoothing)
    for actual, share in ((loss.loss_sum, smoothing), (loss.nll_sum, 0.0)):
        expected = nn.functional.cross_entropy(
            output.logits.flatten(0, 1),
            targets.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=share,
            reduction="sum",
        )
        torch.testing.assert_close(actual, expected)
    loss.loss_sum.backward()
    assert torch.equal(features.grad.abs().sum(-1) > 0, targets != PAD_ID)
    for parameter in layer.parameters():
        assert (parameter.grad[TGT_VOCAB:] == 0).all()
        assert (parameter.grad[:TGT_VOCAB] != 0).any()


def test_padding_is_invisible_and_has_no_gradient() -> None:
    features, layer, targets = paired_inputs()
    sums = []
    for scale in (1.0, 100.0):
        x = torch.where((targets == PAD_ID).unsqueeze(-1), scale, features).requires_grad_()
        loss, nlls = paired_loss(DecoderOutput(x, layer), targets, 0.1, 2.0)
        loss.backward()
        assert ((x.grad != 0).any(dim=-1) == (targets != PAD_ID)).all()
        assert ((nlls != 0) == (targets != PAD_ID)).all()
        sums.append(loss.item())
    assert sums[0] == sums[1]


@pytest.mark.parametrize("n_bytes", [1, 1000])
def test_chunks_leave_the_loss_and_have_its_gradient(monkeypatch, n_bytes: int) -> None:
    features, layer, targets = paired_inputs()
    leaves = [x.detach().requires_grad_() for x in (features, *layer.affine())]

    def loss(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        layer.affine = lambda: (weight, bias)
        return paired_loss(DecoderOutput(x, layer), targets, 0.1, 2.0)

    expected = loss(*leaves)
    monkeypatch.setattr(losses, "_BYTES_AT_ONCE", {"cpu": n_bytes})
    torch.testing.assert_close(loss(*leaves), expected)
    assert torch.autograd.gradcheck(lambda *x: loss(*x)[0], leaves, fast_mode=True)


@pytest.mark.parametrize("name", FIXED)
def test_equal_passes_leave_the_cross_entropy(name: str) -> None:
    model = model_of(name).double().train()
    expected, gradients = measured(model, CrossEntropy(0.1))
    sums, others = measured(model, RDrop(0.1, 5.0))
    torch.testing.assert_close(sums, expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(others, gradients, rtol=1e-7, atol=1e-9)


def test_dropout_makes_the_passes_differ() -> None:
    plain, paired = (
        measured(model_of("rnn", dropout=0.3), RDrop(0.0, alpha))[0] for alpha in (0.0, 5.0)
    )
    torch.testing.assert_close(plain.nll_sum, paired.nll_sum)
    assert paired.loss_sum > 1.001 * plain.nll_sum
