"""COMET by a stand-in for its package: the real one and its models are not had in the tests."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nmt.errors import ConfigError, DataError
from nmt.evaluation.comet import comet_name, comet_score, load_comet
from nmt.types import EvalExample

EXAMPLES = [
    EvalExample("the cat", ("le chat",)),
    EvalExample("a dog", ("un chien", "un chat", "le chien")),
    EvalExample("hello", ("bonjour", "salut")),
]


class Model:
    """Scores 1 where translation and reference are the same, else 0; notes its samples."""

    def __init__(self) -> None:
        self.samples: list[dict[str, str]] = []
        self.options: dict[str, Any] = {}

    def predict(self, samples: list[dict[str, str]], **options: Any) -> dict[str, Any]:
        self.samples, self.options = samples, options
        scores = [float(sample["mt"] == sample["ref"]) for sample in samples]
        return {"scores": scores, "system_score": sum(scores) / len(scores)}


def test_the_score_is_the_mean_over_sentences_of_the_mean_over_references() -> None:
    model = Model()
    hyps = ["le chat", "un chien", "adieu"]
    result = comet_score(model, "m", hyps, EXAMPLES)
    assert result.score == pytest.approx(100 * (1 + 1 / 3 + 0) / 3)
    assert len(model.samples) == 6
    assert model.samples[1] == {"src": "a dog", "mt": "un chien", "ref": "un chien"}
    assert result.name == "COMET"
    assert 0 <= result.low < result.score < result.high <= 100
    assert result.signature.startswith("model:m|times:100|bs:1000|seed:12345|version:")
    assert comet_score(model, "m", hyps, EXAMPLES) == result
    single = comet_score(model, "m", ["le chat"], EXAMPLES[:1], n_bootstrap=0)
    assert (single.score, single.low, single.high, single.n_bootstrap) == (100, None, None, 0)
    with pytest.raises(ConfigError, match="reads the source of each sentence"):
        comet_score(model, "m", ["le chat"], [EvalExample("", ("le chat",))])


@pytest.mark.parametrize(("gpu", "gpus", "devices"), [(None, 0, None), (0, 1, [0]), (3, 1, [3])])
def test_the_gpu_is_that_of_the_run(gpu: int | None, gpus: int, devices: list[int] | None) -> None:
    model = Model()
    comet_score(model, "m", ["le chat"], EXAMPLES[:1], n_bootstrap=0, gpu=gpu)
    assert (model.options["gpus"], model.options["devices"]) == (gpus, devices)


def test_a_checkpoint_is_read_by_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_from_checkpoint(path: str) -> Model:
        if Path(path).read_bytes() != b"a checkpoint":
            raise RuntimeError("Invalid magic number\nin a file")
        return Model()

    package = ModuleType("comet")
    package.load_from_checkpoint = load_from_checkpoint  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comet", package)
    path = tmp_path / "model.ckpt"
    with pytest.raises(ConfigError, match=r"`comet`: .*model.ckpt: no such file"):
        load_comet(path)
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"model.ckpt: cannot be read: Invalid magic number$"):
        load_comet(path)
    path.write_bytes(b"a checkpoint")
    assert isinstance(load_comet(path), Model)
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(ConfigError, match="`comet`: the package unbabel-comet is missing"):
        load_comet(path)


def test_a_model_is_called_as_its_folder() -> None:
    path = Path("/a/wmt22-comet-da/checkpoints/model.ckpt")
    assert comet_name(path) == "wmt22-comet-da/model.ckpt"
    assert comet_name(Path("/a/mine/x.ckpt")) == "mine/x.ckpt"
