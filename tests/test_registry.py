"""Kinds from outside of the package: chosen, trained, saved and loaded as those inside.

docs/api.md, whose examples run in test_docs.py, has a loss of its own.
"""

import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn
from training.toy import records, train_tiny, write_reversal

from nmt import register
from nmt.config import RunConfig, dump_config, load_config
from nmt.errors import ConfigError
from nmt.evaluation.evaluate import score_translations
from nmt.evaluation.metric import Metric, MetricResult, Scoring
from nmt.models.attention.base import Attention
from nmt.models.attention.multi_head import MultiHeadConfig
from nmt.models.attention.options import AttentionOptions
from nmt.models.recurrent.rnn import RNNConfig
from nmt.optim.losses import LossOptions
from nmt.optim.optimizers import NamedParameters, OptimizerOptions
from nmt.runs.directory import RunDirectory, add_checksum
from nmt.settings.config_file import load_plugins
from nmt.translation.translator import Translator
from nmt.types import LOWER_IS_BETTER, EvalExample

pytestmark = pytest.mark.usefixtures("kinds")


class Distance(Attention):
    def __init__(self, query_size: int, memory_size: int, power: float) -> None:
        super().__init__(key_size=query_size)
        self.W_k = nn.Linear(memory_size, query_size, bias=False)
        self.power = power

    def project(self, values: torch.Tensor) -> torch.Tensor:
        return self.W_k(values)

    def score(self, query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return -(query.unsqueeze(2) - keys.unsqueeze(1)).abs().pow(self.power).sum(dim=-1)


class DistanceConfig(AttentionOptions):
    """Attention by distance."""

    kind: Literal["distance"] = "distance"
    power: float = 1.0

    def build_core(self, query_size: int, memory_size: int, backend: str) -> Attention:
        return Distance(query_size, memory_size, self.power)


class Length(Metric):
    """Characters of the translations."""

    title, kind = "Length", "length"
    lower_is_better = True

    def score(self, hyps: Any, examples: Any, scoring: Any) -> MetricResult:
        return MetricResult("Length", float(sum(map(len, hyps))), "v1", None, None, 0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_reversal(folder, n_train=100, n_test=10)
    return folder


def test_a_registered_attention_is_trained_saved_and_loaded(corpus: Path) -> None:
    register(DistanceConfig)
    attention = {"kind": "distance", "power": 1.5, "coverage": {"kind": "sum"}}
    train_tiny(corpus, "distance", model={"attention": attention})
    translator = Translator.load(corpus / "distance")
    texts = ["a b c", "f e d c b a"]
    assert translator.model.decoder.attention.power == 1.5
    for translation in (*translator.translate(texts), *translator.force(texts, texts)):
        attention = translation.hypotheses[0].hypothesis.attention
        assert attention.shape[1] == len(translation.source.ids) + 1
        np.testing.assert_allclose(attention.sum(axis=1), 1, rtol=1e-5)


def test_a_registered_attention_works_within_heads() -> None:
    register(DistanceConfig)
    over = {"kind": "distance", "power": 1.5}
    config = MultiHeadConfig.model_validate({"heads": 2, "over": over})
    core = config.build_core(6, 4, "reference")
    assert [score.power for score in core.scores] == [1.5, 1.5]


class HalvedConfig(OptimizerOptions):
    """Gradient descent by half of the learning rate."""

    kind: Literal["halved"] = "halved"

    def build(self, parameters: NamedParameters, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr / 2)


def test_a_registered_optimiser_trains(corpus: Path) -> None:
    register(HalvedConfig)
    for kind, lr in (("halved", 0.25), ("sgd", 0.125)):
        train_tiny(corpus, kind, train={"steps": 4, "lr": lr, "optimizer": {"kind": kind}})
    halved, sgd = (Translator.load(corpus / name).model.state_dict() for name in ("halved", "sgd"))
    assert all(torch.equal(value, sgd[name]) for name, value in halved.items())


def test_a_run_of_a_kind_that_is_not_registered_names_it(tmp_path: Path) -> None:
    text = dump_config(load_config("starter")).replace("adam", "halved")
    (tmp_path / "config.yaml").write_text(add_checksum(text))
    with pytest.raises(ConfigError, match=r"optimizer\.kind: got 'halved'.*a package"):
        RunDirectory(tmp_path).load_config()


def test_a_registered_metric_chooses_the_best_checkpoint(corpus: Path) -> None:
    register(Length)
    schedule = {"kind": "plateau", "metric": "length"}
    valid = {"metric": "length", "every": 2}
    outcome = train_tiny(corpus, "length", valid=valid, train={"schedule": schedule})
    lengths = [(line["length"], line["step"]) for line in records(corpus / "length", "valid")]
    assert outcome.best is not None
    assert outcome.best.describe("length") == f"Length {min(lengths)[0]:.2f}"
    assert outcome.best.step in [step for length, step in lengths if length == min(lengths)[0]]
    register(type("Longest", (Length,), {"lower_is_better": False}))
    assert "length" not in LOWER_IS_BETTER
    register(type("Undefined", (Length,), {"score": lambda *_: math.nan}))
    with pytest.raises(ConfigError, match="metric length: got nan"):
        score_translations(["a"], [EvalExample("a", ("a",))], Scoring("en", ("length",)))


def test_a_kind_that_is_registered_again_replaces_the_first() -> None:
    """As a cell of a notebook does that runs twice; the others of the package stay."""
    register(DistanceConfig)
    register(type("Newer", (DistanceConfig,), {"__annotations__": {"power": float}, "power": 3.0}))
    sizes = ("model.hidden=4", "model.encoder={hidden: 2}")
    for kind, power in (("distance", 3.0), ("dot", None)):
        config = load_config("starter", [f"model.attention={kind}", *sizes])
        assert getattr(config.model.attention, "power", None) == power


TAKEN = {"__annotations__": {"kind": Literal["dot"]}, "kind": "dot"}
PARTIAL = Literal["partial"]  # its class lacks the method `build`
NAMES_OF_THE_PACKAGE = [
    type("Taken", (DistanceConfig,), TAKEN),
    type("NoMetric", (Length,), {"kind": "loss"}),
    type("Partial", (LossOptions,), {"__annotations__": {"kind": PARTIAL}, "kind": "partial"}),
]


@pytest.mark.parametrize("unfit", [*NAMES_OF_THE_PACKAGE, Metric, LossOptions, RNNConfig, dict])
def test_what_is_no_new_kind_is_refused_and_changes_nothing(unfit: Any) -> None:
    schema = json.dumps(RunConfig.model_json_schema())
    with pytest.raises(ConfigError, match=f"register: got {unfit.__name__} of kind"):
        register(unfit)
    assert json.dumps(RunConfig.model_json_schema()) == schema


def test_the_kinds_of_an_installed_package_are_known_to_configs(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "extra-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: extra\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[nmt.plugins]\nkinds = extra_kinds\n")
    load_plugins.cache_clear()
    with pytest.raises(ConfigError, match="plugin 'kinds', extra_kinds: ModuleNotFoundError"):
        load_config("starter")
    program = "import nmt, test_registry\nnmt.register(test_registry.DistanceConfig)\n"
    (tmp_path / "extra_kinds.py").write_text(program)
    config = load_config("starter", ["model.attention.kind=distance", "model.attention.power=2"])
    assert config.model.attention.model_dump() == DistanceConfig(power=2).model_dump()
