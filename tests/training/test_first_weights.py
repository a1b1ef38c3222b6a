"""First weights of another run, and frozen ones."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from forging import forge_tensors
from training.toy import (
    assert_same_checkpoint,
    last_checkpoint,
    log_of,
    tiny_config,
    train_tiny,
    write_reversal,
)

from nmt.config import RunConfig
from nmt.errors import CheckpointError, ConfigError
from nmt.runs.trained_run import TrainedRun
from nmt.training.first_weights import run_named
from nmt.training.loop import train

TABLE = "encoder.embedding.weight"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a run `first`."""
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=60, n_test=5)
    train_tiny(folder, "first", valid={"metric": "loss"})
    return folder


def config(begun: Path, model: dict[str, Any] | None = None, **keys: Any) -> RunConfig:
    train_keys = {"init_from": str(begun / "first"), "epochs": 1, **keys}
    return tiny_config(begun, train=train_keys, **({} if model is None else {"model": model}))


def weights_of(run: Path, which: str = "last") -> dict[str, torch.Tensor]:
    return TrainedRun.open(run).directory.checkpoint_folder.load_weights(which)[1]


def test_a_training_begins_where_the_other_run_ended(begun: Path, tmp_path: Path) -> None:
    """With a vanishing learning rate the weights stay those of the named checkpoint."""
    run = tmp_path / "run"
    train(config(begun, init_from=f"{begun / 'first'}@last", lr=1e-30), run, quiet=True)
    wanted, weights = weights_of(begun / "first"), weights_of(run)
    assert weights.keys() == wanted.keys()
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)
    ours, theirs = (TrainedRun.open(path).tokenizers() for path in (run, begun / "first"))
    assert ours.src.model_bytes == theirs.src.model_bytes


def test_a_run_whose_path_has_an_at_sign_is_found(begun: Path, tmp_path: Path) -> None:
    run = tmp_path / "a@b" / "first@last"
    run.parent.mkdir()
    run.symlink_to(begun / "first")
    opened = [run_named(str(run)), run_named(f"{run}@last")]
    expected = [(run, "best"), (run, "last")]
    assert [(other.path, checkpoint) for other, checkpoint in opened] == expected


def test_what_does_not_fit_is_named_and_drawn(begun: Path, tmp_path: Path) -> None:
    train(config(begun, {"hidden": 7, "decoder": {"kind": "luong"}}), tmp_path / "run", quiet=True)
    log = log_of(tmp_path / "run")
    assert "drawn anew: encoder." in log


@pytest.mark.parametrize(
    ("keys", "model", "error", "words"),
    [
        ({}, {"kind": "transformer", "size": 12, "heads": 2, "layers": 1}, ConfigError,
         "none of its matrices"),
        ({"init_from": "absent"}, None, CheckpointError, "no such run"),
        ({"init_from": "first@step-9"}, None, CheckpointError, "no checkpoint 'step-9'"),
        ({"freeze": ["encodr.*"]}, None, ConfigError, "no weight has such a name"),
        ({"freeze": ["*"]}, None, ConfigError, "all weights are frozen"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_beginning_is_refused(
    begun: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: dict[str, Any],
    model: dict[str, Any] | None,
    error: type[Exception],
    words: str,
) -> None:
    monkeypatch.chdir(begun)
    with pytest.raises(error, match=words):
        train(config(begun, model, **keys), tmp_path / "run", quiet=True)


def test_tensors_that_do_not_fit_their_run_are_refused(begun: Path, tmp_path: Path) -> None:
    """With right checksums."""
    shutil.copytree(begun / "first", tmp_path / "first")
    checkpoint = max((tmp_path / "first" / "checkpoints").glob("step-*"))
    forge_tensors(checkpoint, "model", lambda t: t.update({TABLE: t[TABLE][:5].clone()}))
    with pytest.raises(CheckpointError, match="does not fit config"):
        train(config(begun, init_from=f"{tmp_path / 'first'}@last"), tmp_path / "run", quiet=True)


def test_other_pieces_are_refused(begun: Path, tmp_path: Path) -> None:
    keys = {"init_from": str(begun / "first"), "epochs": 1}
    other = tiny_config(begun, tokenizer={"kind": "word", "max_size": 8}, train=keys)
    with pytest.raises(ConfigError, match=r"train\.init_from: .* another tokenizer\."):
        train(other, tmp_path / "run", quiet=True)


def test_frozen_weights_stay_and_a_resumed_run_stands_alone(begun: Path, tmp_path: Path) -> None:
    shutil.copytree(begun / "first", tmp_path / "first")
    keys = {"init_from": str(tmp_path / "first"), "freeze": ["encoder.*", "*.bias"]}
    longer, begin = (config(begun, epochs=n, **keys) for n in (3, 1))
    train(longer, tmp_path / "whole", quiet=True)
    train(begin, tmp_path / "parts", quiet=True)
    before = weights_of(tmp_path / "first", "best")
    shutil.rmtree(tmp_path / "first")
    train(longer, tmp_path / "parts", quiet=True)
    assert_same_checkpoint(tmp_path / "whole", tmp_path / "parts")
    after = last_checkpoint(tmp_path / "parts").model_tensors
    for name, weight in before.items():
        is_frozen = name.startswith("encoder.") or name.endswith(".bias")
        assert torch.equal(weight, after[name]) == is_frozen, name
    assert "frozen        " in log_of(tmp_path / "parts")
