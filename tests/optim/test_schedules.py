"""Learning rates by config, over updates and validations."""

import json

import pytest
import torch

from nmt.optim import schedules
from nmt.optim.schedules import ConstantConfig, CosineConfig, InverseSqrtConfig, PlateauConfig


def _optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)


@pytest.mark.parametrize(
    ("config", "rates"),
    [
        (ConstantConfig(), [2.0, 2.0, 2.0]),
        (ConstantConfig(warmup=4), [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]),
        (InverseSqrtConfig(warmup=2), [1.0, 2.0, 1.63299, 1.41421]),
        (InverseSqrtConfig(warmup=1, floor=0.6), [2.0, 1.41421, 1.2, 1.2]),
        (CosineConfig(floor=0.1), [2.0, 1.73640, 1.1, 0.46360, 0.2, 0.2]),
    ],
)
def test_the_rate_of_each_update(config: schedules.ScheduleConfig, rates: list[float]) -> None:
    """Of four updates in all, after which a cosine stays at its floor."""
    optimizer = _optimizer()
    schedule = schedules.Schedule(config, optimizer, 4)
    for rate in rates:
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate, abs=1e-5)
        optimizer.step()
        schedule.after_update()


@pytest.mark.parametrize(
    ("config", "values", "rates"),
    [
        (PlateauConfig(patience=1), [3.0, 2.0, 2.5, 2.5], [2.0, 2.0, 2.0, 1.0]),
        (PlateauConfig(patience=0, floor=0.4), [1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 0.8, 0.8]),
        (PlateauConfig(patience=0, metric="bleu"), [0.0, 3.0, 3.0, 4.0], [2.0, 2.0, 1.0, 1.0]),
    ],
)
def test_a_plateau_is_one_of_its_metric(config, values: list[float], rates: list[float]) -> None:
    """A higher BLEU is better, a higher loss worse; updates change nothing."""
    optimizer = _optimizer()
    schedule = schedules.Schedule(config, optimizer, None)
    for value, rate in zip(values, rates, strict=True):
        schedule.after_update()
        schedule.after_validation({"loss": value, "bleu": value})
        assert optimizer.param_groups[0]["lr"] == rate


PLATEAU_OF_BLEU = PlateauConfig(patience=0, metric="bleu", floor=0.2)
WARMUPS = ConstantConfig(warmup=9), InverseSqrtConfig(warmup=3)


@pytest.mark.parametrize("config", [*WARMUPS, PlateauConfig(patience=0), PLATEAU_OF_BLEU])
def test_a_schedule_continues_from_its_json(config: schedules.ScheduleConfig) -> None:
    old, new = _optimizer(), _optimizer()
    unbroken, resumed = schedules.Schedule(config, old, 20), schedules.Schedule(config, new, 20)
    for step in range(10):
        for schedule, optimizer in ((unbroken, old), (resumed, new))[: 1 + step // 5]:
            optimizer.step()
            schedule.after_update()
            schedule.after_validation({"loss": float(step % 3), "bleu": float(step % 2)})
        if step == 4:
            new.load_state_dict(old.state_dict())
            groups = json.loads(json.dumps(old.state_dict()["param_groups"]))
            resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())), groups)
        assert step < 4 or new.param_groups[0]["lr"] == old.param_groups[0]["lr"]
