"""A training state comes back from tensors and JSON, and goes on the same."""

import json
from copy import deepcopy

import pytest
import torch
from training.toy import toy_state

from nmt.errors import CheckpointError
from nmt.training.state import TrainingState


def new_state() -> TrainingState:
    """As training with fp16 has it; the scale grows after two updates without an overflow."""
    state = toy_state(schedule={"kind": "inverse_sqrt", "warmup": 3}, precision="fp16")
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
    state.schedule.after_update()
    state.optimizer.zero_grad(set_to_none=True)
    return float(state.scaler.get_scale())


def test_the_scale_of_gradients_goes_on_too() -> None:
    torch.manual_seed(3)
    state = new_state()
    scales = [update(state), update(state, overflow=True), update(state)]
    assert scales == [64, 32, 32]
    state.progress.step = 3
    tensors, values = deepcopy(state.state_dict())
    weights = deepcopy(state.model.state_dict())

    later = [update(state) for _ in range(4)]
    assert later == [64, 64, 128, 128]
    other = new_state()
    other.model.load_state_dict(weights)
    other.load_state_dict(tensors, json.loads(json.dumps(values)))
    assert other.progress == state.progress
    assert [update(other) for _ in range(4)] == later
    for one, two in zip(state.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_a_run_whose_updates_were_all_skipped_goes_on() -> None:
    """Fused Adam counts an update that its scaler skips back, to step 0."""
    state = new_state()
    assert update(state, overflow=True) == 32
    state.progress.step = 1
    tensors, values = deepcopy(state.state_dict())
    assert float(tensors["optimizer.0.step"]) == 0
    other = new_state()
    other.load_state_dict(tensors, json.loads(json.dumps(values)))
    assert other.scaler.get_scale() == 32
    values["scaler"] = {}
    with pytest.raises(CheckpointError, match=r"'optimizer\.0\.step': got 0"):
        new_state().load_state_dict(tensors, values)


@pytest.mark.parametrize("lost", ["progress", "schedule", "scaler", "param_groups", "lr", "rng"])
def test_what_is_missing_is_said(lost: str) -> None:
    state = new_state()
    tensors, values = state.state_dict()
    del values[lost]
    with pytest.raises(CheckpointError, match=f"^training state does not fit this run: '{lost}'"):
        state.load_state_dict(tensors, values)
