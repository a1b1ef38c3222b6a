"""How scores become weights: softmax, sparsemax, or one position chosen by its probability."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from nmt.models.base import Surrogate
from nmt.models.beams import Beams
from nmt.ops.masks import keep_like, softmax_where
from nmt.settings.base import Config


@dataclass(frozen=True)
class Choice:
    """The terms of REINFORCE for positions drawn at random, summed over the heads.

    `log_probs`: of the drawn position, 0 where none was drawn; `entropies`: of the distribution
    that it was drawn from. Both in nats.
    """

    log_probs: Float[Tensor, "B Q"]
    entropies: Float[Tensor, "B Q"]

    @staticmethod
    def together(choices: Sequence["Choice"]) -> "Choice | None":
        """The choices concatenated along Q; None where there are none."""
        if not choices:
            return None
        return Choice(
            torch.cat([choice.log_probs for choice in choices], dim=1),
            torch.cat([choice.entropies for choice in choices], dim=1),
        )

    def view(self, n_rows: int, n_queries: int) -> "Choice":
        """Both tensors in the shape (n_rows, n_queries)."""
        shape = (n_rows, n_queries)
        return Choice(self.log_probs.view(shape), self.entropies.view(shape))

    def apart(self, beams: Beams) -> "Choice":
        """The choices of Beams.together's queries, row by row again."""
        return Choice(beams.apart(self.log_probs), beams.apart(self.entropies))


class Weighted(NamedTuple):
    """Weights, and the positions that were drawn for them, if any were."""

    weights: Float[Tensor, "B N Q S"]
    choice: Choice | None = None


class Weighting(nn.Module, abc.ABC):
    """From scores to weights >= 0 that sum to 1 over S, exactly 0 where `keep` is False."""

    is_softmax = False
    """Whether the weights are the softmax of the scores and nothing else."""

    @abc.abstractmethod
    def forward(self, scores: Float[Tensor, "B N Q S"], keep: Bool[Tensor, "B S"]) -> Weighted:
        """The weights of each query of each head."""

    def surrogate(self, choice: Choice) -> Surrogate | None:
        """The term that the training loss must add for these choices, if there is one."""
        return None


class SoftConfig(Config):
    """The softmax of the scores: every position gets some weight."""

    kind: Literal["soft"] = "soft"

    def build(self) -> Weighting:
        """The module."""
        return SoftWeighting()


class SoftWeighting(Weighting):
    """weights = softmax(scores)."""

    is_softmax = True

    def forward(self, scores: Float[Tensor, "B N Q S"], keep: Bool[Tensor, "B S"]) -> Weighted:
        """See Weighting."""
        return Weighted(softmax_where(scores, keep))


class SparsemaxConfig(Config):
    """The point of the simplex nearest to the scores: few positions, the others exactly 0."""

    kind: Literal["sparsemax"] = "sparsemax"

    def build(self) -> Weighting:
        """The module."""
        return SparsemaxWeighting()


class SparsemaxWeighting(Weighting):
    """weights = argmin_p ||p - scores||^2 over the simplex (arXiv 1602.02068, algorithm 1)."""

    def forward(self, scores: Float[Tensor, "B N Q S"], keep: Bool[Tensor, "B S"]) -> Weighted:
        """See Weighting."""
        return Weighted(sparsemax_where(scores, keep_like(keep, scores)))


def sparsemax_where(
    scores: Float[Tensor, "*L S"], keep: Bool[Tensor, "*#L S"]
) -> Float[Tensor, "*L S"]:
    """p = max(scores - tau, 0), with tau such that p sums to 1 over the kept positions.

    Only scores within 1 of the largest can be in the support, so the others are lifted to 2
    below it: the same result without infinities. Computed in fp32 at least.
    """
    dtype = torch.promote_types(scores.dtype, torch.float32)
    lowest = torch.finfo(dtype).min
    z = scores.to(dtype).masked_fill(~keep, lowest)
    z = z - z.amax(dim=-1, keepdim=True)
    z = torch.where(keep, z.clamp(min=-2.0), torch.full_like(z, -2.0))
    ordered = z.sort(dim=-1, descending=True).values
    sums = ordered.cumsum(dim=-1)
    ranks = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=dtype)
    size = (1 + ranks * ordered > sums).sum(dim=-1, keepdim=True)
    tau = (sums.gather(-1, size - 1) - 1) / size
    return (torch.relu(z - tau) * keep).to(scores.dtype)


class HardConfig(Config):
    """One position, drawn at random in training, the most likely one afterwards.

    Trained by REINFORCE with a moving baseline and an entropy term, as in arXiv 1502.03044,
    section 4.1, but for the reward: the log-likelihood of the step's own piece. The paper's is
    that of the whole sentence.
    """

    kind: Literal["hard"] = "hard"
    reward: float = Field(default=1.0, gt=0, description="weight of REINFORCE in the loss")
    entropy: float = Field(
        default=0.01, ge=0, description="weight of the entropy, which keeps it exploring"
    )
    baseline_decay: float = Field(
        default=0.9, ge=0, lt=1, description="share of the old baseline kept at each batch"
    )
    soft_share: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="probability that a step takes the softmax weights instead of a position",
    )

    def build(self) -> Weighting:
        """The module."""
        return HardWeighting(self)


class HardWeighting(Weighting):
    """weights = one_hot(position), position ~ softmax(scores) in training, argmax otherwise."""

    baseline: Tensor

    def __init__(self, config: HardConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("baseline", torch.zeros(()))  # saved: a resumed run needs it

    def forward(self, scores: Float[Tensor, "B N Q S"], keep: Bool[Tensor, "B S"]) -> Weighted:
        """See Weighting. The choice has no gradient here; the surrogate gives it one."""
        kept = keep_like(keep, scores)
        if not self.training:
            return Weighted(one_hot_where(scores, kept))
        soft = softmax_where(scores, keep)
        log_soft = soft.clamp(min=torch.finfo(soft.dtype).tiny).log()
        hard = one_hot_where(log_soft + gumbel_like(scores), kept)
        is_soft = torch.rand_like(scores[:, :1, :, :1]) < self.config.soft_share
        log_probs = (hard * log_soft).sum(dim=-1).masked_fill(is_soft.squeeze(-1), 0.0)
        entropies = -(soft * log_soft).sum(dim=-1)
        choice = Choice(log_probs.sum(dim=1), entropies.sum(dim=1))
        return Weighted(torch.where(is_soft, soft, hard), choice)

    def surrogate(self, choice: Choice) -> Surrogate:
        """The REINFORCE term of these choices."""
        return Reinforce(self, choice)


class Reinforce(Surrogate):
    """-sum_t [reward (r_t - b) log p(position_t) + entropy H_t].

    r_t is the log-likelihood of step t's right piece alone; b is a moving average of it, H_t the
    entropy of the weights. The form is that of arXiv 1502.03044, equation 12, whose reward is the
    log-likelihood of the whole sentence. Here the effect of a draw on later pieces is not rewarded:
    the estimate has less variance but leaves out that effect.
    """

    def __init__(self, weighting: HardWeighting, choice: Choice) -> None:
        self.weighting = weighting
        self.choice = choice

    def loss_sum(
        self, keep: Bool[Tensor, "B T"], log_likelihoods: Float[Tensor, " n"]
    ) -> Float[Tensor, ""]:
        """See Surrogate. It updates the baseline: call it once per batch."""
        config, baseline = self.weighting.config, self.weighting.baseline
        log_probs, entropies = self.choice.log_probs[keep], self.choice.entropies[keep]
        advantages = log_likelihoods.to(log_probs.dtype) - baseline
        if len(log_likelihoods):
            mean = log_likelihoods.mean().to(baseline.dtype)
            baseline.lerp_(mean, 1 - config.baseline_decay)
        return -(config.reward * advantages * log_probs + config.entropy * entropies).sum()


class HardGumbelConfig(Config):
    """One position in the forward pass, the gradient of a softmax in the backward pass.

    Straight-through Gumbel-softmax (arXiv 1611.01144, section 2.2).
    """

    kind: Literal["hard_gumbel"] = "hard_gumbel"
    temperature: float = Field(
        default=1.0, gt=0, description="of the softmax whose gradient is used; low is sharp"
    )

    def build(self) -> Weighting:
        """The module."""
        return HardGumbelWeighting(self.temperature)


class HardGumbelWeighting(Weighting):
    """weights = one_hot(argmax(scores + g)), g ~ Gumbel in training and 0 otherwise."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Float[Tensor, "B N Q S"], keep: Bool[Tensor, "B S"]) -> Weighted:
        """See Weighting."""
        kept = keep_like(keep, scores)
        if not self.training:
            return Weighted(one_hot_where(scores, kept))
        noisy = (scores + gumbel_like(scores)) / self.temperature
        soft = softmax_where(noisy, keep)
        hard = one_hot_where(noisy, kept)
        return Weighted(hard + soft - soft.detach())


def one_hot_where(
    scores: Float[Tensor, "*L S"], keep: Bool[Tensor, "*#L S"]
) -> Float[Tensor, "*L S"]:
    """1 at the largest kept score (the first of equals), 0 elsewhere."""
    lowest = torch.finfo(scores.dtype).min
    best = scores.masked_fill(~keep, lowest).argmax(dim=-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, best, 1.0) * keep


def gumbel_like(scores: Float[Tensor, "*L S"]) -> Float[Tensor, "*L S"]:
    """Noise whose argmax over scores + noise draws from softmax(scores)."""
    return -torch.empty_like(scores).exponential_().log()


WeightingConfig = Annotated[
    SoftConfig | SparsemaxConfig | HardConfig | HardGumbelConfig, Field(discriminator="kind")
]
