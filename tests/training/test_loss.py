"""The loss is a sum over real target tokens, against torch's own as the reference."""

import pytest
import torch
from torch import nn

from nmt.corpus.vocab import PAD_ID
from nmt.training.loss import cross_entropy

VOCAB, ROWS = 29, 64


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    logits = torch.randn(3, 5, ROWS)
    logits[..., VOCAB:] = -1e4
    targets = torch.randint(4, VOCAB, (3, 5))
    targets[0, 2:] = PAD_ID
    return logits.requires_grad_(), targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_torchs_cross_entropy_over_the_real_rows(smoothing: float) -> None:
    logits, targets = _inputs()
    loss = cross_entropy(logits, targets, VOCAB, smoothing)
    expected = nn.functional.cross_entropy(
        logits[..., :VOCAB].flatten(0, 1),
        targets.flatten(),
        ignore_index=PAD_ID,
        label_smoothing=smoothing,
        reduction="sum",
    )
    torch.testing.assert_close(loss.loss_sum, expected)
    assert loss.n_tokens == 12


def test_plain_cross_entropy_is_reported_beside_the_smoothed_loss() -> None:
    logits, targets = _inputs()
    smoothed = cross_entropy(logits, targets, VOCAB, 0.3)
    plain = cross_entropy(logits, targets, VOCAB)
    torch.testing.assert_close(smoothed.nll_sum, plain.loss_sum.detach())
    assert smoothed.loss_sum != plain.loss_sum


def test_padding_gets_no_gradient() -> None:
    logits, targets = _inputs()
    cross_entropy(logits, targets, VOCAB, 0.1).loss_sum.backward()
    assert logits.grad is not None
    assert (logits.grad[0, 2:] == 0).all()
    assert (logits.grad[0, :2].abs().sum(-1) > 0).all()
    assert (logits.grad[..., VOCAB:] == 0).all()


def test_is_computed_in_fp32() -> None:
    logits, targets = _inputs()
    assert cross_entropy(logits.bfloat16(), targets, VOCAB).loss_sum.dtype == torch.float32
