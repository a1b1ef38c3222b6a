"""The loss is a sum over real target tokens, against torch's own as the reference."""

import pytest
import torch
from devices import DEVICE
from torch import nn

from nmt.models.base import DecoderOutput
from nmt.models.vocabulary import VocabLinear
from nmt.optim.losses import cross_entropy
from nmt.text.vocabulary import PAD_ID

VOCAB = 29


def _inputs() -> tuple[DecoderOutput, torch.Tensor]:
    torch.manual_seed(0)
    layer = VocabLinear(7, VOCAB)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    targets = torch.randint(4, VOCAB, (3, 5))
    targets[0, 2:] = PAD_ID
    return DecoderOutput(torch.randn(3, 5, 7).requires_grad_(), layer), targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_torchs_cross_entropy_over_the_real_rows(smoothing: float) -> None:
    """Also the plain cross-entropy beside a smoothed loss; padding gets no gradient."""
    output, targets = _inputs()
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
    of_features = output.features.grad
    assert of_features is not None
    assert (of_features[0, 2:] == 0).all()
    assert (of_features[0, :2].abs().sum(-1) > 0).all()
    for parameter in output.vocabulary.parameters():
        assert parameter.grad is not None
        assert (parameter.grad[VOCAB:] == 0).all()
        assert (parameter.grad[:VOCAB] != 0).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_are_in_fp32_under_autocast(dtype: torch.dtype) -> None:
    output, targets = _inputs()
    exact = cross_entropy(output, targets)
    with torch.autocast(DEVICE, dtype=dtype):
        loss = cross_entropy(output, targets)
    assert loss.loss_sum.dtype == loss.nll_sum.dtype == torch.float32
    torch.testing.assert_close(loss.loss_sum, exact.loss_sum, rtol=0.01, atol=0)
