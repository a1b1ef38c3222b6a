"""The loss of a training by config: a sum and a token count, divided once per update.

To add a loss, write a config class with `build` and a `Loss` with `of_targets`, and name the config
in the union at the end. A loss sees the decoder's output, the attention weights included.
"""

import abc
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from nmt.batches.batching import Batch, BatchLinks
from nmt.models.base import DecoderOutput
from nmt.settings.base import Config, UserPath
from nmt.text.vocabulary import PAD_ID

Smoothing = Annotated[
    float, Field(ge=0, lt=1, description="probability spread evenly over all pieces")
]
"""The share of label smoothing (arXiv 1512.00567, section 7)."""


class LossSum(NamedTuple):
    """Sums over the targets of a batch, in nats: the loss to train on, and the plain cross-entropy.

    They are equal without label smoothing and without an auxiliary loss.
    """

    loss_sum: Float[Tensor, ""]
    nll_sum: Float[Tensor, ""]


class Loss(abc.ABC):
    """The loss of a batch, from the teacher-forced output of a decoder."""

    def needs_weights(self, batch: Batch) -> bool:
        """Return whether the loss reads the attention weights of this batch."""
        return False

    def at_epoch(self, epoch: int) -> "Loss":
        """Return the loss of an epoch, from 0; by default the same in each."""
        return self

    def __call__(self, output: DecoderOutput, batch: Batch) -> LossSum:
        """Return the loss of the targets, and the auxiliary loss of the output if there is one."""
        return _with_auxiliary(output, batch.tgt_out, *self.of_targets(output, batch))

    @abc.abstractmethod
    def of_targets(
        self, output: DecoderOutput, batch: Batch
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
        """Return the loss summed over the targets, and -log p of each target, 0 at padding.

        The gradient flows through the sum; -log p is for reports and for the auxiliary loss.
        """


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """`cross_entropy` with this label smoothing."""

    smoothing: float = 0.0

    def of_targets(
        self, output: DecoderOutput, batch: Batch
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
        return _smoothed(output, batch.tgt_out, self.smoothing)


PLAIN = CrossEntropy()


@dataclass(frozen=True)
class GuidedAlignment(Loss):
    """Cross-entropy of the target, and `factor` times that of the attention given word links.

    `heads` are those whose mean is taught, None for the mean that the model shows. The sum over
    the links is, like that over the target, divided by the tokens of the update.
    """

    smoothing: float = 0.0
    factor: float = 1.0
    decay: float = 1.0
    heads: tuple[int, ...] | None = None

    def needs_weights(self, batch: Batch) -> bool:
        return batch.links is not None

    def at_epoch(self, epoch: int) -> Loss:
        return replace(self, factor=self.factor * self.decay**epoch)

    def of_targets(
        self, output: DecoderOutput, batch: Batch
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
        loss_sum, nlls = _smoothed(output, batch.tgt_out, self.smoothing)
        if batch.links is not None:
            loss_sum = loss_sum + self.factor * self.links_sum(output, batch.links)
        return loss_sum, nlls

    def links_sum(self, output: DecoderOutput, links: BatchLinks) -> Float[Tensor, ""]:
        """Return `alignment_loss` of the taught heads, without the factor."""
        assert output.weights is not None
        assert output.heads is not None
        if self.heads is None:
            return alignment_loss(output.weights, links)
        return alignment_loss(output.heads[:, self.heads].mean(dim=1), links)


_LEAST_WEIGHT = 1e-10
"""Below it, as outside of a window, a weight has no gradient in `alignment_loss`."""


def alignment_loss(weights: Float[Tensor, "B T S"], links: BatchLinks) -> Float[Tensor, ""]:
    """Return -sum over links of share * log weight: nats, over the target pieces with links.

    For each of these it is the cross-entropy of its weights against its shares, which sum to 1
    (arXiv 1607.01628; arXiv 1909.02074).
    """
    row, target, source = links.places
    linked = weights[row, target, source].float().clamp_min(_LEAST_WEIGHT)
    return -(links.shares * linked.log()).sum()


def cross_entropy(
    output: DecoderOutput, tgt_out: Int[Tensor, "B T"], label_smoothing: float = 0.0
) -> LossSum:
    """Return -sum log p(target), over the positions of `tgt_out` that are not padding.

    With smoothing e the target distribution is (1 - e) one-hot + e uniform over the vocabulary
    (arXiv 1512.00567, section 7). The output's auxiliary loss is added to `loss_sum` and not to
    `nll_sum`. Where autocast is on, the logits are in its dtype; the sums never are.
    """
    return _with_auxiliary(output, tgt_out, *_smoothed(output, tgt_out, label_smoothing))


def _smoothed(
    output: DecoderOutput, tgt_out: Int[Tensor, "B T"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
    keep = tgt_out != PAD_ID
    return output.vocabulary.cross_entropy(output.features, tgt_out, keep, smoothing)


def _with_auxiliary(
    output: DecoderOutput,
    tgt_out: Int[Tensor, "B T"],
    loss_sum: Float[Tensor, ""],
    nlls: Float[Tensor, "B T"],
) -> LossSum:
    if output.auxiliary_loss is not None:
        loss_sum = loss_sum + output.auxiliary_loss.loss_sum(tgt_out != PAD_ID, -nlls)
    return LossSum(loss_sum, nlls.sum())


class CrossEntropyConfig(Config):
    """The cross-entropy of the target, with label smoothing (arXiv 1512.00567, section 7)."""

    kind: Literal["cross_entropy"] = "cross_entropy"
    smoothing: Smoothing = 0.0

    def build(self, heads: tuple[int, ...] | None = None) -> Loss:
        """Return the loss."""
        return CrossEntropy(self.smoothing)


class GuidedAlignmentConfig(Config):
    """The cross-entropy of the target, and a loss that teaches attention word links made elsewhere
    (Chen et al. 2016, arXiv 1607.01628; for a Transformer's layer Garg et al. 2019, arXiv
    1909.02074): the cross-entropy of each linked target piece's weights against an even share for
    each source piece that it is linked with.
    """

    kind: Literal["guided_alignment"] = "guided_alignment"
    smoothing: Smoothing = 0.0
    links: UserPath = Field(
        description="the links of the training pairs, a line a pair in their order, in the Pharaoh "
        "format (docs/alignment.md)"
    )
    factor: float = Field(
        default=0.5, gt=0, description="weight of the links' loss beside the translation's"
    )
    decay: float = Field(
        default=1.0, gt=0, le=1, description="factor by which `factor` changes after each epoch"
    )
    heads: str = Field(
        default="mean",
        description="the heads whose mean is taught, by the names that `nmt attention` takes; "
        "mean: what maps show, of a Transformer the heads of model.attention_layer",
    )

    def build(self, heads: tuple[int, ...] | None = None) -> Loss:
        """Return the loss that teaches these heads, None for the mean that the model shows."""
        return GuidedAlignment(self.smoothing, self.factor, self.decay, heads)


LossConfig = Annotated[CrossEntropyConfig | GuidedAlignmentConfig, Field(discriminator="kind")]
