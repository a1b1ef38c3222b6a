"""A run with averages of its weights: what has them, and that it goes on bit for bit."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from training.test_resume import _assert_same, _train, corpus
from training.toy import last_checkpoint, toy_state

from nmt.errors import CheckpointError, ConfigError
from nmt.optim.averages import EMAConfig
from nmt.runs.trained_run import TrainedRun
from nmt.training.state_schema import WEIGHTS

__all__ = ["corpus"]

EMA: dict[str, Any] = {"epochs": 2, "ema": {"decay": 0.9}, "save_every": 3}


def _trained(run: Path) -> dict[str, torch.Tensor]:
    tensors = last_checkpoint(run).state_tensors
    return {n.removeprefix(WEIGHTS): t for n, t in tensors.items() if n.startswith(WEIGHTS)}


def test_a_checkpoint_has_the_averages_and_the_weights_beside_them(corpus: Path) -> None:
    _train(corpus, train={"epochs": 2})
    plain = last_checkpoint(corpus / "run").model_tensors
    (corpus / "run").rename(corpus / "plain")
    _train(corpus, train=EMA)
    trained = _trained(corpus / "run")
    assert trained
    assert all(torch.equal(plain[name], tensor) for name, tensor in trained.items())
    averages = last_checkpoint(corpus / "run").model_tensors
    assert not any(torch.equal(averages[name], trained[name]) for name in trained)
    loaded = TrainedRun.open(corpus / "run").load_model("last", torch.device("cpu")).model
    assert all(torch.equal(averages[name], t) for name, t in loaded.state_dict().items())


def test_a_run_with_averages_goes_on_bit_for_bit(corpus: Path) -> None:
    sections: dict[str, Any] = {
        "train": EMA,
        "model": {"dropout": 0.3, "tie_embeddings": "target", "hidden": 16},
    }
    _train(corpus, **sections)
    (corpus / "run").rename(corpus / "whole")
    for stop in (4, 1, 5):
        assert _train(corpus, stop_after=stop, **sections).reason is None
    _train(corpus, **sections)
    _assert_same(corpus / "whole", corpus / "run")


def test_averages_are_switched_on_and_off_where_it_is_allowed(corpus: Path) -> None:
    """Without them the run goes on with the weights as they were trained."""
    _train(corpus, train={"epochs": 3})
    plain = last_checkpoint(corpus / "run").model_tensors
    (corpus / "run").rename(corpus / "plain")
    for epochs, ema in ((1, None), (2, {"decay": 0.5}), (3, None)):
        sections: dict[str, Any] = {"train": {"epochs": epochs, "ema": ema}}
        if epochs > 1:
            with pytest.raises(ConfigError, match=r"train\.ema: .* \(needs `allow_change`"):
                _train(corpus, **sections)
        _train(corpus, allow_change=True, **sections)
        n_averaged = last_checkpoint(corpus / "run").state["n_averaged"]
        assert n_averaged == (None if ema is None else 4)
    end = last_checkpoint(corpus / "run").model_tensors
    assert all(torch.equal(end[name], tensor) for name, tensor in plain.items())


def test_an_error_in_a_validation_leaves_the_weights(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nmt.training.validation import Validator

    _train(corpus, train=EMA)
    (corpus / "run").rename(corpus / "whole")
    calls = itertools.count()
    run = Validator.run

    def fails_once(*args: Any) -> Any:
        if next(calls) == 0:
            raise ZeroDivisionError
        return run(*args)

    monkeypatch.setattr(Validator, "run", fails_once)
    with pytest.raises(ZeroDivisionError):
        _train(corpus, train=EMA)
    _train(corpus, train=EMA)
    _assert_same(corpus / "whole", corpus / "run")


@pytest.mark.parametrize(
    ("value", "words"), [(None, "missing"), (torch.ones(2), "got F32"), (float("nan"), "are NaN")]
)
def test_weights_that_do_not_fit_are_refused(value: object, words: str) -> None:
    state = toy_state(ema={})
    assert state.averages is not None
    state.averages.update_parameters(state.model)
    tensors, values = state.state_dict()
    state.load_state_dict(tensors, values)
    name = next(name for name in tensors if name.startswith(WEIGHTS))
    if value is None:
        del tensors[name]
    else:
        is_shape = isinstance(value, torch.Tensor)
        tensors[name] = value if is_shape else torch.full_like(tensors[name], value)
    with pytest.raises(CheckpointError, match=rf"{name}.*{words}"):
        state.load_state_dict(tensors, values)


def test_weights_of_averaged_layers_are_in_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else cuDNN copies them at every call; a copy of a module has each weight by itself."""
    flat: list[object] = []
    monkeypatch.setattr(torch.nn.RNNBase, "flatten_parameters", lambda self: flat.append(self))
    model = torch.nn.ModuleList([torch.nn.GRU(2, 3), torch.nn.Linear(2, 3)])
    flat.clear()
    averages = EMAConfig().build(model)
    assert flat == [averages.module[0]]
