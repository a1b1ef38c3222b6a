"""A trainer's state as named tensors and plain JSON, and back: nothing is pickled."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.training.optim import Schedule
from nmt.training.progress import Progress

Json = dict[str, Any]


def pack(
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    scaler: torch.amp.GradScaler,
    progress: Progress,
) -> tuple[dict[str, Tensor], Json]:
    """All that a resumed run needs besides the weights: tensors by name, and plain values."""
    saved = optimizer.state_dict()
    tensors = {
        f"optimizer.{index}.{name}": torch.as_tensor(value)
        for index, values in saved["state"].items()
        for name, value in values.items()
        if value is not None
    }
    tensors["rng.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        for index, state in enumerate(torch.cuda.get_rng_state_all()):
            tensors[f"rng.cuda.{index}"] = state
    values: Json = {
        "progress": progress.to_json(),
        "schedule": schedule.state_dict(),
        "scaler": scaler.state_dict(),
        "param_groups": saved["param_groups"],
    }
    return tensors, values


def unpack(
    tensors: Mapping[str, Tensor],
    values: Json,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    scaler: torch.amp.GradScaler,
) -> Progress:
    """Put `pack`'s result back in place; the progress is returned.

    Raises CheckpointError where something is missing or of another form.
    """
    try:
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, index, *rest = name.split(".")
            if kind == "optimizer":
                state.setdefault(int(index), {})[".".join(rest)] = tensor
        groups = values["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        schedule.load_state_dict(values["schedule"])
        scaler.load_state_dict(values["scaler"])
        torch.set_rng_state(tensors["rng.cpu"].cpu())
        n_cuda = sum(name.startswith("rng.cuda.") for name in tensors)
        if torch.cuda.is_available() and n_cuda == torch.cuda.device_count():
            states = [tensors[f"rng.cuda.{index}"].cpu() for index in range(n_cuda)]
            torch.cuda.set_rng_state_all(states)
        known = {field.name for field in fields(Progress)}
        return Progress(**{k: v for k, v in values["progress"].items() if k in known})
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"training state does not fit this run: {error}") from error
