"""Maps from scores to attention weights: softmax, sparsemax, or hard attention to one position."""

import abc
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from nmt.models.base import AuxiliaryLoss
from nmt.models.shapes import HeadScores, Mask, TargetMask
from nmt.ops.masks import broadcastable_keep, softmax_over_kept
from nmt.settings.base import Config


@dataclass(frozen=True)
class SampleStatistics:
    """The log-probabilities and entropies of sampled positions, in nats, summed over the heads.

    `log_probs` are 0 for sentences that use expected weights instead of samples. `entropies` are
    the entropies of the distributions over positions. The REINFORCE loss uses both.
    """

    log_probs: Float[Tensor, "B Q"]
    entropies: Float[Tensor, "B Q"]

    @staticmethod
    def concatenate(parts: Iterable["SampleStatistics | None"]) -> "SampleStatistics | None":
        """Concatenate statistics along Q; return None if all parts are None."""
        present = [part for part in parts if part is not None]
        if not present:
            return None
        return SampleStatistics(
            torch.cat([part.log_probs for part in present], dim=1),
            torch.cat([part.entropies for part in present], dim=1),
        )

    def view(self, n_rows: int, n_queries: int) -> "SampleStatistics":
        shape = (n_rows, n_queries)
        return SampleStatistics(self.log_probs.view(shape), self.entropies.view(shape))


@dataclass(frozen=True)
class WeightingOutput:
    """Attention weights and, if they are samples, statistics of the samples.

    `expected` is the distribution of the samples, which a sentence may use as weights instead.
    """

    weights: Float[Tensor, "B N Q S"]
    samples: SampleStatistics | None = None
    expected: Float[Tensor, "B N Q S"] | None = None

    def mix_expected(
        self, soft: Bool[Tensor, " B"] | None
    ) -> tuple[HeadScores, SampleStatistics | None]:
        """Return the weights and statistics; rows where `soft` is True get expected weights."""
        if soft is None or self.expected is None or self.samples is None:
            return self.weights, self.samples
        weights = torch.where(soft[:, None, None, None], self.expected, self.weights)
        log_probs = self.samples.log_probs.masked_fill(soft.unsqueeze(1), 0.0)
        return weights, replace(self.samples, log_probs=log_probs)


class Weighting(nn.Module, abc.ABC):
    """Maps scores to weights >= 0 that sum to 1 over S and are exactly 0 where `keep` is False."""

    is_softmax = False  # whether the weights are the softmax of the scores

    @abc.abstractmethod
    def forward(self, scores: HeadScores, keep: Mask) -> WeightingOutput:
        """Return the weights of each query of each head."""

    def sample_soft_rows(self, keep: Mask) -> Bool[Tensor, " B"] | None:
        """Draw a mask of the sentences that use expected weights at all steps, or return None."""
        return None

    def auxiliary_loss(self, samples: SampleStatistics) -> AuxiliaryLoss | None:
        """Return the term of the training loss that depends on these samples, or None."""
        return None


class SoftConfig(Config):
    """Softmax of the scores: every position gets some weight."""

    kind: Literal["soft"] = "soft"

    def build(self) -> Weighting:
        return SoftWeighting()


class SoftWeighting(Weighting):
    """weights = softmax(scores)."""

    is_softmax = True

    def forward(self, scores: HeadScores, keep: Mask) -> WeightingOutput:
        return WeightingOutput(softmax_over_kept(scores, keep))


class SparsemaxConfig(Config):
    """The point of the simplex nearest to the scores: few positions have a weight above 0."""

    kind: Literal["sparsemax"] = "sparsemax"

    def build(self) -> Weighting:
        return SparsemaxWeighting()


class SparsemaxWeighting(Weighting):
    """weights = argmin_p ||p - scores||^2 over the simplex (arXiv 1602.02068, algorithm 1)."""

    def forward(self, scores: HeadScores, keep: Mask) -> WeightingOutput:
        return WeightingOutput(masked_sparsemax(scores, keep))


def masked_sparsemax(
    scores: Float[Tensor, "B *L S"], keep: Bool[Tensor, "B *_ S"]
) -> Float[Tensor, "B *L S"]:
    """Return p = max(scores - tau, 0), with tau such that p sums to 1 over the kept positions.

    Only scores within 1 of the largest can get weight. Lower scores are clamped to the largest
    minus 2, which avoids infinities without changing p. The computation is in fp32 or fp64.
    """
    keep = broadcastable_keep(keep, scores)
    dtype = torch.promote_types(scores.dtype, torch.float32)
    z = scores.to(dtype).masked_fill(~keep, torch.finfo(dtype).min)
    z = z - z.amax(dim=-1, keepdim=True)
    z = z.clamp(min=-2.0).masked_fill(~keep, -2.0)
    ordered = z.sort(dim=-1, descending=True).values
    sums = ordered.cumsum(dim=-1)
    ranks = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=dtype)
    size = (1 + ranks * ordered > sums).sum(dim=-1, keepdim=True)
    tau = (sums.gather(-1, size - 1) - 1) / size
    return (torch.relu(z - tau) * keep).to(scores.dtype)


class HardConfig(Config):
    """Hard attention to one position: sampled in training, the most probable one otherwise.

    It is trained by REINFORCE with an entropy term and a baseline, which is a moving average over
    batches (arXiv 1502.03044, section 4.1). `credit: sentence`, as in the paper, learns slowly.
    """

    kind: Literal["hard"] = "hard"
    credit: Literal["sentence", "future"] = Field(
        default="future",
        description="log-likelihood that rewards a sample. sentence: of the whole sentence, as in "
        "the paper; future: of this and later pieces only (same mean gradient, less variance)",
    )
    reward: float = Field(
        default=0.05,
        gt=0,
        description="weight of REINFORCE in the loss; 1 gives the gradient of the paper's bound",
    )
    entropy: float = Field(
        default=0.01, ge=0, description="weight of the entropy term, which favours exploration"
    )
    soft_share: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="probability that a sentence uses softmax weights instead of samples",
    )

    def build(self) -> Weighting:
        return HardWeighting(self)


_DECAY = 0.9  # share of the old baseline in the new one, per batch (arXiv 1502.03044, section 4.1)


class HardWeighting(Weighting):
    """weights = one_hot(position), position ~ softmax(scores) in training, argmax otherwise."""

    baseline: Tensor

    def __init__(self, config: HardConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("baseline", torch.zeros(()))  # saved, for resumed runs

    def forward(self, scores: HeadScores, keep: Mask) -> WeightingOutput:
        """Return one-hot weights. They have no gradient; the auxiliary loss provides one."""
        if not self.training:
            return WeightingOutput(masked_argmax_one_hot(scores, keep))
        soft = softmax_over_kept(scores, keep)
        log_soft = soft.clamp(min=torch.finfo(soft.dtype).tiny).log()
        hard = masked_argmax_one_hot(log_soft + gumbel_like(scores), keep)
        log_probs = (hard * log_soft).sum(dim=-1).sum(dim=1)
        entropies = -(soft * log_soft).sum(dim=-1).sum(dim=1)
        return WeightingOutput(hard, SampleStatistics(log_probs, entropies), soft)

    def sample_soft_rows(self, keep: Mask) -> Bool[Tensor, " B"] | None:
        """Select each sentence with probability `soft_share`, in training only."""
        if not self.training or not self.config.soft_share:
            return None
        return torch.rand(len(keep), device=keep.device) < self.config.soft_share

    def auxiliary_loss(self, samples: SampleStatistics) -> AuxiliaryLoss:
        return Reinforce(self, samples)


@dataclass(frozen=True)
class Reinforce(AuxiliaryLoss):
    """-sum_t [reward (R_t - b_t) log p(s_t) + entropy H_t], where step t samples position s_t.

    It is added to -log p(y | s), whose gradient flows through everything except the samples. With
    reward 1 and entropy 0, the expected gradient is that of -L_s (arXiv 1502.03044, eq. 10-12):

        L_s = sum over all s of p(s) log p(y | s) <= log p(y).

    With the credit `sentence`, R_t = log p(y | s) is the same at all steps of a sentence, and b_t
    is its moving average over batches, b <- 0.9 b + 0.1 mean log p(y | s). With `future`, R_t sums
    over the pieces from t on, because earlier pieces do not depend on the sample. b_t is then the
    moving average of a piece's log-likelihood, times the number of pieces in the sum.
    """

    weighting: HardWeighting
    samples: SampleStatistics

    def loss_sum(
        self, keep: TargetMask, log_likelihoods: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Return the term and update the baseline: call this once per batch."""
        config, baseline = self.weighting.config, self.weighting.baseline
        pieces = keep.to(baseline.dtype)
        likelihoods = log_likelihoods.to(baseline.dtype)
        if config.credit == "future":
            rewards, units = (x.flip(1).cumsum(1).flip(1) for x in (likelihoods, pieces))
            n_units = pieces.sum()
        else:
            rewards, units = likelihoods.sum(1, keepdim=True), keep.any(1, keepdim=True)
            n_units = units.sum()
        advantages = rewards - baseline * units
        mean = likelihoods.sum() / n_units.clamp(min=1)
        baseline.lerp_(torch.where(n_units > 0, mean, baseline), 1 - _DECAY)
        terms = config.reward * advantages * self.samples.log_probs
        return -((terms + config.entropy * self.samples.entropies) * pieces).sum()


@dataclass(frozen=True)
class DoublyStochastic(AuxiliaryLoss):
    """strength * sum over source positions i of (1 - sum over target steps t of weights_ti)^2.

    Equation 14 of arXiv 1502.03044: over a sentence, all positions should get a total weight of 1.
    Padding of source and target is left out. As in the paper, a sentence's term is added to its
    -log p(y). Both are divided by the number of target tokens in the whole update.
    """

    strength: float
    weights: Float[Tensor, "B T S"]
    keep: Mask

    def loss_sum(
        self, keep: TargetMask, log_likelihoods: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        sums = (self.weights * keep.unsqueeze(2)).sum(dim=1)
        return self.strength * ((1 - sums).square() * self.keep).sum()


class HardGumbelConfig(Config):
    """Hard attention to one position, with the gradient of a softmax in the backward pass.

    Straight-through Gumbel-softmax (arXiv 1611.01144, section 2.2).
    """

    kind: Literal["hard_gumbel"] = "hard_gumbel"
    temperature: float = Field(
        default=1.0, gt=0, description="temperature of the softmax; lower is sharper"
    )

    def build(self) -> Weighting:
        return HardGumbelWeighting(self.temperature)


class HardGumbelWeighting(Weighting):
    """weights = one_hot(argmax(scores + g)), g ~ Gumbel in training and 0 otherwise."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: HeadScores, keep: Mask) -> WeightingOutput:
        if not self.training:
            return WeightingOutput(masked_argmax_one_hot(scores, keep))
        noisy = (scores + gumbel_like(scores)) / self.temperature
        soft = softmax_over_kept(noisy, keep)
        hard = masked_argmax_one_hot(noisy, keep)
        return WeightingOutput(hard + soft - soft.detach())


def masked_argmax_one_hot(
    scores: Float[Tensor, "B *L S"], keep: Bool[Tensor, "B *_ S"]
) -> Float[Tensor, "B *L S"]:
    """Return 1 at the largest kept score (the first, if several are equal) and 0 elsewhere."""
    keep = broadcastable_keep(keep, scores)
    kept_scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
    best = kept_scores.argmax(dim=-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, best, 1.0) * keep


def gumbel_like(scores: Float[Tensor, "*L S"]) -> Float[Tensor, "*L S"]:
    """Return Gumbel noise: the argmax of scores + noise is a sample from softmax(scores)."""
    return -torch.empty_like(scores).exponential_().log()


WeightingConfig = Annotated[
    SoftConfig | SparsemaxConfig | HardConfig | HardGumbelConfig, Field(discriminator="kind")
]
