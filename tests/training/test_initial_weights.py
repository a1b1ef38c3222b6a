"""First weights of another run, and frozen ones."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from forging import forge_tensors
from training.toy import assert_same_checkpoint, log_of, tiny_config, train_tiny, write_reversal

from nmt.config import RunConfig
from nmt.errors import CheckpointError, ConfigError
from nmt.runs.trained_run import TrainedRun
from nmt.training.initial_weights import find_initial_run
from nmt.training.loop import train

TABLE = "encoder.embedding.weight"
TRANSFORMER = {"kind": "transformer", "size": 12, "heads": 2, "layers": 1}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a run `first`."""
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=60, n_test=5)
    train_tiny(folder, "first", valid={"metric": "loss"})
    return folder


def config(begun: Path, train: dict[str, Any] | None = None, **sections: Any) -> RunConfig:
    keys = {"init_from": str(begun / "first"), "epochs": 1, **(train or {})}
    return tiny_config(begun, train=keys, **sections)


def weights_of(run: Path, which: str = "last") -> dict[str, torch.Tensor]:
    return TrainedRun.open(run).directory.checkpoint_folder.load_weights(which)[1]


def test_a_training_begins_where_the_other_run_ended(begun: Path, tmp_path: Path) -> None:
    """With a vanishing learning rate, the weights stay equal to the named checkpoint.

    The path of the other run has an at sign.
    """
    run, link = tmp_path / "run", tmp_path / "first@last"
    link.symlink_to(begun / "first")
    assert find_initial_run(str(link))[1] == "best"
    keys = {"init_from": f"{link}@last", "lr": 1e-30}
    train(config(begun, keys), run, quiet=True)
    torch.testing.assert_close(weights_of(run), weights_of(begun / "first"), rtol=0, atol=0)
    ours, theirs = (TrainedRun.open(path).tokenizers() for path in (run, begun / "first"))
    assert ours.src.model_bytes == theirs.src.model_bytes


def test_what_does_not_fit_is_drawn_anew_or_refused(begun, tmp_path, monkeypatch) -> None:
    """So are tensors that do not fit their own run, with right checksums."""
    monkeypatch.chdir(begun)
    model = {"hidden": 7, "decoder": {"kind": "luong"}}
    train(config(begun, model=model), tmp_path / "run", quiet=True)
    assert "drawn at random: encoder." in log_of(tmp_path / "run")
    shutil.copytree(begun / "first", tmp_path / "forged")
    checkpoint = max((tmp_path / "forged" / "checkpoints").glob("step-*"))
    forge_tensors(checkpoint, "model", lambda t: t.update({TABLE: t[TABLE][:5].clone()}))
    forged = {"init_from": f"{tmp_path / 'forged'}@last"}
    sections: dict[str, Any]
    for sections, error, words in (
        ({"model": TRANSFORMER}, ConfigError, "none of its matrices"),
        ({"tokenizer": {"kind": "word", "max_size": 8}}, ConfigError, "made with tokenizer"),
        ({"train": {"init_from": "absent"}}, CheckpointError, "no such run"),
        ({"train": {"init_from": "first@step-9"}}, CheckpointError, "no checkpoint 'step-9'"),
        ({"train": {"freeze": ["encodr.*"]}}, ConfigError, "no weight has such a name"),
        ({"train": {"freeze": ["*"]}}, ConfigError, "all weights are frozen"),
        ({"train": forged}, CheckpointError, "does not fit config"),
    ):
        with pytest.raises(error, match=words):
            train(config(begun, **sections), tmp_path / "refused", quiet=True)


def test_frozen_weights_stay_and_a_resumed_run_stands_alone(begun: Path, tmp_path: Path) -> None:
    shutil.copytree(begun / "first", tmp_path / "first")
    keys = {"init_from": str(tmp_path / "first"), "freeze": ["encoder.*", "*.bias"]}
    longer, begin = (config(begun, {**keys, "epochs": n}) for n in (3, 1))
    train(longer, tmp_path / "whole", quiet=True)
    train(begin, tmp_path / "parts", quiet=True)
    before = weights_of(tmp_path / "first", "best")
    shutil.rmtree(tmp_path / "first")
    train(longer, tmp_path / "parts", quiet=True)
    assert_same_checkpoint(tmp_path / "whole", tmp_path / "parts")
    after = weights_of(tmp_path / "parts")
    for name, weight in before.items():
        is_frozen = name.startswith("encoder.") or name.endswith(".bias")
        assert torch.equal(weight, after[name]) == is_frozen, name
