"""What a checkpoint holds besides the weights comes back from JSON, and goes on the same."""

import json
from copy import deepcopy

import pytest
import torch

from nmt.errors import CheckpointError
from nmt.optim.optimizers import AdamConfig, InverseSqrtConfig, Schedule
from nmt.training.progress import Progress
from nmt.training.state import Engine, pack, unpack

CPU = torch.device("cpu")


def engine_of(model: torch.nn.Module) -> Engine:
    """As training with fp16 has it; the scale grows after two updates without an overflow."""
    optimizer = AdamConfig().build(list(model.parameters()), 0.1)
    schedule = Schedule(InverseSqrtConfig(warmup=3), optimizer, None)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
    return Engine(optimizer, schedule, scaler, CPU, 0.1)


def update(model: torch.nn.Module, engine: Engine, overflow: bool = False) -> float:
    """One update on random numbers; returns the scale after it."""
    loss = model(torch.randn(2, 3)).square().sum() * (float("inf") if overflow else 1.0)
    engine.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    engine.scaler.unscale_(engine.optimizer)
    engine.scaler.step(engine.optimizer)
    engine.scaler.update()
    engine.schedule.after_update()
    engine.optimizer.zero_grad(set_to_none=True)
    return float(engine.scaler.get_scale())


def test_the_scale_of_gradients_goes_on_too() -> None:
    torch.manual_seed(3)
    model = torch.nn.Linear(3, 1)
    engine = engine_of(model)
    scales = [update(model, engine), update(model, engine, overflow=True), update(model, engine)]
    assert scales == [64, 32, 32]
    tensors, values = pack(engine, Progress(step=3))
    tensors, twin = deepcopy((tensors, model))

    later = [update(model, engine) for _ in range(4)]
    assert later == [64, 64, 128, 128]
    other = engine_of(twin)
    assert unpack(tensors, json.loads(json.dumps(values)), other) == Progress(step=3)
    assert [update(twin, other) for _ in range(4)] == later
    for one, two in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("lost", ["progress", "schedule", "scaler", "param_groups"])
def test_what_is_missing_is_said(lost: str) -> None:
    engine = engine_of(torch.nn.Linear(3, 1))
    tensors, values = pack(engine, Progress())
    del values[lost]
    with pytest.raises(CheckpointError, match=f"^training state does not fit this run: '{lost}'"):
        unpack(tensors, values, engine)
