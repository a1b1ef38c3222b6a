"""The run directory: made, found, loaded; every way it can be wrong has its message."""

import json
import os
from pathlib import Path

import pytest
import torch
from cli.helpers import nmt
from training.toy import toy_config

from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.models.catalog import build_model
from nmt.models.ensemble import Ensemble
from nmt.runs.directory import RunDirectory
from nmt.runs.find import find_run
from nmt.runs.trained_run import TrainedRun
from nmt.text.tokenizer import train_tokenizers
from nmt.translation.translator import Translator
from nmt.types import SentencePair

CPU = torch.device("cpu")
PAIRS = [SentencePair("the cat sleeps .", "le chat dort ."), SentencePair("a dog", "un chien")]
ATTENTION = {"kind": "additive", "size": 7}
CONFIG = toy_config(
    Path(),
    data={"src_lang": "en", "tgt_lang": "fr"},
    tokenizer={"kind": "word", "min_freq": 1, "joint": True},
    model={"embedding": 11, "hidden": 11, "tie_embeddings": "all", "attention": ATTENTION},
)


def make_run(path: Path, step: int = 3, pairs: list[SentencePair] = PAIRS) -> RunDirectory:
    run = RunDirectory.create(path, CONFIG)
    tokenizers = train_tokenizers(CONFIG.tokenizer, pairs, "en", "fr", seed=1)
    tokenizers.save(run.tokenizer_path)
    torch.manual_seed(step)
    model = build_model(CONFIG.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    run.checkpoint_folder.save(step, model.state_dict(), {}, {"epoch": 1})
    run.checkpoint_folder.update_labels({"best": step, "last": step})
    return run


def test_what_is_no_run_or_lacks_a_part_is_refused(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "runs" / "deep" / "x", CONFIG)
    assert TrainedRun.open(directory.path).config == CONFIG
    with pytest.raises(DataError, match=r"tokenizer\.json: no such file"):
        TrainedRun.open(directory.path).load_model("last", CPU)
    directory.config_path.write_text("name: x\nmodle: {}\n")
    with pytest.raises(ConfigError, match=r"x/config\.yaml:2: modle: unknown key; did you mean 'm"):
        TrainedRun.open(directory.path)
    with pytest.raises(CheckpointError, match=r"nowhere: no such folder$"):
        TrainedRun.open(str(tmp_path / "nowhere"))


def test_the_loaded_model_is_the_saved_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "x")
    opened = TrainedRun.open(run.path)
    loaded, *others = (opened.load_model(which, CPU) for which in ("last", "step-000003", 3))
    assert [other.step for other in others] == [3, 3]
    assert loaded.config == run.load_config()
    assert loaded.tokenizers.src.vocab == loaded.tokenizers.tgt.vocab
    assert not loaded.model.training
    saved = run.checkpoint_folder.load("last").model_tensors
    weights = loaded.model.state_dict()
    assert all(torch.equal(weights[name], saved[name]) for name in saved)
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
    RunDirectory.create(root / "third", CONFIG)
    (root / "no run").mkdir()
    for seconds, run in ((2_000, first), (1_000, second)):
        os.utime(run.checkpoint_folder.find("last") / "state.json", (seconds, seconds))
    assert find_run(None, root) == first.path
    second.checkpoint_folder.save(4, {}, {}, {})
    assert find_run(None, root) == second.path
    assert find_run(first.path, root) == first.path


def test_no_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str | None, message: str) -> None:
        with pytest.raises(CheckpointError, match=f"^{message}$"):
            find_run(name and Path(name))

    monkeypatch.chdir(tmp_path)
    refused(None, "no `run` given and no folder 'runs' here; train a model first: .*")
    RunDirectory.create(Path("runs/x"), CONFIG)
    refused(None, "no `run` given, and no run in 'runs' has a checkpoint yet")
    refused("runs/x", "runs/x: this run has no checkpoint yet; train it.*")
    refused("x", "x: no such run; train one.*")  # a training may have just made runs/x
    refused("/quite/else", "/quite/else: no such run; train.*")
    Path("empty").mkdir()
    refused("empty", r"empty: not a run: it has no config\.yaml")
    make_run(Path("runs/trained"))
    refused("x", "x: no such run; there are: runs/trained")
    for path in ("runs", "runs/trained/checkpoints"):
        refused(path, r".*config\.yaml; did you mean 'runs/trained'\?")


def test_several_runs_translate_as_an_ensemble(tmp_path: Path) -> None:
    run, other = make_run(tmp_path / "x").path, make_run(tmp_path / "y", 5).path
    [one], [same] = (Translator.load(r, CPU).translate(["the cat"]) for r in (run, [run, run]))
    assert same.text == one.text
    both = Translator.load([run, other], CPU, weights=[2.0, 6.0])
    assert isinstance(both.model, Ensemble)
    assert both.model.weights == (0.25, 0.75)
    assert f"from {run} + {other}, checkpoint best" in repr(both)
    assert Translator.load([run, other], CPU, int8=True).translate(["the cat"])[0].hypotheses
    with pytest.raises(ConfigError, match=r"^run: got none, allowed: one, or several"):
        Translator.load([], CPU)
    runs = ("--run", run, "--run", other, "--weights")
    text = both.translate(["the cat"])[0].text
    assert nmt("translate", "the cat", *runs, "2,6").stdout == f"{text}\n"
    nmt("attention", "the cat", *runs, "2,6", "--out", tmp_path / "maps.npz")
    path = tmp_path / "src.en"
    path.write_text("the cat\n")
    nmt("eval", "--src", path, "--ref", path, "--no-bootstrap", *runs, "2,6")
    report = json.loads((run / "eval" / "src.en-with-y-weights2,6.json").read_text())
    assert (report["ensemble"], report["weights"]) == ([str(run), str(other)], [2, 6])
    pairs = [SentencePair(pair.src_text, f"{pair.tgt_text} oui") for pair in PAIRS]
    other = make_run(tmp_path / "z", 4, pairs).path
    words = rf"^{other}: its src vocabulary differs from that of {run}; an ensemble needs"
    with pytest.raises(ConfigError, match=words):
        Translator.load([run, other], CPU)
