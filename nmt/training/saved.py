"""The training state of a checkpoint, checked against what this run would have saved.

Fused optimisers and random generators do not check shapes and number formats, so everything is
checked here before it reaches them.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field, Strict, ValidationError, field_validator
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.optim.optimizers import MAX_LR
from nmt.storage.tensor_file import Spec, Specs, check_finite, specs_of
from nmt.training.progress import Count, Finite, Progress
from nmt.training.rng import N_WORDS, check_words, pack_rng

Positive = Annotated[Finite, Field(gt=0)]

_SQUARES = ("exp_avg_sq", "square_avg", "acc_delta")
"""Means of squares, of which a root is taken."""

_RNG_OF_DEVICES = ("rng.cuda", "rng.mps")


class _Group(BaseModel):
    """What is read of an optimiser's group; its hyperparameters come from the config."""

    params: list[Count]
    lr: Annotated[Finite, Field(ge=0, le=MAX_LR)]


class _Schedule(BaseModel):
    """What is read of a schedule; its settings come from the config."""

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


class Saved(BaseModel):
    """All of a checkpoint's `state`; `lr` and `rng` are not in format 1."""

    progress: Progress
    schedule: _Schedule
    scaler: _Scaler | Annotated[dict[str, Any], Field(max_length=0)]
    param_groups: list[_Group]
    lr: Annotated[Positive, Field(le=MAX_LR)] | None = None
    rng: _Rng | None = None

    @field_validator("progress")
    @classmethod
    def _best_is_whole(cls, progress: Progress) -> Progress:
        best = (progress.best_bleu, progress.best_loss, progress.best_step)
        if len({value is None for value in best}) > 1:
            raise ValueError("best_bleu, best_loss and best_step: some are there, not all")
        return progress


def read_values(values: Mapping[str, object]) -> Saved:
    """The plain values of a checkpoint. Raises CheckpointError: the key, and what is wrong."""
    try:
        return Saved.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{key[:80]!r}: {first['msg']}") from None


def check_tensors(
    tensors: Mapping[str, Tensor],
    saved: Saved,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> None:
    """Raise CheckpointError unless the tensors are what `optimizer` and the generators save."""
    groups = optimizer.state_dict()["param_groups"]
    if [group["params"] for group in groups] != [group.params for group in saved.param_groups]:
        raise CheckpointError("'param_groups': not those of the model's parameters")
    if saved.schedule.last_lr and len(saved.schedule.last_lr) != len(groups):
        raise CheckpointError("'schedule._last_lr': not as many rates as groups of parameters")
    kept = {name: t for name, t in tensors.items() if name.startswith("optimizer.")}
    has_begun = saved.progress.step > 0 and not isinstance(saved.scaler, _Scaler)
    may_lack = not has_begun or "momentum" in groups[0]
    expected = {} if may_lack and not kept else _optimizer_specs(optimizer)
    rest = tensors.keys() - kept.keys()
    own = pack_rng(device)[0]
    others = {name: tensors[name] for name in rest.intersection(_RNG_OF_DEVICES) - own.keys()}
    optional = set(_RNG_OF_DEVICES) if saved.rng is not None else own.keys() - {"rng.cpu"}
    expected |= {n: spec for n, spec in specs_of(own).items() if n in tensors or n not in optional}
    _compare(expected | specs_of(others), specs_of(tensors))
    if len({tensor.data_ptr() for tensor in tensors.values()}) < len(tensors):
        raise CheckpointError("two of its tensors share their memory")
    check_finite(kept, "optimiser", CheckpointError)
    for name, tensor in kept.items():
        _check_range(name, tensor, saved.progress.step)
    if saved.rng is not None:
        check_words(tensors)


def _optimizer_specs(optimizer: torch.optim.Optimizer) -> Specs:
    """What the optimiser keeps of its parameters, by the name in a checkpoint.

    Found by a step on one small parameter: what has its shape there has each parameter's own.
    """
    probe = torch.nn.Parameter(torch.zeros(2, 3))
    probe.grad = torch.zeros(2, 3)
    kind, group = type(optimizer), optimizer.param_groups[0]
    settings = {k: group[k] for k in inspect.signature(kind).parameters if k in group}
    if "momentum" in settings:
        settings["momentum"] = settings["momentum"] or 0.5  # it may have had some before
    twin = kind([probe], **{k: v for k, v in settings.items() if k != "params"})
    twin.step()
    kept = specs_of({k: v for k, v in twin.state[probe].items() if v is not None})
    parameters = [p for g in optimizer.param_groups for p in g["params"]]
    return {
        f"optimizer.{index}.{name}": Spec(
            spec.dtype, tuple(parameter.shape) if spec.shape == tuple(probe.shape) else spec.shape
        )
        for index, parameter in enumerate(parameters)
        for name, spec in kept.items()
    }


def _compare(expected: Specs, got: Specs) -> None:
    problems = sorted(_differences(expected, got))
    if problems:
        name, problem = problems[0]
        raise CheckpointError(f"{name[:80]!r}: {problem}")


def _differences(expected: Specs, got: Specs) -> Iterator[tuple[str, str]]:
    for name in expected.keys() | got.keys():
        if name not in got:
            yield name, "missing"
        elif name not in expected:
            yield name, "not one of this run's tensors"
        elif got[name] != expected[name]:
            yield name, f"got {got[name]}, allowed: {expected[name]}"


def _check_range(name: str, tensor: Tensor, step: int) -> None:
    kind = name.rpartition(".")[2]
    if kind == "step" and not 1 <= float(tensor) <= step:
        raise CheckpointError(f"{name!r}: got {float(tensor):g}, allowed: 1 to {step}")
    if kind in _SQUARES and bool((tensor < 0).any()):
        raise CheckpointError(f"{name!r}: a mean of squares has a negative number")
