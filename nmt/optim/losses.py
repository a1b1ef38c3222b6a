"""Training losses and their configs.

To add a loss, write a subclass of `Loss` with `target_loss` and a config class with `build`. Add
the config to the union at the end. A loss may read the attention weights in the decoder's output.
"""

import abc
import functools
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nmt.batches.batching import Batch, BatchLinks
from nmt.models.base import DecoderOutput
from nmt.ops.backend import operations
from nmt.ops.precision import accumulate_dtype
from nmt.settings.base import Config, UserPath
from nmt.text.vocabulary import PAD_ID

TargetLoss = tuple[Float[Tensor, ""], Float[Tensor, "B T"]]
"""The loss summed over the target tokens, and -log p of each token, which is 0 at padding."""

Smoothing = Annotated[
    float, Field(ge=0, lt=1, description="label smoothing: probability shared by all pieces")
]
"""The label smoothing e (arXiv 1512.00567, section 7)."""


class LossSum(NamedTuple):
    """Sums over the target tokens of a batch, in nats.

    `loss_sum` is the training loss. `nll_sum` is the plain cross-entropy, without label smoothing
    and without the other terms of the loss.
    """

    loss_sum: Float[Tensor, ""]
    nll_sum: Float[Tensor, ""]


class Loss(abc.ABC):
    """A training loss, computed from the teacher-forced output of a decoder."""

    def needs_weights(self, batch: Batch) -> bool:
        """Return whether the loss reads the attention weights of this batch."""
        return False

    def at_epoch(self, epoch: int) -> "Loss":
        """Return the loss to use in `epoch` (from 0); by default the same loss in all epochs."""
        return self

    def inputs(self, batch: Batch) -> Batch:
        """Return the batch that the model and the loss receive; by default `batch` itself."""
        return batch

    def __call__(self, output: DecoderOutput, batch: Batch) -> LossSum:
        """Return the sums for a batch. `loss_sum` includes the auxiliary loss of `output`."""
        return _with_auxiliary(output, batch.tgt_out, *self.target_loss(output, batch))

    @abc.abstractmethod
    def target_loss(self, output: DecoderOutput, batch: Batch) -> TargetLoss:
        """Return the loss sum, without the auxiliary loss, and -log p of each target token.

        Only the loss sum needs a gradient. -log p is used in reports and by the auxiliary loss.
        """


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """The cross-entropy of the target with label smoothing; see `cross_entropy`."""

    smoothing: float = 0.0

    def target_loss(self, output: DecoderOutput, batch: Batch) -> TargetLoss:
        keep = batch.tgt_out != PAD_ID
        return output.vocabulary.cross_entropy(output.features, batch.tgt_out, keep, self.smoothing)


PLAIN = CrossEntropy()


@dataclass(frozen=True)
class GuidedAlignment(CrossEntropy):
    """The cross-entropy of the target plus `factor` times the `alignment_loss` of the attention.

    The alignment loss applies to the mean of `heads`, or to `output.weights` if `heads` is None.
    `factor` is multiplied by `decay` after each epoch. An update divides both losses by its number
    of target tokens.
    """

    factor: float = 1.0
    decay: float = 1.0
    heads: tuple[int, ...] | None = None

    def needs_weights(self, batch: Batch) -> bool:
        return batch.links is not None

    def at_epoch(self, epoch: int) -> Loss:
        return replace(self, factor=self.factor * self.decay**epoch)

    def target_loss(self, output: DecoderOutput, batch: Batch) -> TargetLoss:
        loss_sum, nlls = super().target_loss(output, batch)
        if batch.links is not None:
            loss_sum = loss_sum + self.factor * self.batch_alignment_loss(output, batch.links)
        return loss_sum, nlls

    def batch_alignment_loss(self, output: DecoderOutput, links: BatchLinks) -> Float[Tensor, ""]:
        """Return the alignment loss of a batch, not multiplied by `factor`."""
        assert output.weights is not None
        assert output.heads is not None
        if self.heads is None:
            return alignment_loss(output.weights, links)
        return alignment_loss(output.heads[:, self.heads].mean(dim=1), links)


@dataclass(frozen=True)
class RDrop(CrossEntropy):
    """1/2 [-log p(y) - log q(y) + alpha/2 (KL(p || q) + KL(q || p))], half of the R-Drop loss.

    p and q are the distributions of two passes with dropout (arXiv 2106.14448, section 2).
    """

    alpha: float = 0.0

    def inputs(self, batch: Batch) -> Batch:
        return batch.repeat()

    def __call__(self, output: DecoderOutput, batch: Batch) -> LossSum:
        both = super().__call__(output, batch)
        return LossSum(both.loss_sum / 2, both.nll_sum / 2)

    def target_loss(self, output: DecoderOutput, batch: Batch) -> TargetLoss:
        return paired_loss(output, batch.tgt_out, self.smoothing, self.alpha / 2)


_BYTES_AT_ONCE = {"cpu": 6 * 2**20, "cuda": 2**27}
"""Bytes of fp32 logits per chunk of tokens. On a CPU a chunk should not exceed the caches."""


def paired_loss(
    output: DecoderOutput, tgt_out: Int[Tensor, "N T"], smoothing: float, factor: float
) -> TargetLoss:
    """Return CE(p, y) + CE(q, y) + factor (KL(p || q) + KL(q || p)), and the NLL of each token.

    p and q are the distributions of the first and of the last N / 2 rows. The loss is summed over
    the target tokens y. CE is the cross-entropy with label smoothing `smoothing`. Gradients flow
    through p and q in every term. The logits are computed again in the backward pass, in chunks.

    The NLL is -log p(y) in the first rows and -log q(y) in the last, 0 at padding, and detached.
    """
    vocabulary, features = output.vocabulary, output.features
    ops = operations(vocabulary.backend, features)

    def chunk_loss(rows: Tensor, table: Tensor, bias: Tensor, targets: Tensor) -> TargetLoss:
        logits = ops.linear(rows, table, bias)
        log_probs = logits.log_softmax(dim=-1, dtype=accumulate_dtype(logits.dtype))
        keep = targets != PAD_ID
        nlls = -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1) * keep
        uniform = -log_probs[..., : vocabulary.n_pieces].mean(dim=-1) * keep
        log_p, log_q = log_probs
        divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1) * keep[0]
        loss = ((1 - smoothing) * nlls + smoothing * uniform).sum() + factor * divergence.sum()
        return loss, nlls.detach()

    n_bytes = _BYTES_AT_ONCE.get(features.device.type, 2**23)
    size = max(1, n_bytes // (2 * 4 * vocabulary.n_pieces))
    compute = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
    rows = torch.split(features.reshape(2, -1, features.shape[-1]), size, dim=1)
    targets = torch.split(tgt_out.view(2, -1), size, dim=1)
    affine = vocabulary.affine()
    chunks = [compute(chunk_loss, x, *affine, y) for x, y in zip(rows, targets, strict=True)]
    losses, nlls = zip(*chunks, strict=True)
    return torch.stack(losses).sum(), torch.cat(nlls, dim=1).view_as(tgt_out)


_LEAST_WEIGHT = 1e-10  # smaller weights, such as those outside a window, get no gradient


def alignment_loss(weights: Float[Tensor, "B T S"], links: BatchLinks) -> Float[Tensor, ""]:
    """Return -sum over links of share * log weight, in nats.

    For each linked target piece this is the cross-entropy between its shares, whose sum is 1, and
    its attention weights (arXiv 1607.01628; arXiv 1909.02074).
    """
    row, target, source = links.indices
    linked = weights[row, target, source].float().clamp_min(_LEAST_WEIGHT)
    return -(links.shares * linked.log()).sum()


def cross_entropy(
    output: DecoderOutput, tgt_out: Int[Tensor, "B T"], label_smoothing: float = 0.0
) -> LossSum:
    """Return the sums of the cross-entropy over the positions of `tgt_out` that are not padding.

    With label smoothing e, the target distribution in `loss_sum` is (1 - e) one-hot + e uniform
    over the vocabulary (arXiv 1512.00567, section 7). The auxiliary loss of `output` is added to
    `loss_sum` only. Under autocast the logits have autocast's dtype, but the sums are in fp32.
    """
    keep = tgt_out != PAD_ID
    loss = output.vocabulary.cross_entropy(output.features, tgt_out, keep, label_smoothing)
    return _with_auxiliary(output, tgt_out, *loss)


def _with_auxiliary(
    output: DecoderOutput,
    tgt_out: Int[Tensor, "B T"],
    loss_sum: Float[Tensor, ""],
    nlls: Float[Tensor, "B T"],
) -> LossSum:
    if output.auxiliary_loss is not None:
        loss_sum = loss_sum + output.auxiliary_loss.loss_sum(tgt_out != PAD_ID, -nlls)
    return LossSum(loss_sum, nlls.sum())


class LossOptions(Config, abc.ABC):
    """Base class of loss configs."""

    @abc.abstractmethod
    def build(self, heads: tuple[int, ...] | None = None) -> Loss:
        """Build the loss. `heads` are the attention heads that guided alignment trains."""


class CrossEntropyConfig(LossOptions):
    """The cross-entropy of the target, with label smoothing (arXiv 1512.00567, section 7)."""

    kind: Literal["cross_entropy"] = "cross_entropy"
    smoothing: Smoothing = 0.0

    def build(self, heads: tuple[int, ...] | None = None) -> Loss:
        return CrossEntropy(self.smoothing)


class GuidedAlignmentConfig(LossOptions):
    """The cross-entropy plus a loss that trains the attention to follow given word alignments.

    For each linked target piece the alignment loss is the cross-entropy between a uniform
    distribution over the linked source pieces and the attention weights (Chen et al. 2016, arXiv
    1607.01628; for one layer of a Transformer, Garg et al. 2019, arXiv 1909.02074).
    """

    kind: Literal["guided_alignment"] = "guided_alignment"
    smoothing: Smoothing = 0.0
    links: UserPath = Field(
        description="file of the word alignments of the training pairs, one line per pair in the "
        "same order, in the Pharaoh format (docs/alignment.md)"
    )
    factor: float = Field(
        default=0.5,
        gt=0,
        description="weight of the alignment loss; the cross-entropy has weight 1",
    )
    decay: float = Field(
        default=1.0, gt=0, le=1, description="`factor` is multiplied by this after each epoch"
    )
    heads: str = Field(
        default="mean",
        description="attention heads whose mean is trained, by their names in `nmt attention`; "
        "mean: those that attention maps show (in a Transformer, of model.attention_layer)",
    )

    def build(self, heads: tuple[int, ...] | None = None) -> Loss:
        """Build the loss on the mean of `heads`, or on `output.weights` if `heads` is None."""
        return GuidedAlignment(self.smoothing, self.factor, self.decay, heads)


class RDropConfig(LossOptions):
    """R-Drop (arXiv 2106.14448): the mean cross-entropy of two passes, plus their divergence."""

    kind: Literal["r_drop"] = "r_drop"
    smoothing: Smoothing = 0.0
    alpha: float = Field(default=5.0, gt=0, description="weight of the divergence in the paper")

    def build(self, heads: tuple[int, ...] | None = None) -> Loss:
        return RDrop(self.smoothing, self.alpha)


LossConfig = Annotated[
    CrossEntropyConfig | GuidedAlignmentConfig | RDropConfig, Field(discriminator="kind")
]
