"""A training state comes back from tensors and JSON, fits its run, and goes on the same."""

import functools
import json
import operator
import random
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from training.toy import toy_state

from nmt.errors import CheckpointError
from nmt.runs.checkpoints import CheckpointState
from nmt.training import rng
from nmt.training.state import WEIGHTS_PREFIX, TrainingState
from nmt.training.step import StepResult

MOMENT = "optimizer.0.exp_avg"
CPU = torch.device("cpu")


def new_state(**train: Any) -> TrainingState:
    """As training with fp16 has it; the scale grows after two updates without an overflow."""
    state = toy_state(schedule={"kind": "inverse_sqrt", "warmup": 3}, precision="fp16", **train)
    state.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
    return state


def update(state: TrainingState, overflow: bool = False) -> float:
    """One update on random numbers; returns the scale after it."""
    squares = [(p * torch.randn_like(p)).square().sum() for p in state.model.parameters()]
    loss = torch.stack(squares).sum() * (float("inf") if overflow else 1.0)
    state.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    state.scaler.unscale_(state.optimizer)
    state.scaler.step(state.optimizer)
    state.scaler.update()
    state.optimizer.zero_grad(set_to_none=True)
    state.after_update(1, False)
    state.after_result(StepResult(1.0, 1, 1.0))
    return float(state.scaler.get_scale())


def saved(state: TrainingState) -> CheckpointState:
    """The state as it comes from the disk."""
    tensors, values = state.state_dict()
    weights = state.final_model.state_dict()
    numbers = json.loads(json.dumps(values))
    return deepcopy(CheckpointState(state.step, weights, tensors, numbers))


def test_the_scale_of_gradients_goes_on_too() -> None:
    torch.manual_seed(3)
    state = new_state()
    scales = [update(state), update(state, overflow=True), update(state)]
    assert scales == [64, 32, 32]
    checkpoint = saved(state)
    later = [update(state) for _ in range(4)]
    assert later == [64, 64, 128, 128]
    other = new_state()
    other.load_checkpoint(checkpoint, "x")
    assert [update(other) for _ in range(4)] == later
    assert other.progress == state.progress
    weights = (one.model.state_dict() for one in (state, other))
    torch.testing.assert_close(*weights, rtol=0, atol=0)


GONE = object()
TENSORS: list[tuple[str, object]] = [
    (MOMENT, GONE),
    (MOMENT, torch.zeros(0)),
    (MOMENT, torch.zeros(())),
    (MOMENT, torch.zeros(3, 5)),
    ("optimizer.0.step", torch.zeros((), dtype=torch.int64)),
    (MOMENT, "optimizer.99.exp_avg"),
    (MOMENT, "optimizer.x.exp_avg"),
    (MOMENT, "optimizer"),
    ("rng.cpu", "rng.gpu"),
    ("rng.cpu", torch.zeros(9, dtype=torch.uint8)),
    ("rng.cpu", torch.zeros(5056, dtype=torch.uint8)),
    (WEIGHTS_PREFIX, "weights"),
    (WEIGHTS_PREFIX, torch.ones(2)),
]
"""The beginning of a tensor's name, and the tensor in its place, or its new name."""

VALUES: list[tuple[str, object]] = [
    *((key, GONE) for key in ("progress", "schedule", "scaler", "n_averaged", "world")),
    *((key, GONE) for key in ("progress.best", "schedule.last_epoch")),
    *((key, "x") for key in ("progress", "progress.step", "schedule.last_epoch", "scaler.scale")),
    *((key, "x") for key in ("n_averaged", "world")),
    *((key, 1) for key in ("progress.x", "schedule.x", "scaler")),
    *((key, []) for key in ("schedule", "param_groups")),
    ("progress.epoch", True),
    ("progress.plan", 0.5),
    ("progress.best", [[1, 0.5]]),
    ("schedule._last_lr", ["x"]),
    ("schedule._last_lr", [0.1, 0.1]),
]
"""A key of state.json, and the value in its place, or GONE."""


@pytest.mark.parametrize(("place", "value"), [*TENSORS, *VALUES])
def test_what_does_not_fit_the_run_is_one_line(place: str, value: object) -> None:
    """A fused optimiser would read and write beyond the ends of tensors of other shapes."""
    state = new_state(ema={})
    update(state)
    checkpoint = saved(state)
    new_state(ema={}).load_checkpoint(checkpoint, "run: step 1")
    tensors, (*folder, key) = checkpoint.state_tensors, place.split(".")
    name = next((name for name in tensors if name.startswith(place)), None)
    values: Any = tensors if name else functools.reduce(operator.getitem, folder, checkpoint.state)
    before = values.pop(name or key, None)
    if name and isinstance(value, str):
        tensors[value] = before
    elif value is not GONE:
        values[name or key] = value
    with pytest.raises(CheckpointError, match=r"^run: step 1: training state does not") as caught:
        new_state(ema={}).load_checkpoint(checkpoint, "run: step 1")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def draw() -> list[float]:
    """Numbers of each generator; a normal one keeps a second number back."""
    torch_numbers = [float(torch.rand(())), float(torch.randn(()))]
    return [*torch_numbers, random.random(), float(np.random.rand())]


def test_the_seed_decides_and_torch_goes_on() -> None:
    rng.seed_all(6)
    other = draw()
    rng.seed_all(5)
    first = draw()
    assert not set(first) & set(other)
    tensors = rng.pack_rng(CPU)
    after = draw()
    rng.restore_rng(tensors, CPU)
    assert draw()[:2] == after[:2]
    rng.seed_all(5)
    assert draw() == first


@pytest.mark.parametrize("device", [torch.device("cuda", 1), torch.device("mps")])
def test_the_generator_of_the_device_is_saved_alone(device: torch.device, monkeypatch) -> None:
    seen: list[Any] = []
    owner, state = getattr(torch, device.type), torch.arange(3, dtype=torch.uint8)
    monkeypatch.setattr(owner, "get_rng_state", lambda *at: (seen.append(at), state)[1])
    monkeypatch.setattr(owner, "set_rng_state", lambda *arguments: seen.append(arguments))
    tensors = rng.pack_rng(device)
    assert torch.equal(tensors[device.type], state)
    rng.restore_rng(tensors, device)
    assert torch.equal(seen[1][0], state)
    if device.type == "cuda":
        assert (seen[0], seen[1][1]) == ((device,), device)
    # From a CPU's checkpoint there is nothing to restore: the seed stands.
    rng.restore_rng(rng.pack_rng(CPU), device)
    assert len(seen) == 2
