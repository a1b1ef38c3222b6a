"""Learning rates by config, over updates and validations."""

import json
import math

import pytest
import torch

from nmt.optim.schedules import (
    ConstantConfig,
    CosineConfig,
    InverseSqrtConfig,
    PlateauConfig,
    Schedule,
    ScheduleConfig,
)


def _optimizer(lr: float = 2.0) -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr)


def _lrs(config: ScheduleConfig, n: int, total: int | None = None) -> list[float]:
    optimizer = _optimizer()
    schedule = Schedule(config, optimizer, total)
    lrs = []
    for _ in range(n):
        lrs.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.after_update()
    return lrs


def test_constant_with_warmup() -> None:
    assert _lrs(ConstantConfig(), 3) == [2.0, 2.0, 2.0]
    assert _lrs(ConstantConfig(warmup=4), 6) == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_inverse_sqrt_peaks_at_the_end_of_the_warmup() -> None:
    lrs = _lrs(InverseSqrtConfig(warmup=4), 16)
    assert max(lrs) == lrs[3] == 2.0
    assert lrs[15] == pytest.approx(2.0 * math.sqrt(4 / 16))


def test_no_schedule_falls_below_its_floor() -> None:
    lrs = _lrs(InverseSqrtConfig(warmup=4, floor=0.4), 99)
    assert lrs[:4] == [0.5, 1.0, 1.5, 2.0]
    assert min(lrs[4:]) == lrs[-1] == 0.8
    optimizer = _optimizer()
    schedule = Schedule(PlateauConfig(decay=0.5, patience=0, floor=0.4), optimizer, None)
    rates = []
    for _ in range(5):
        schedule.after_validation({"loss": 1.0})
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [2.0, 1.0, 0.8, 0.8, 0.8]


def test_a_plateau_of_bleu_is_one_without_a_higher_bleu() -> None:
    optimizer = _optimizer()
    schedule = Schedule(PlateauConfig(patience=0, metric="bleu"), optimizer, None)
    for bleu, lr in [(0.0, 2.0), (3.0, 2.0), (3.0, 1.0), (4.0, 1.0), (2.0, 0.5)]:
        schedule.after_validation({"bleu": bleu, "loss": -bleu})
        assert optimizer.param_groups[0]["lr"] == lr


def test_cosine_ends_at_its_floor() -> None:
    lrs = _lrs(CosineConfig(floor=0.1), 11, total=10)
    assert lrs[0] == 2.0
    assert lrs[5] == pytest.approx(2.0 * 0.55)
    assert lrs[10] == pytest.approx(0.2)
    assert lrs == sorted(lrs, reverse=True)


def test_plateau_halves_after_patience() -> None:
    optimizer = _optimizer()
    schedule = Schedule(PlateauConfig(decay=0.5, patience=1), optimizer, None)
    for loss, lr in [(3.0, 2.0), (2.0, 2.0), (2.5, 2.0), (2.5, 1.0), (1.0, 1.0)]:
        schedule.after_update()
        schedule.after_validation({"loss": loss})
        assert optimizer.param_groups[0]["lr"] == lr


@pytest.mark.parametrize(
    "config",
    [
        ConstantConfig(warmup=9),
        InverseSqrtConfig(warmup=3),
        PlateauConfig(patience=0),
        PlateauConfig(patience=0, metric="bleu", floor=0.2),
    ],
)
def test_a_schedule_continues_from_its_json(config: ScheduleConfig) -> None:
    def advance(schedule: Schedule, optimizer: torch.optim.Optimizer, first: int) -> list[float]:
        lrs = []
        for step in range(first, first + 5):
            optimizer.step()
            schedule.after_update()
            schedule.after_validation({"loss": float(step % 3), "bleu": float(step % 2)})
            lrs.append(optimizer.param_groups[0]["lr"])
        return lrs

    unbroken, optimizer = Schedule(config, one := _optimizer(), 20), one
    advance(unbroken, optimizer, 0)
    other = _optimizer()
    resumed = Schedule(config, other, 20)
    other.load_state_dict(optimizer.state_dict())
    groups = json.loads(json.dumps(optimizer.state_dict()["param_groups"]))
    resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())), groups)
    assert advance(unbroken, optimizer, 5) == advance(resumed, other, 5)


def test_a_plateau_leaves_each_group_its_share_of_a_changed_rate() -> None:
    def of_rates(*rates: float) -> tuple[Schedule, torch.optim.Optimizer]:
        groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in rates]
        optimizer = torch.optim.SGD(groups, lr=1.0)
        return Schedule(PlateauConfig(patience=0), optimizer, None), optimizer

    (before, old), (after, new) = of_rates(2.0, 0.5), of_rates(4.0, 3.0)
    for loss in (1.0, 2.0):
        before.after_validation({"loss": loss})
    after.load_state_dict(before.state_dict(), old.state_dict()["param_groups"])
    assert [group["lr"] for group in new.param_groups] == [2.0, 1.5]
