"""A run as its readers open it: config.yaml is read once, whatever is done with it then."""

from pathlib import Path

import pytest
from runs.test_directory import CPU, make_run
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.errors import ConfigError
from nmt.inference.translator import Translator
from nmt.runs import sealed_config
from nmt.runs.trained_run import TrainedRun


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = make_run(tmp_path / "x")
    made.checkpoint_folder.point({"best": 3})
    return made.path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The config.yaml files that are read, and those that are parsed."""
    found: list[Path] = []
    for name in ("read_text", "load_text"):
        genuine = getattr(sealed_config, name)

        def counted(*arguments: object, genuine: object = genuine, **options: object) -> object:
            found.extend(a for a in arguments if isinstance(a, Path))
            assert callable(genuine)
            return genuine(*arguments, **options)

        monkeypatch.setattr(sealed_config, name, counted)
    return found


@pytest.mark.parametrize(
    "command",
    [
        ["translate", "the cat"],
        ["translate", "--beam", "3", "--set", "search.length_penalty=0.5", "the cat"],
        ["attention", "the cat"],
        ["attention", "--beam", "2", "--n-best", "2", "the cat"],
        ["eval", "--src", "src.en", "--ref", "ref.fr", "--no-bootstrap", "--beam", "1"],
    ],
)
def test_a_command_reads_and_parses_the_config_once(
    run: Path, reads: list[Path], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    (run.parent / "src.en").write_text("the cat\n")
    (run.parent / "ref.fr").write_text("le chat\n")
    name, *rest = command
    result = CliRunner().invoke(app, [name, "--run", str(run), *rest])
    assert result.exit_code == 0, result.output
    assert reads == [run / "config.yaml"] * 2


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
