"""Checks of a checkpoint's training state: is it what this run would have saved?

Fused optimisers and random generators do not check shapes and number formats: a forged tensor would
make them read and write beyond its end. Everything is checked here before it reaches them.
"""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field, Strict, ValidationError
from torch import Tensor, nn

from nmt.errors import CheckpointError
from nmt.optim.optimizers import MAX_LR
from nmt.settings.messages import first_fault
from nmt.storage.tensor_file import Spec, Specs, check_finite, spec_faults, specs_of
from nmt.training.progress import Count, Finite, Progress
from nmt.training.rng import N_WORDS, check_rng, pack_rng

Positive = Annotated[Finite, Field(gt=0)]

_SQUARES = ("exp_avg_sq", "square_avg", "acc_delta")
"""Means of squares, whose root is taken: they must not be negative."""

WEIGHTS = "weights."
"""Begins the names of the weights as they are trained, where the model's are their averages."""

_RNG_OF_DEVICES = ("rng.cuda", "rng.mps")

_MAX_RANKS = 2**16


class _Group(BaseModel):
    """The values used of a parameter group; its hyperparameters come from the config."""

    params: list[Count]
    lr: Annotated[Finite, Field(ge=0, le=MAX_LR)]


class _Schedule(BaseModel):
    """The values used of a schedule; its settings come from the config."""

    last_epoch: Count
    step_count: Count = Field(default=1, alias="_step_count")
    last_lr: list[Finite] = Field(default=[], alias="_last_lr")
    best: Annotated[float, Strict()] = 0.0
    num_bad_epochs: Count = 0
    cooldown_counter: Count = 0


class _Scaler(BaseModel):
    scale: Positive
    growth_factor: Annotated[Finite, Field(gt=1)]
    backoff_factor: Annotated[Finite, Field(gt=0, lt=1)]
    growth_interval: Annotated[Count, Field(gt=0)]
    growth_tracker: Count = Field(alias="_growth_tracker")


class _Rng(BaseModel):
    python_gauss: Finite | None
    numpy_position: Annotated[Count, Field(le=N_WORDS)]
    numpy_gauss: tuple[Annotated[Count, Field(le=1)], Finite]


class SavedValues(BaseModel):
    """The plain values of TrainingState.state_dict."""

    progress: Progress
    schedule: _Schedule
    scaler: _Scaler | Annotated[dict[str, Any], Field(max_length=0)]
    param_groups: list[_Group]
    lr: Annotated[Positive, Field(le=MAX_LR)]
    n_averaged: Annotated[Count, Field(gt=0)] | None = None
    rng: _Rng
    rng_of_others: Annotated[list[_Rng], Field(max_length=_MAX_RANKS)] = []


def of_rank(rank: int, name: str) -> str:
    """The name of a generator's tensor, that of the first rank as it is."""
    return f"rank{rank}.{name}" if rank else name


def read_values(values: Mapping[str, object]) -> SavedValues:
    """The checked plain values. Raises CheckpointError with the key and what is wrong there."""
    try:
        return SavedValues.model_validate(values)
    except ValidationError as error:
        raise CheckpointError(first_fault(error)) from None


def check_tensors(
    tensors: Mapping[str, Tensor],
    saved: SavedValues,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> None:
    """Raise CheckpointError unless the tensors are what a state of these parts saves."""
    groups = optimizer.state_dict()["param_groups"]
    if [group["params"] for group in groups] != [group.params for group in saved.param_groups]:
        raise CheckpointError("'param_groups': not those of the model's parameters")
    if saved.schedule.last_lr and len(saved.schedule.last_lr) != len(groups):
        raise CheckpointError("'schedule._last_lr': not as many rates as groups of parameters")
    moments = {name: t for name, t in tensors.items() if name.startswith("optimizer.")}
    # Before its first update an optimiser has no state; SGD without momentum never has any.
    has_begun = saved.progress.step > 0 and not isinstance(saved.scaler, _Scaler)
    may_be_empty = not has_begun or "momentum" in groups[0]
    expected = {} if may_be_empty and not moments else _optimizer_specs(optimizer)
    if saved.n_averaged is not None:
        weights = {f"{WEIGHTS}{name}": p for name, p in model.named_parameters()}
        expected |= specs_of(weights)
    # The generator of a GPU is saved only where the run was on one; the device may have changed.
    own = specs_of(pack_rng(device)[0])
    ranks = range(1 + len(saved.rng_of_others))
    for rank in ranks:
        rng = {of_rank(rank, n): spec for n, spec in own.items()}
        device_rng = {of_rank(rank, n) for n in _RNG_OF_DEVICES}
        expected |= {n: spec for n, spec in rng.items() if n in tensors or n not in device_rng}
        expected |= specs_of({n: tensors[n] for n in (device_rng & tensors.keys()) - rng.keys()})
    if faults := spec_faults(expected, specs_of(tensors)):
        raise CheckpointError(faults[0])
    if len({tensor.data_ptr() for tensor in tensors.values()}) < len(tensors):
        raise CheckpointError("two of its tensors share their memory")
    check_finite(moments, "optimiser", CheckpointError)
    check_finite(
        {n: t for n, t in tensors.items() if n.startswith(WEIGHTS)}, "weights", CheckpointError
    )
    first = 0 if isinstance(saved.scaler, _Scaler) else 1  # a scaler may have skipped all updates
    for name, tensor in moments.items():
        _check_range(name, tensor, first, saved.progress.step)
    for rank in ranks:
        check_rng({n: tensors[of_rank(rank, n)] for n in ("rng.python", "rng.numpy")})


def _optimizer_specs(optimizer: torch.optim.Optimizer) -> Specs:
    """The tensors that the optimiser keeps of its parameters, by their name in a checkpoint.

    A twin of the optimiser takes a step on one small parameter. What has that parameter's shape
    there has each parameter's own shape here.
    """
    probe = torch.nn.Parameter(torch.zeros(2, 3))
    probe.grad = torch.zeros(2, 3)
    kind, group = type(optimizer), optimizer.param_groups[0]
    settings = {k: group[k] for k in inspect.signature(kind).parameters if k in group}
    if "momentum" in settings:
        settings["momentum"] = settings["momentum"] or 0.5  # the run may have had some before
    twin = kind([probe], **{k: v for k, v in settings.items() if k != "params"})
    twin.step()
    specs = specs_of({k: v for k, v in twin.state[probe].items() if v is not None})
    parameters = [p for g in optimizer.param_groups for p in g["params"]]
    return {
        f"optimizer.{index}.{name}": Spec(
            spec.dtype, tuple(parameter.shape) if spec.shape == tuple(probe.shape) else spec.shape
        )
        for index, parameter in enumerate(parameters)
        for name, spec in specs.items()
    }


def _check_range(name: str, tensor: Tensor, first: int, step: int) -> None:
    kind = name.rpartition(".")[2]
    if kind == "step" and not first <= float(tensor) <= step:
        raise CheckpointError(f"{name!r}: got {float(tensor):g}, allowed: {first} to {step}")
    if kind in _SQUARES and bool((tensor < 0).any()):
        raise CheckpointError(f"{name!r}: a mean of squares has a negative number")
