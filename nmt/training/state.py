"""A trainer's state as named tensors and plain JSON, and back: nothing is pickled."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.optim.optimizers import Schedule
from nmt.training.progress import Progress
from nmt.training.rng import pack_rng, unpack_rng
from nmt.training.saved import Saved, check_tensors, read_values

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


def unpack(
    tensors: Mapping[str, Tensor],
    values: Json,
    engine: Engine,
    where: str = "training state",
) -> Progress:
    """Put `pack`'s result back in place; the progress is returned.

    What the engine was made with holds where it was changed since: its rates and factors are
    settings, not state. Raises CheckpointError, about `where`, for what `pack` would not have
    made of this engine; nothing is changed then but, maybe, the generators.
    """
    try:
        saved = read_values(values)
        check_tensors(tensors, saved, engine.optimizer, engine.device)
        if saved.rng is None:
            torch.set_rng_state(tensors["rng.cpu"])
        else:
            unpack_rng(tensors, values["rng"], engine.device)
    except (CheckpointError, RuntimeError) as error:
        raise CheckpointError(f"{where} does not fit this run: {error}") from None
    _load_optimizer(engine.optimizer, tensors, saved)
    engine.schedule.load_state_dict(values["schedule"], engine.lr / (saved.lr or engine.lr))
    if values["scaler"]:  # empty where the precision was another
        engine.scaler.load_state_dict(values["scaler"])
    if saved.rng is None:
        _migrate(saved.progress)
    return saved.progress


def _load_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], saved: Saved
) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, *rest = name.split(".")
        if kind == "optimizer":
            state.setdefault(int(rest[0]), {})[rest[1]] = tensor
    groups = optimizer.state_dict()["param_groups"]
    for group, found in zip(groups, saved.param_groups, strict=True):
        group["lr"] = found.lr
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _migrate(progress: Progress) -> None:
    """Of format 1, which was always saved after the validation."""
    progress.validated_step = progress.step
    progress.kept_steps = [progress.step]
