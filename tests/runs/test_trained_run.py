"""A run as its readers open it: config.yaml is read once, whatever is done with it then."""

import json
from pathlib import Path

import pytest
from runs.test_directory import CPU, PAIRS, make_run
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.errors import ConfigError
from nmt.models.ensemble import Ensemble
from nmt.runs import directory
from nmt.runs.trained_run import TrainedRun
from nmt.translation.translator import Translator
from nmt.types import SentencePair


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = make_run(tmp_path / "x")
    run.checkpoint_folder.point({"best": 3})
    return run.path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The config.yaml files that are read, and those that are parsed."""
    opened: list[Path] = []
    for name in ("read_text", "load_text"):
        genuine = getattr(directory, name)

        def counted(*arguments: object, genuine: object = genuine, **options: object) -> object:
            opened.extend(a for a in arguments if isinstance(a, Path))
            assert callable(genuine)
            return genuine(*arguments, **options)

        monkeypatch.setattr(directory, name, counted)
    return opened


def test_the_library_reads_it_once_too(run: Path, reads: list[Path]) -> None:
    Translator.load(run).translate(["the cat"])
    assert reads == [run / "config.yaml"] * 2
    trained = TrainedRun.open(run)
    translator = Translator.load(trained, checkpoint="last")
    trained.load_model("last", CPU)
    assert trained.tokenizers().src.vocab == translator.tokenizers.src.vocab
    assert reads == [run / "config.yaml"] * 4


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


@pytest.fixture
def other(tmp_path: Path) -> Path:
    other = make_run(tmp_path / "y", 5)
    other.checkpoint_folder.point({"best": 5})
    return other.path


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
    other = make_run(tmp_path / "z", 4)
    other.checkpoint_folder.point({"best": 4})
    words = rf"^{other.path}: its src vocabulary is another than that of {run}; an ensemble needs"
    with pytest.raises(ConfigError, match=words):
        Translator.load([run, other.path], "cpu")


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
    runs = ["--run", str(run), "--run", str(other)]
    result = CliRunner().invoke(app, [name, *runs, "--weights", "2,1", *rest])
    assert result.exit_code == 0, result.output
    if name == "translate":
        expected = Translator.load([run, other], "cpu", weights=[2.0, 1.0]).translate(["the cat"])
        assert result.stdout == f"{expected[0].text}\n"
    if name == "eval":
        report = json.loads((run / "eval" / "src.en-with-y-weights2,1.json").read_text())
        assert report["ensemble"] == [str(run), str(other)]
        assert report["weights"] == [2, 1]
    wrong = CliRunner().invoke(app, [name, *runs, "--weights", "2", *rest])
    assert wrong.exit_code == 2
    assert "weights: got 2.0, allowed: a positive number for each of the 2 models" in wrong.output
