"""The run directory: made, found, loaded; every way it can be wrong has its message."""

import os
from pathlib import Path

import pytest
import torch

from nmt.config import RunConfig, load_config
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.models.catalog import build_model
from nmt.runs.directory import RunDirectory
from nmt.runs.find import find_run
from nmt.runs.trained_run import TrainedRun
from nmt.text.tokenizer import train_tokenizers
from nmt.types import SentencePair

CPU = torch.device("cpu")
PAIRS = [SentencePair("the cat sleeps .", "le chat dort ."), SentencePair("a dog", "un chien")]


def make_config(folder: Path, *overrides: str) -> RunConfig:
    path = folder / "x.yaml"
    path.write_text(
        "name: x\n"
        "data: {corpus: starter}\n"
        "tokenizer: {kind: word, min_freq: 1, joint: true}\n"
        "model: {embedding: 11, hidden: 11, tie_embeddings: all, attention: {size: 7}}\n"
        "train: {epochs: 1}\n"
    )
    return load_config(path, overrides)


def make_run(path: Path, step: int = 3, *overrides: str) -> RunDirectory:
    path.parent.mkdir(parents=True, exist_ok=True)
    config = make_config(path.parent, *overrides)
    run = RunDirectory.create(path, config)
    tokenizers = train_tokenizers(config.tokenizer, PAIRS, "en", "fr", seed=1)
    tokenizers.save(run.tokenizer_path)
    torch.manual_seed(step)
    model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    run.checkpoint_folder.save(step, model.state_dict(), {}, {"epoch": 1})
    run.checkpoint_folder.update_labels({"best": step, "last": step})
    return run


def test_what_is_no_run_or_lacks_a_part_is_refused(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    directory = RunDirectory.create(tmp_path / "runs" / "deep" / "x", config)
    assert TrainedRun.open(directory.path).config == config
    with pytest.raises(DataError, match=r"tokenizer\.json: no such file"):
        TrainedRun.open(directory.path).load_model("last", CPU)
    directory.config_path.write_text("name: x\nmodle: {}\n")
    with pytest.raises(ConfigError, match=r"x/config\.yaml:2: modle: unknown key; did you mean 'm"):
        TrainedRun.open(directory.path)
    with pytest.raises(CheckpointError, match=r"nowhere: no such folder$"):
        TrainedRun.open(str(tmp_path / "nowhere"))
    with pytest.raises(CheckpointError, match=r": not a run: it has no config\.yaml$"):
        TrainedRun.open(tmp_path)


@pytest.mark.parametrize("which", ["last", "step-000003", "3", 3])
def test_the_loaded_model_is_the_saved_one(tmp_path: Path, which: str | int) -> None:
    run = make_run(tmp_path / "x")
    loaded = TrainedRun.open(run.path).load_model(which, CPU)
    assert loaded.step == 3
    assert loaded.config == run.load_config()
    assert loaded.tokenizers.src.vocab == loaded.tokenizers.tgt.vocab
    assert not loaded.model.training
    saved = run.checkpoint_folder.load("last").model_tensors
    got = loaded.model.state_dict()
    assert all(torch.equal(got[name], saved[name]) for name in saved)
    # It computes, with nothing left without storage, what the model that was saved computes.
    tokenizers = loaded.tokenizers
    twin = build_model(loaded.config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    assert not twin.load_state_dict(saved, strict=False).unexpected_keys
    twin.eval()
    ids, keep = torch.tensor([[4, 5, 6, 3]]), torch.ones(1, 4, dtype=torch.bool)
    tgt_in = torch.tensor([[2, 7, 8]])
    assert torch.equal(loaded.model(ids, keep, tgt_in).logits, twin(ids, keep, tgt_in).logits)
    # Tied weights are one parameter still.
    n_stored = sum(tensor.numel() for tensor in saved.values())
    assert sum(p.numel() for p in loaded.model.parameters()) == n_stored


def test_the_newest_checkpoint_decides(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    first, second = make_run(root / "first"), make_run(root / "second")
    RunDirectory.create(root / "third", make_config(tmp_path))
    (root / "no run").mkdir()
    for seconds, run in ((2_000, first), (1_000, second)):
        os.utime(run.checkpoint_folder.find("last") / "state.json", (seconds, seconds))
    assert find_run(None, root) == first.path
    second.checkpoint_folder.save(4, {}, {}, {})
    assert find_run(None, root) == second.path
    assert find_run(first.path, root) == first.path


def test_no_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        find_run(None)
    assert str(caught.value) == (
        "no `run` given and no folder 'runs' here; train a model first: nmt train `config=starter`"
    )
    run = RunDirectory.create(Path("runs/x"), make_config(tmp_path))
    with pytest.raises(CheckpointError, match=r"no run in 'runs' has a checkpoint yet$"):
        find_run(None)
    with pytest.raises(CheckpointError, match="runs/x: this run has no checkpoint yet; train it"):
        find_run(run.path)
    for name in ("run/y", "x"):  # runs/x has no checkpoint: a training may have just made it
        with pytest.raises(CheckpointError, match=f"^{name}: no such run; train one"):
            find_run(Path(name))
    with pytest.raises(CheckpointError, match=r"^/quite/else: no such run; train"):
        find_run(Path("/quite/else"))
    Path("empty").mkdir()
    with pytest.raises(CheckpointError, match=r"^empty: not a run: it has no config\.yaml$"):
        find_run(Path("empty"))
    trained = make_run(Path("runs/trained")).path
    with pytest.raises(CheckpointError, match=r"^x: no such run; there are: runs/trained$"):
        find_run(Path("x"))
    for path in (Path("runs"), trained / "checkpoints"):
        with pytest.raises(CheckpointError, match=r"did you mean 'runs/trained'\?$"):
            find_run(path)
