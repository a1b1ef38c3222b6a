"""compare_family.py on two tiny runs: what it trains, leaves alone, measures and refuses."""

import json
import math
import sys
from pathlib import Path

import compare_family
import comparison.speed
import numpy as np
import pytest
from compare_family import is_finished, read_configs, run_path
from comparison.measures import difference
from evaluation.translations import EQUAL, ONE_EACH, OTHER, REFS, WORSE
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.errors import CheckpointError
from nmt.evaluation.significance import compare

STEPS = 12


def run(folder: Path, *words: str) -> int:
    places = {"--configs": "configs", "--runs": "runs", "--out": "out"}
    options = [word for key, name in places.items() for word in (key, str(folder / name))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["compare_family.py", *options, "--sentence", "3", *words])
        return compare_family.main()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recipes; additive was trained with seeds 1 and 2, none with seed 1."""
    folder = tmp_path_factory.mktemp("family")
    write_reversal(folder, n_train=200, n_test=20)
    (folder / "configs").mkdir()
    train = {"epochs": None, "steps": STEPS, "batch_size": 32, "lr": 0.005, "device": "cpu"}
    for name in ("additive", "none"):
        model = {"kind": "rnn", "embedding": 8, "hidden": 12, "attention": {"kind": name}}
        config = toy_config(folder, name=name, model=model, train=train)
        (folder / "configs" / f"{name}.yaml").write_text(dump_config(config), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:  # it takes a process for each kind
        patch.setattr(comparison.speed, "memory_of", lambda config, material: 5 * 2**20)
        assert run(folder, "--seeds", "1", "--rounds", "1") == 0
    (folder / "configs" / "none.yaml").rename(folder / "none.yaml")
    assert run(folder, "--seeds", "1", "2") == 0
    (folder / "none.yaml").rename(folder / "configs" / "none.yaml")
    return folder


def test_both_kinds_are_measured_and_shown(home: Path) -> None:
    assert run(home, "--seeds", "1", "2", "--measure-only") == 0
    family = json.loads((home / "out" / "family.json").read_text())
    additive, none = family["kinds"]["additive"], family["kinds"]["none"]
    assert set(additive["bleus"]) == {"1", "2"}
    assert additive["bleu"] == pytest.approx(np.mean([*additive["bleus"].values()]))
    assert additive["spread"] == pytest.approx(np.std([*additive["bleus"].values()], ddof=1))
    assert (none["spread"], additive["difference"]) == (None, None)
    shared = none["bleus"]["1"] - additive["bleus"]["1"]
    assert none["difference"]["mean"] == pytest.approx(shared)
    assert none["perplexity"] == pytest.approx(math.exp(none["loss"]))
    assert none["looks"]["entropy"] == 0
    assert family["speed"]["none"]["memory_bytes"] == 5 * 2**20
    paths = [home / "out" / name for name in ("table.md", "bleu.png", "bleu-by-length.png")]
    before = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    assert run(home, "--kept", "--runs", str(home / "nothing")) == 0
    assert [path.read_bytes() for path in paths] == before


def test_finished_runs_are_left_alone_and_measured_once(home: Path) -> None:
    path = run_path(home / "runs", "additive", 1)
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    assert run(home, "--seeds", "1") == 0
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before
    config = read_configs(home / "configs")["none"]
    assert is_finished(run_path(home / "runs", "none", 1), config)
    assert not is_finished(run_path(home / "runs", "none", 7), config)
    with pytest.raises(CheckpointError, match="another config"):
        is_finished(run_path(home / "runs", "none", 1), config.model_copy(update={"seed": 7}))


def test_a_difference_is_of_the_means_over_the_runs():
    for metric in ("bleu", "chrf"):  # single runs differ as in a comparison
        ours = difference(metric, [WORSE], [OTHER], ONE_EACH, "fr")
        compared = compare(metric, WORSE, OTHER, ONE_EACH, "fr")
        assert ours.p_value == pytest.approx(compared.p_value, abs=2e-3)  # theirs sums in fp32
        assert ours.mean == pytest.approx(compared.score - compared.baseline)
        assert ours.low < ours.mean < ours.high
    single = difference("bleu", [WORSE], [REFS], ONE_EACH, "fr")
    none = difference("bleu", [REFS], [REFS], ONE_EACH, "fr")
    both = difference("bleu", [WORSE, REFS], [REFS] * 3, ONE_EACH, "fr")
    assert single.low > 0
    assert single.p_value < 0.01
    assert (none.mean, none.low, none.high, none.p_value) == (0, 0, 0, 1)
    assert both.mean == pytest.approx(single.mean / 2)
    assert both.high == pytest.approx(single.high / 2)

    by_chance = difference("bleu", [WORSE], [EQUAL], ONE_EACH, "fr")
    assert by_chance.low < 0 < by_chance.high
    assert by_chance.p_value > 0.05
