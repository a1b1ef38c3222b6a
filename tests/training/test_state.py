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
from forging import Change
from training.toy import toy_state

from nmt.errors import CheckpointError
from nmt.runs.checkpoints import CheckpointState
from nmt.training import rng
from nmt.training.state import WEIGHTS, TrainingState
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
    for one, two in zip(state.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(one, two)


def first(saved: CheckpointState, start: str) -> str:
    """The first name of a tensor that begins so."""
    return next(name for name in saved.state_tensors if name.startswith(start))


def renamed(start: str, name: str) -> Change:
    return lambda saved: saved.state_tensors.update(
        {name: saved.state_tensors.pop(first(saved, start))}
    )


def replaced(start: str, tensor: torch.Tensor) -> Change:
    return lambda saved: saved.state_tensors.update({first(saved, start): tensor})


def holder(saved: CheckpointState, keys: tuple[str, ...]) -> Any:
    """The part of state.json that has the last of the keys."""
    return functools.reduce(operator.getitem, keys[:-1], saved.state)


def with_value(value: object, *keys: str) -> Change:
    return lambda saved: holder(saved, keys).update({keys[-1]: value})


def lacking(*keys: str) -> Change:
    return lambda saved: holder(saved, keys).pop(keys[-1])


MISFITS: dict[str, Change] = {
    "one moment missing": lambda saved: saved.state_tensors.pop(MOMENT),
    "a moment of no numbers": replaced(MOMENT, torch.zeros(0)),
    "a moment of one number": replaced(MOMENT, torch.zeros(())),
    "a moment of another shape": replaced(MOMENT, torch.zeros(3, 5)),
    "a moment of another format": replaced("optimizer.0.step", torch.zeros((), dtype=torch.int64)),
    "a parameter too many": renamed(MOMENT, "optimizer.99.exp_avg"),
    "a word as index": renamed(MOMENT, "optimizer.x.exp_avg"),
    "no index": renamed(MOMENT, "optimizer"),
    "no generator": renamed("rng.cpu", "rng.gpu"),
    "a short generator": replaced("rng.cpu", torch.zeros(9, dtype=torch.uint8)),
    "a generator of zeros": replaced("rng.cpu", torch.zeros(5056, dtype=torch.uint8)),
    "weights missing": renamed(WEIGHTS, "weights"),
    "weights of another shape": replaced(WEIGHTS, torch.ones(2)),
    "progress without a key": lacking("progress", "best"),
    "progress with another key": with_value(1, "progress", "x"),
    "progress of a text": with_value("x", "progress"),
    "a text as step": with_value("4", "progress", "step"),
    "a truth value as epoch": with_value(True, "progress", "epoch"),
    "another unit of batches": with_value([8, "bytes"], "progress", "batching"),
    "a validation without its loss": with_value([[1, 0.5]], "progress", "best"),
    "a schedule without a key": lacking("schedule", "last_epoch"),
    "a schedule with another key": with_value(1, "schedule", "x"),
    "a schedule of a list": with_value([], "schedule"),
    "a text in the schedule": with_value("1", "schedule", "last_epoch"),
    "a learning rate of text": with_value(["x"], "schedule", "_last_lr"),
    "too many learning rates": with_value([0.1, 0.1], "schedule", "_last_lr"),
    "a scale of text": with_value("x", "scaler", "scale"),
    "a scaler of a number": with_value(1, "scaler"),
    "text as number of averages": with_value("x", "n_averaged"),
    "text as number of processes": with_value("x", "world"),
    "another number of groups": with_value([], "param_groups"),
    **{key: lacking(key) for key in ("progress", "schedule", "scaler", "n_averaged", "world")},
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_the_run_is_one_line(name: str) -> None:
    """A fused optimiser would read and write beyond the ends of tensors of other shapes."""
    state = new_state(ema={})
    update(state)
    checkpoint = saved(state)
    new_state(ema={}).load_checkpoint(checkpoint, "run: step 1")
    MISFITS[name](checkpoint)
    with pytest.raises(CheckpointError, match=r"^run: step 1: training state does not") as caught:
        new_state(ema={}).load_checkpoint(checkpoint, "run: step 1")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


# ---- random generators


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
    rng.unpack_rng(tensors, CPU)
    assert draw()[:2] == after[:2]
    rng.seed_all(5)
    assert draw() == first


@pytest.mark.parametrize("device", [torch.device("cuda", 1), torch.device("mps")])
def test_the_generator_of_the_device_is_saved_alone(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    owner, state = getattr(torch, device.type), torch.arange(3, dtype=torch.uint8)
    monkeypatch.setattr(owner, "get_rng_state", lambda *at: (seen.append(at), state)[1])
    monkeypatch.setattr(owner, "set_rng_state", lambda *arguments: seen.append(arguments))
    tensors = rng.pack_rng(device)
    assert torch.equal(tensors[device.type], state)
    rng.unpack_rng(tensors, device)
    assert torch.equal(seen[1][0], state)
    if device.type == "cuda":
        assert (seen[0], seen[1][1]) == ((device,), device)
    # From a CPU's checkpoint there is nothing to restore: the seed stands.
    rng.unpack_rng(rng.pack_rng(CPU), device)
    assert len(seen) == 2
