"""COMET by a stand-in for its package: the real one and its models are not had in the tests."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from nmt.errors import ConfigError, DataError
from nmt.evaluation.metric import Scoring
from nmt.evaluation.metrics import METRICS
from nmt.types import EvalExample

COMET = METRICS["comet"]
EXAMPLES = [
    EvalExample("the cat", ("le chat",)),
    EvalExample("a dog", ("un chien", "un chat", "le chien")),
    EvalExample("hello", ("bonjour", "salut")),
]


class Model:
    """Scores 1 where translation and reference are the same, else 0; notes its samples."""

    samples: ClassVar[list[dict[str, str]]] = []
    options: ClassVar[dict[str, Any]] = {}

    @classmethod
    def predict(cls, samples: list[dict[str, str]], **options: Any) -> dict[str, Any]:
        cls.samples, cls.options = samples, options
        return {"scores": [float(sample["mt"] == sample["ref"]) for sample in samples]}


def load_from_checkpoint(path: str) -> Model:
    if Path(path).read_bytes() != b"a checkpoint":
        raise RuntimeError("Invalid magic number\nin a file")
    return Model()


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = ModuleType("comet")
    package.__spec__ = ModuleSpec("comet", None)
    package.load_from_checkpoint = load_from_checkpoint  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comet", package)
    path = tmp_path / "wmt22-comet-da" / "checkpoints" / "model.ckpt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a checkpoint")
    return path


def test_the_score_is_a_mean_over_sentences_and_references(checkpoint: Path) -> None:
    hyps, scoring = ["le chat", "un chien", "adieu"], Scoring("fr", ("comet",), comet=checkpoint)
    COMET.load(scoring)
    result = COMET.score(hyps, EXAMPLES, scoring)
    assert result.score == pytest.approx(100 * (1 + 1 / 3 + 0) / 3)
    assert len(Model.samples) == 6
    assert Model.samples[1] == {"src": "a dog", "mt": "un chien", "ref": "un chien"}
    assert (Model.options["gpus"], Model.options["devices"]) == (0, None)
    assert 0 <= result.low < result.score < result.high <= 100
    about = "model:wmt22-comet-da/model.ckpt|times:100|bs:1000|seed:12345|version:"
    assert result.signature.startswith(about)
    assert COMET.score(hyps, EXAMPLES, scoring) == result
    single = Scoring("fr", ("comet",), 0, comet=checkpoint, gpu=3)
    result = COMET.score(["le chat"], EXAMPLES[:1], single)
    assert (result.score, result.low, result.high, result.n_bootstrap) == (100, None, None, 0)
    assert (Model.options["gpus"], Model.options["devices"]) == (1, [3])
    with pytest.raises(ConfigError, match="source of each sentence"):
        COMET.score(["le chat"], [EvalExample("", ("le chat",))], single)


def test_a_checkpoint_that_cannot_be_read_is_named(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = checkpoint.with_name("other.ckpt")
    for path in (None, other):
        with pytest.raises(ConfigError, match=r"`comet`: .*model.ckpt"):
            COMET.check(Scoring("fr", comet=path), "")
    other.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"other.ckpt: cannot be read: Invalid magic number$"):
        COMET.load(Scoring("fr", comet=other))
    monkeypatch.delitem(sys.modules, "comet")
    with pytest.raises(ConfigError, match="unbabel-comet is missing"):
        COMET.check(Scoring("fr", comet=checkpoint), "")
