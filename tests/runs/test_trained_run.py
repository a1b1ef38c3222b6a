"""A run as its readers open it, with another config, and several as an ensemble."""

import json
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal
from runs.test_directory import PAIRS, make_run

from nmt.errors import ConfigError
from nmt.models.ensemble import Ensemble
from nmt.runs.trained_run import TrainedRun
from nmt.translation.translator import Translator
from nmt.types import SentencePair


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "x").path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return make_run(tmp_path / "y", 5).path


def test_another_config_is_another_value(run: Path) -> None:
    trained = TrainedRun.open(run)
    changed = trained.with_config(["search.beam=3", "search.n_best=2"])
    assert (changed.config.search.beam, changed.config.search.n_best) == (3, 2)
    assert Translator.load(changed).search.beam == 3
    assert trained.config == TrainedRun.open(run).config
    assert trained.with_config([]) is not None
    with pytest.raises(ConfigError, match=r"search\.beam"):
        trained.with_config(["search.beam=none"])
    with pytest.raises(ConfigError, match="n_best"):
        trained.with_config(["search.beam=1", "search.n_best=2"])


def test_several_runs_translate_as_an_ensemble(run: Path, other: Path) -> None:
    alone, twice = (Translator.load(runs, "cpu") for runs in (run, [run, str(run)]))
    [one], [same] = (translator.translate(["the cat"]) for translator in (alone, twice))
    assert same.text == one.text
    both = Translator.load([run, other], "cpu", weights=[3.0, 1.0])
    assert isinstance(both.model, Ensemble)
    assert both.model.weights == (0.75, 0.25)
    assert f"from {run} + {other}, checkpoint best" in repr(both)
    quantized = Translator.load([run, other], "cpu", int8=True)
    assert quantized.translate(["the cat"])[0].hypotheses
    with pytest.raises(ConfigError, match=r"^run: got none, allowed: one, or several"):
        Translator.load([], "cpu")


def test_an_ensemble_needs_the_same_vocabularies(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [SentencePair(pair.src_text, f"{pair.tgt_text} oui") for pair in PAIRS]
    monkeypatch.setattr("runs.test_directory.PAIRS", pairs)
    other = make_run(tmp_path / "z", 4).path
    words = rf"^{other}: its src vocabulary differs from that of {run}; an ensemble needs"
    with pytest.raises(ConfigError, match=words):
        Translator.load([run, other], "cpu")


@pytest.mark.parametrize(
    "command",
    [
        ["translate", "the cat"],
        ["attention", "the cat"],
        ["eval", "--src", "src.en", "--ref", "ref.fr", "--no-bootstrap", "--json"],
    ],
)
def test_commands_take_several_runs(
    run: Path, other: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    (run.parent / "src.en").write_text("the cat\n")
    (run.parent / "ref.fr").write_text("le chat\n")
    name, *rest = command
    rest += ["--run", str(run), "--run", str(other), "--weights"]
    result = nmt(name, *rest, "2,1")
    if name == "translate":
        expected = Translator.load([run, other], "cpu", weights=[2.0, 1.0]).translate(["the cat"])
        assert result.stdout == f"{expected[0].text}\n"
    if name == "eval":
        report = json.loads((run / "eval" / "src.en-with-y-weights2,1.json").read_text())
        assert report["ensemble"] == [str(run), str(other)]
        assert report["weights"] == [2, 1]
    error = refusal(name, *rest, "2")
    assert "weights: got 2.0, allowed: a positive number for each of the 2 models" in error
