"""Training goes on from what this run would have saved, or says in a line what it is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forging import forge_tensors, seal
from training.toy import copy_begun, last_checkpoint, toy_config, toy_state, write_reversal

from nmt.errors import CheckpointError
from nmt.runs.directory import RunDirectory
from nmt.training.loop import train
from nmt.training.progress import Progress, Validated
from nmt.training.state import TrainingState

Tensors = dict[str, torch.Tensor]

MOMENT = "optimizer.0.exp_avg"


def go_on(folder: Path, **sections: Any) -> int:
    """Train five updates further; the step it ended at."""
    settings = {"steps": 9, "epochs": None, **sections.pop("train", {})}
    config = toy_config(folder, train=settings, valid={"beam": 1, "samples": 0}, **sections)
    return train(config, folder / "run", ["nmt", "train"], quiet=True).step


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a run of four updates, in its second epoch of three."""
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=90, n_test=3)
    assert go_on(folder, train={"steps": 4}) == 4
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return copy_begun(begun, tmp_path)


def checkpoint(folder: Path) -> Path:
    return folder / "run" / "checkpoints" / "step-000004"


def test_it_goes_on_untouched(folder: Path) -> None:
    seal(checkpoint(folder))
    assert go_on(folder) == 9


def shaped(*shape: int) -> Callable[[Tensors], object]:
    return lambda t: t.update({MOMENT: torch.zeros(shape)})


def filled(name: str, value: float) -> Callable[[Tensors], object]:
    return lambda t: t[name].fill_(value)


def placed(name: str, index: int, value: int) -> Callable[[Tensors], object]:
    return lambda t: t[name].__setitem__(index, value)


def swapped(t: Tensors) -> None:
    t[MOMENT] = t[MOMENT].t().contiguous()


def without_a_parameter(t: Tensors) -> None:
    for name in [name for name in t if name.startswith("optimizer.0.")]:
        del t[name]


TENSORS: dict[str, tuple[Callable[[Tensors], object], str]] = {
    "no numbers": (shaped(0), f"'{MOMENT}': got F32 (0,), allowed: F32 ("),
    "one number": (shaped(1), f"'{MOMENT}': got F32 (1,), allowed: F32 ("),
    "another shape": (shaped(3, 5), f"'{MOMENT}': got F32 (3, 5), allowed: F32 ("),
    "transposed": (swapped, f"'{MOMENT}': got F32 (16, "),
    "another format": (lambda t: t.update({MOMENT: t[MOMENT].double()}), "got F64"),
    "whole numbers": (lambda t: t.update({MOMENT: t[MOMENT].long()}), "got I64"),
    "one missing": (lambda t: t.pop(MOMENT), f"'{MOMENT}': missing"),
    "a parameter's missing": (without_a_parameter, f"'{MOMENT}': missing"),
    "none": (lambda t: [t.pop(n) for n in list(t) if n[0] == "o"], f"'{MOMENT}': missing"),
    "one too many": (
        lambda t: t.update({"optimizer.0.max_exp_avg_sq": torch.zeros_like(t[MOMENT])}),
        "'optimizer.0.max_exp_avg_sq': got F32 (",
    ),
    "a parameter too many": (
        lambda t: t.update({"optimizer.9999.exp_avg": torch.zeros(3)}), "'optimizer.9999.exp_avg'"
    ),
    "no index": (lambda t: t.update({"optimizer": torch.zeros(3)}), "'optimizer': got F32 (3,), "),
    "a word as index": (lambda t: t.update({"optimizer.x.y": torch.zeros(3)}), "'optimizer.x.y'"),
    "a name of its own": (lambda t: t.update({"": torch.zeros(3)}), "'': got F32 (3,), "),
    "NaN": (filled(MOMENT, float("nan")), f"optimiser: {MOMENT}: "),
    "infinite": (filled("optimizer.1.exp_avg_sq", float("inf")), "optimizer.1.exp_avg_sq: "),
    "a negative square": (filled("optimizer.1.exp_avg_sq", -1), "has a negative number"),
    "a step before the first": (filled("optimizer.0.step", -1), "got -1, allowed: 1 to 4"),
    "a step to come": (filled("optimizer.0.step", 5), "got 5, allowed: 1 to 4"),
    "no generator": (lambda t: t.pop("rng.cpu"), "'rng.cpu': missing"),
    "a short generator": (lambda t: t.update({"rng.cpu": t["rng.cpu"][:-1]}), "'rng.cpu': got U8"),
    "a generator of zeros": (filled("rng.cpu", 0), "does not fit this run: "),
    "Python's in other words": (placed("rng.python", 3, -1), "'rng.python': not all of its"),
    "Python's place": (placed("rng.python", -1, 625), "'rng.python': got place 625, allowed"),
    "NumPy's in other words": (placed("rng.numpy", 3, 2**32), "'rng.numpy': not all of its"),
    "NumPy's too short": (lambda t: t.update({"rng.numpy": t["rng.numpy"][:9]}), "'rng.numpy'"),
}  # fmt: skip


def refused(folder: Path, reason: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        go_on(folder)
    text = str(caught.value)
    assert reason in text
    assert text.startswith(str(folder / "run"))
    assert "\n" not in text
    assert len(text) < 500


@pytest.mark.parametrize("name", ["no numbers", "another shape", "one number", "no index", "NaN"])
def test_a_forged_checkpoint_is_refused_before_the_first_update(folder: Path, name: str) -> None:
    """A fused optimiser would read and write beyond the ends of such tensors."""
    change, reason = TENSORS[name]
    forge_tensors(checkpoint(folder), "state", change)
    refused(folder, reason)


def new_state() -> TrainingState:
    """What saved `saved()`, begun anew."""
    return toy_state(schedule={"kind": "inverse_sqrt", "warmup": 3})


def saved() -> tuple[Tensors, Any]:
    """The state after four updates, as it comes from the disk."""
    used = new_state()
    for _ in range(4):
        for parameter in used.optimizer.param_groups[0]["params"]:
            parameter.grad = torch.rand_like(parameter)
        used.optimizer.step()
        used.schedule.after_update()
    used.progress = Progress(step=4, epoch=1, batch=1, batching=(32, "sentences"))
    used.progress.best = [Validated(1, 9.5, 1.5)]
    tensors, values = used.state_dict()
    return {n: t.clone() for n, t in tensors.items()}, json.loads(json.dumps(values))


def refused_state(tensors: Tensors, values: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        new_state().load_state_dict(tensors, values)
    text = str(caught.value)
    assert text.startswith("training state does not fit this run: ")
    assert "\n" not in text
    assert len(text) < 300
    return text


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_that_this_run_would_not_have_saved(name: str) -> None:
    tensors, values = saved()
    loaded = new_state()
    loaded.load_state_dict(tensors, values)
    assert loaded.progress.step == 4
    change, reason = TENSORS[name]
    change(tensors)
    assert reason in refused_state(tensors, values)


def test_two_names_for_one_tensor(folder: Path) -> None:
    """Both parameters would be updated by what is known of the one."""
    tensors: Tensors = {}
    forge_tensors(checkpoint(folder), "state", tensors.update)
    shapes = [(n, t.shape) for n, t in tensors.items() if n.endswith(".exp_avg") and n != MOMENT]
    one, two = next((a, b) for a, sa in shapes for b, sb in shapes if a < b and sa == sb)
    forge_tensors(checkpoint(folder), "state", lambda t: t.pop(two))
    seal(checkpoint(folder), lambda c: c["aliases"].update({"state.safetensors": {two: one}}))
    refused(folder, "two of its tensors share their memory")


def at(*path: object) -> Callable[[Any, Any], None]:
    """Puts a value at a place of `state`; `...` takes the place away."""

    def put(state: Any, value: object) -> None:
        *parents, last = path
        for key in parents:
            state = state[key]
        if value is ...:
            del state[last]
        else:
            state[last] = value

    return put


BAD: list[object] = [..., None, "x", [], [1], {}, {"a": 1}, True, -1, 2**70, float("nan"), 0.5]
"""Values that most places cannot hold."""

PLACES: dict[tuple[object, ...], str] = {
    ("progress",): "",
    ("progress", "step"): "",
    ("progress", "epoch"): "absent",
    ("progress", "batch"): "absent",
    ("progress", "batching"): "None, absent",
    ("progress", "earlier"): "[], absent",
    ("progress", "kept_steps"): "[], [1], absent",
    ("progress", "best"): "[], absent",
    ("progress", "best", 0): "absent",
    ("progress", "best", 0, 0): "",
    ("progress", "best", 0, 1): "0.5, -1",
    ("progress", "restore_step"): "None, absent",
    ("progress", "bad_validations"): "absent",
    ("progress", "validated_step"): "None, absent",
    ("progress", "window_tokens"): "absent",
    ("schedule",): "",
    ("schedule", "last_epoch"): "",
    ("schedule", "_step_count"): "absent",
    ("schedule", "_last_lr"): "[], [1], absent",
    ("scaler",): "{}",
    ("param_groups",): "",
    ("param_groups", 0): "",
    ("param_groups", 0, "params"): "",
    ("param_groups", 0, "lr"): "0.5",
    ("lr",): "0.5",
    ("rng",): "",
    ("rng", "python_gauss"): "None, 0.5, -1, 1180591620717411303424",
    ("rng", "numpy_position"): "",
    ("rng", "numpy_gauss"): "",
    ("rng_of_others",): "[], absent",
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_values_that_this_run_would_not_have_saved(place: tuple[object, ...]) -> None:
    """Each is refused in a line, or is one that the place may hold; nothing else is raised."""
    for value in BAD:
        tensors, values = saved()
        at(*place)(values, value)
        shown = "absent" if value is ... else str(value)
        if shown in PLACES[place].split(", "):
            new_state().load_state_dict(tensors, values)
        else:
            refused_state(tensors, values)


def test_the_generators_of_other_ranks_are_checked_too() -> None:
    tensors, values = saved()
    values["rng_of_others"] = [dict(values["rng"])]
    assert "rank1.rng." in refused_state(tensors, values)
    own = {f"rank1.{n}": t.clone() for n, t in tensors.items() if n.startswith("rng.")}
    new_state().load_state_dict({**tensors, **own}, values)
    own["rank1.rng.numpy"][0] = -1
    assert "32 bits" in refused_state({**tensors, **own}, values)
    assert "rank1.rng." in refused_state({**tensors, **own}, {**values, "rng_of_others": []})


def test_a_place_beyond_the_epoch_does_not_go_on_for_ever(folder: Path) -> None:
    seal(checkpoint(folder), lambda content: at("progress", "batch")(content["state"], 3))
    refused(folder, "step 4: training state is at batch 3 of an epoch that has 3")


def test_a_checkpoint_of_another_step(folder: Path) -> None:
    seal(checkpoint(folder), lambda content: at("progress", "step")(content["state"], 5))
    refused(folder, "step 4: training state is of step 5")
    seal(checkpoint(folder), lambda content: content.update(step=3))
    with pytest.raises(CheckpointError, match=r"000004/state\.json: damaged: it says step 3"):
        RunDirectory(folder / "run").checkpoint_folder.load("step-000004")


def test_attributes_of_the_schedule_are_not_set(folder: Path) -> None:
    """torch's schedules take whatever a state names as their own."""
    strange = {"optimizer": 3, "step": "x", "base_lrs": ["x"], "get_lr": None}
    seal(checkpoint(folder), lambda content: content["state"]["schedule"].update(strange))
    assert go_on(folder) == 9


@pytest.mark.parametrize("optimizer", [{"kind": "sgd"}, {"kind": "sgd", "momentum": 0.5},
                                       {"kind": "adamw"}, {"kind": "adadelta"}])  # fmt: skip
@pytest.mark.parametrize("schedule", [{"kind": "plateau"}, {"kind": "inverse_sqrt"}])
def test_what_each_optimiser_and_schedule_saves_is_taken(
    tmp_path: Path, optimizer: dict[str, object], schedule: dict[str, object]
) -> None:
    write_reversal(tmp_path, n_train=40, n_test=3)
    kinds = {"optimizer": optimizer, "schedule": schedule}
    assert go_on(tmp_path, train={**kinds, "steps": 2}) == 2
    assert go_on(tmp_path, train={**kinds, "steps": 3}) == 3
    state = last_checkpoint(tmp_path / "run").state
    assert state["progress"]["step"] == 3  # type: ignore[index]


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_a_validation_is_there_with_all_its_numbers(n: int) -> None:
    tensors, values = saved()
    values["progress"]["best"] = [[1, 9.5, 1.5, 7.0][:n]]
    refused_state(tensors, values)
