"""Optimisers by config; all are torch's."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from nmt.ops.backend import why_no_triton
from nmt.settings.base import Config

NamedParameters = Iterable[tuple[str, torch.nn.Parameter]]

MAX_LR = 1e6
"""The highest learning rate allowed; no optimiser needs more."""


def with_decay(parameters: NamedParameters, weight_decay: float) -> list[dict[str, Any]]:
    """Return torch's groups of parameters: matrices, which decay, and vectors, which do not.

    The biases and gains of a model are vectors. An optimiser that treats its parameters in another
    way makes groups from their names and shapes in its `build`.
    """
    named = list(parameters)
    matrices = [(name, p) for name, p in named if p.ndim >= 2]
    vectors = [(name, p) for name, p in named if p.ndim < 2]
    return [
        {"params": group, "weight_decay": decay}
        for group, decay in ((matrices, weight_decay), (vectors, 0.0))
        if group
    ]


class AdamConfig(Config):
    """Adam (arXiv 1412.6980); `weight_decay` is the classic L2 penalty, which the moments see."""

    kind: Literal["adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of the mean gradient")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="decay of the mean square")
    eps: float = Field(default=1e-8, gt=0, description="added to the root of the mean square")
    weight_decay: float = Field(
        default=0.0, ge=0, description="share of all weights, biases too, added to the gradient"
    )

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        """torch.optim.Adam."""
        return torch.optim.Adam(
            parameters,
            lr,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            weight_decay=self.weight_decay,
            fused=True,
        )


class AdamWConfig(AdamConfig):
    """Adam with decoupled weight decay (arXiv 1711.05101) of matrices, embeddings among them.

    Biases, gains of normalisation layers and other vectors do not decay.
    """

    kind: Literal["adamw"] = "adamw"  # type: ignore[assignment]
    weight_decay: float = Field(
        default=0.01, ge=0, description="share of lr taken off matrices; vectors do not decay"
    )

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        """torch.optim.AdamW with a group of matrices and one of vectors."""
        groups = with_decay(parameters, self.weight_decay)
        return torch.optim.AdamW(
            groups, lr, betas=(self.beta1, self.beta2), eps=self.eps, fused=True
        )


class SGDConfig(Config):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.0, ge=0, lt=1, description="decay of the velocity")

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        """torch.optim.SGD."""
        return torch.optim.SGD(parameters, lr, momentum=self.momentum)


class Adadelta(torch.optim.Adadelta):
    """torch's Adadelta by Triton: a weight takes one pass over memory, where torch takes 28."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        trained = [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if closure is not None or not all(_is_plain(parameter) for parameter, _ in trained):
            return super().step(closure)
        from nmt.ops.triton.operations import adadelta  # imports Triton

        for parameter, group in trained:
            state = self.state[parameter]
            if not state:  # as torch begins
                state["step"] = torch.zeros((), dtype=torch.float32, device="cpu")
                state |= {k: torch.zeros_like(parameter) for k in ("square_avg", "acc_delta")}
            state["step"] += 1
            means = state["square_avg"], state["acc_delta"]
            numbers = group["lr"], group["rho"], group["eps"]
            adadelta(parameter, parameter.grad, *means, *numbers)
        return None


def _is_plain(parameter: torch.nn.Parameter) -> bool:
    """Whether a weight and its gradient are contiguous fp32 on a CUDA GPU."""
    return all(
        x is not None and x.is_cuda and x.dtype == torch.float32 and x.is_contiguous()
        for x in (parameter, parameter.grad)
    )


class AdadeltaConfig(Config):
    """Adadelta (arXiv 1212.5701); with lr 1 the rule of the attention paper."""

    kind: Literal["adadelta"] = "adadelta"
    rho: float = Field(default=0.95, ge=0, lt=1, description="decay of both mean squares")
    eps: float = Field(default=1e-6, gt=0, description="added to both mean squares")

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        """torch.optim.Adadelta, in one pass where Triton can run."""
        kind = torch.optim.Adadelta if why_no_triton() else Adadelta
        return kind(parameters, lr, rho=self.rho, eps=self.eps)


OptimizerConfig = Annotated[
    AdamConfig | AdamWConfig | SGDConfig | AdadeltaConfig, Field(discriminator="kind")
]
