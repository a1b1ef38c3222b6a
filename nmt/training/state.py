"""A trainer's state as named tensors and plain JSON, and back: nothing is pickled."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.training.optim import Schedule
from nmt.training.progress import Progress
from nmt.training.rng import pack_rng, unpack_rng

Json = dict[Any, Any]


@dataclass(frozen=True)
class Engine:
    """What changes while training, besides the weights and the progress."""

    optimizer: torch.optim.Optimizer
    schedule: Schedule
    scaler: torch.amp.GradScaler
    device: torch.device
    lr: float


def pack(engine: Engine, progress: Progress) -> tuple[dict[str, Tensor], Json]:
    """All that a resumed run needs besides the weights: tensors by name, and plain values."""
    saved = engine.optimizer.state_dict()
    tensors = {
        f"optimizer.{index}.{name}": torch.as_tensor(value)
        for index, values in saved["state"].items()
        for name, value in values.items()
        if value is not None
    }
    rng_tensors, rng_numbers = pack_rng(engine.device)
    values: Json = {
        "progress": progress.to_json(),
        "schedule": engine.schedule.state_dict(),
        "scaler": engine.scaler.state_dict(),
        "param_groups": saved["param_groups"],
        "lr": engine.lr,
        "rng": rng_numbers,
    }
    return {**tensors, **rng_tensors}, values


def unpack(tensors: Mapping[str, Tensor], values: Json, engine: Engine) -> Progress:
    """Put `pack`'s result back in place; the progress is returned.

    What the engine was made with holds where it was changed since: its rates and factors are
    settings, not state. Raises CheckpointError where something is missing or of another form.
    """
    try:
        state: Json = {}
        for name, tensor in tensors.items():
            kind, *rest = name.split(".")
            if kind == "optimizer":
                state.setdefault(int(rest[0]), {})[".".join(rest[1:])] = tensor
        _load_optimizer(engine.optimizer, state, values["param_groups"])
        engine.schedule.load_state_dict(values["schedule"], engine.lr / values.get("lr", engine.lr))
        if values["scaler"]:  # empty where the precision was another
            engine.scaler.load_state_dict(values["scaler"])
        known = {field.name for field in fields(Progress)}
        progress = Progress(**{k: v for k, v in values["progress"].items() if k in known})
        if "rng" in values:
            unpack_rng(tensors, values["rng"], engine.device)
        else:
            _migrate(tensors, progress)
    except (KeyError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise CheckpointError(f"training state does not fit this run: {error}") from error
    return progress


def _load_optimizer(optimizer: torch.optim.Optimizer, state: Json, groups: list[Json]) -> None:
    kept = ("params", "lr", "initial_lr")
    own = [{k: v for k, v in g.items() if k not in kept} for g in optimizer.param_groups]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    for group, settings in zip(optimizer.param_groups, own, strict=True):
        group.update(settings)


def _migrate(tensors: Mapping[str, Tensor], progress: Progress) -> None:
    """Of format 1: torch's generator alone was saved, and always after the validation."""
    torch.set_rng_state(tensors["rng.cpu"].cpu())
    progress.validated_step = progress.step
    progress.kept_steps = [progress.step]
