"""Configs of torch's optimisers, and of averages of the weights."""

import abc
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from nmt.ops.backend import why_no_triton
from nmt.settings.base import Config

NamedParameters = Iterable[tuple[str, torch.nn.Parameter]]

MAX_LR = 1e6  # the highest learning rate allowed; no optimiser needs more


class OptimizerOptions(Config, abc.ABC):
    """Base class of optimiser configs."""

    @abc.abstractmethod
    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        """Build the optimiser of the named parameters.

        Its state of a parameter may contain only `step` and tensors of the parameter's shape.
        """


class AdamConfig(OptimizerOptions):
    """Adam (arXiv 1412.6980). `weight_decay` is an L2 penalty, added to the gradient."""

    kind: Literal["adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay rate of the mean gradient")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="decay rate of the mean square")
    eps: float = Field(default=1e-8, gt=0, description="added to the root of the mean square")
    weight_decay: float = Field(
        default=0.0, ge=0, description="this multiple of a weight or bias is added to its gradient"
    )

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        betas, decay = (self.beta1, self.beta2), self.weight_decay
        return torch.optim.Adam(parameters, lr, betas, self.eps, decay, fused=True)


class AdamWConfig(AdamConfig):
    """Adam with decoupled weight decay (arXiv 1711.05101) of all matrices, including embeddings.

    Vectors, such as biases and the gains of normalisation layers, do not decay.
    """

    kind: Literal["adamw"] = "adamw"  # type: ignore[assignment]
    weight_decay: float = Field(
        default=0.01, ge=0, description="each update multiplies matrices by 1 - lr * weight_decay"
    )

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        pairs = list(parameters)
        matrices = [(name, p) for name, p in pairs if p.ndim >= 2]
        vectors = [(name, p) for name, p in pairs if p.ndim < 2]
        groups = [
            {"params": group, "weight_decay": decay}
            for group, decay in ((matrices, self.weight_decay), (vectors, 0.0))
            if group
        ]
        return torch.optim.AdamW(groups, lr, (self.beta1, self.beta2), self.eps, fused=True)


class SGDConfig(OptimizerOptions):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.0, ge=0, lt=1, description="decay rate of the velocity")

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr, momentum=self.momentum)


class Adadelta(torch.optim.Adadelta):
    """torch's Adadelta, with a Triton kernel if all weights are contiguous fp32 on a CUDA GPU.

    The kernel makes one pass over the memory of a weight, where torch makes 28.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        pairs = [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if closure is not None or not all(_is_plain(parameter) for parameter, _ in pairs):
            return super().step(closure)
        from nmt.ops.triton.operations import adadelta  # imports Triton

        for parameter, group in pairs:
            state = self.state[parameter]
            if not state:  # torch's initial state
                state["step"] = torch.zeros((), dtype=torch.float32, device="cpu")
                state |= {k: torch.zeros_like(parameter) for k in ("square_avg", "acc_delta")}
            state["step"] += 1
            means = state["square_avg"], state["acc_delta"]
            numbers = group["lr"], group["rho"], group["eps"]
            adadelta(parameter, parameter.grad, *means, *numbers)
        return None


def _is_plain(parameter: torch.nn.Parameter) -> bool:
    return all(
        x is not None and x.is_cuda and x.dtype == torch.float32 and x.is_contiguous()
        for x in (parameter, parameter.grad)
    )


class AdadeltaConfig(OptimizerOptions):
    """Adadelta (arXiv 1212.5701). arXiv 1409.0473 uses it with lr 1."""

    kind: Literal["adadelta"] = "adadelta"
    rho: float = Field(default=0.95, ge=0, lt=1, description="decay rate of both mean squares")
    eps: float = Field(default=1e-6, gt=0, description="added to both mean squares")

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        kind = torch.optim.Adadelta if why_no_triton() else Adadelta
        return kind(parameters, lr, rho=self.rho, eps=self.eps)


OptimizerConfig = Annotated[
    AdamConfig | AdamWConfig | SGDConfig | AdadeltaConfig, Field(discriminator="kind")
]


class EMAConfig(Config):
    """Exponential moving averages of the weights w (Polyak & Juditsky 1992).

    The first update sets the averages to w. Each later update sets average = d * average +
    (1 - d) * w, where d = min(decay, (1 + n) / (10 + n)) and n counts the earlier updates. The
    averages replace w in validation, in the choice of the best checkpoint and in translation.
    """

    decay: float = Field(default=0.999, ge=0, lt=1, description="share d of the previous average")

    def build(self, model: nn.Module) -> AveragedModel:
        """Return a copy of `model` that holds the averages, initially the weights of `model`."""
        averages = AveragedModel(model)
        averages.n_averaged = averages.n_averaged.cpu()

        @torch.no_grad()
        def update(tensors: Sequence[Tensor], weights: Sequence[Tensor], _: Any) -> None:
            # n_averaged is on the CPU: reading a count on the GPU would block the host.
            share = max(1 - self.decay, 9 / (10 + int(averages.n_averaged)))
            torch._foreach_lerp_(list(tensors), list(weights), share)

        averages.multi_avg_fn = update
        return averages
