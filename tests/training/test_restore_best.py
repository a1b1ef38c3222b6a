"""When the learning rate falls, a run with restore_best goes back to its best checkpoint."""

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from training.test_resume import _assert_same, _records, _train, corpus
from training.toy import toy_state

from nmt.errors import CheckpointError
from nmt.runs.checkpoints import CheckpointState
from nmt.training.state import TrainingState
from nmt.training.trainer import Trainer

__all__ = ["corpus"]

SCHEDULE = {"kind": "plateau", "patience": 0, "metric": "chrf", "restore_best": True}
SECTIONS: dict[str, Any] = {
    "train": {"epochs": 3, "lr": 0.5, "schedule": SCHEDULE, "ema": {"decay": 0.3}, "log_every": 1},
    "valid": {"every": 2, "metric": "loss"},
}


def _update(state: TrainingState) -> None:
    for parameter in state.optimizer.param_groups[0]["params"]:
        parameter.grad = torch.rand_like(parameter)
    state.optimizer.step()
    state.progress.step += 1
    if state.averages is not None:
        state.averages.update_parameters(state.model)


def _saved(state: TrainingState) -> CheckpointState:
    tensors, values = state.state_dict()
    weights = state.final_model.state_dict()
    return deepcopy(CheckpointState(state.progress.step, weights, tensors, values))


@pytest.mark.parametrize("ema", [None, {"decay": 0.5}])
def test_weights_and_optimiser_go_back_and_nothing_else(ema: dict[str, float] | None) -> None:
    state = toy_state(ema=ema)
    _update(state)
    best = _saved(state)
    for _ in range(3):
        _update(state)
    state.optimizer.param_groups[0]["lr"] = 0.125
    torch.rand(3)
    before = _saved(state)
    state.go_back(best, "best")
    after = _saved(state)
    assert (after.step, after.state["progress"]) == (before.step, before.state["progress"])
    assert state.optimizer.param_groups[0]["lr"] == 0.125
    for name, tensor in after.model_tensors.items():
        assert torch.equal(tensor, best.model_tensors[name])
    for name, tensor in after.state_tensors.items():
        source = before if name.startswith("rng.") else best
        assert name == "rng.python" or torch.equal(tensor, source.state_tensors[name])
    assert after.state["n_averaged"] == best.state["n_averaged"]


def test_a_checkpoint_of_another_model_is_refused() -> None:
    state = toy_state()
    _update(state)
    other = _saved(state)
    other.state_tensors.pop("optimizer.0.exp_avg")
    with pytest.raises(CheckpointError, match=r"^best does not fit this run: 'optimizer.0.exp_avg"):
        state.go_back(other, "best")


def test_a_run_that_goes_back_goes_on_bit_for_bit(corpus: Path) -> None:
    """Wherever it was stopped; the checkpoint of a step has the weights that were validated."""
    _train(corpus, **SECTIONS)
    (corpus / "run").rename(corpus / "whole")
    log = (corpus / "whole" / "train.log").read_text(encoding="utf-8")
    assert "the learning rate fell: weights and optimiser are those of step" in log
    assert all({"bleu", "chrf"} <= r.keys() for r in _records(corpus / "whole") if "bleu" in r)
    outcome = _train(corpus, stop_after=3, **SECTIONS)
    while outcome.reason is None:
        outcome = _train(corpus, stop_after=7, **SECTIONS)
    _assert_same(corpus / "whole", corpus / "run")
    assert outcome.best is not None
    assert f"best validation loss {-outcome.best.score:.3f} at" in outcome.describe()


def test_a_best_checkpoint_that_is_gone_is_said_and_training_goes_on(corpus: Path) -> None:
    schedule = {**SCHEDULE, "metric": "loss"}
    sections: dict[str, Any] = {
        "train": {"lr": 0.3, "steps": 8, "schedule": schedule},
        "valid": {"every": 1, "metric": "loss"},
    }
    validate = Trainer._validate

    def and_delete(self: Trainer, *args: Any) -> bool:
        done = validate(self, *args)
        if self.state.progress.restore_step is not None:
            folder = self.run.checkpoint_folder.folder_of(self.state.progress.restore_step)
            shutil.rmtree(folder, ignore_errors=True)
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_validate", and_delete)
        assert _train(corpus, **sections).step == 8
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert "; going on with the weights of step" in log
