"""Every experiment: equal files from equal options, and impossible options named in one line."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from nmt.errors import NMTError
from nmt.explain.attribution import inputs
from nmt.lab.experiment import perform
from nmt.lab.experiments import EXPERIMENTS, find
from nmt.lab.numbers import readable_json, summary
from nmt.settings.config_file import load_overrides

LAB = Path(__file__).parents[2] / "nmt" / "lab"

QUICK: dict[str, tuple[str, ...]] = {
    "architectures": (),
    "captions": ("updates=3", "pictures=4", "tests=12"),
    "cues": ("updates=2", "tests=5"),
    "equivariance": ("permutations=5",),
    "heads": ("updates=2", "letters=4", "size=8"),
    "kernel-regression": ("epochs=20", "draws=2"),
    "key-size": ("sizes=[3,8]", "draws=2", "updates=2", "items=5", "names=7"),
    "masks": (),
    "positions": ("positions=9",),
    "retrieval": (),
    "scaling": ("sizes=[1,3,64]", "draws=2"),
    "truth": ("hidden=8", "embedding=4", "updates=2", "batch=3", "sentences=1", "models=2"),
}
"""The experiments that are deterministic but for their time, in their smallest size."""


def test_the_catalogue_is_complete_and_options_are_described() -> None:
    files = {path.stem for path in LAB.glob("*.py") if "\nEXPERIMENT = " in path.read_text("utf-8")}
    assert files == {name.replace("-", "_") for name in EXPERIMENTS}
    for name in EXPERIMENTS:
        assert all(field.description for field in find(name).options.model_fields.values())


@pytest.mark.parametrize("name", QUICK)
def test_two_runs_are_equal_and_leave_chance_alone(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 1.0)
    monkeypatch.setattr(inputs, "_POINTS", (2,))
    states = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()
    report, experiment = perform(name, QUICK[name], tmp_path), find(name)
    again = experiment.run(load_overrides(QUICK[name], experiment.options)).content()
    assert json.loads(report.paths[0].read_text())["numbers"] == json.loads(readable_json(again))
    assert report.summary == summary(again)
    assert states == (torch.get_rng_state().tolist(), np.random.get_state()[1].tolist())
    height, width, _ = imread(report.paths[1]).shape
    assert max(width, height) <= 1600
    # After three updates captions, and so their strips, are short.
    assert name == "captions" or (width >= 800 and height >= 370)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("complexity", "longest=1000", "longest.*got 1000, allowed: 32 times a power of 2"),
        ("cues", "lr=1e30; updates=3; tests=9; batch=2", "^cues: got NaN or infinity"),
        ("captions", "attention={kind: dot}; annotation=32", "attention.kind: 'dot' needs"),
        ("heads", "heads=[3]", "heads: got 3, allowed: divisors of size"),
        ("kernel-regression", "draws=1; epochs=1; points=5; lr=1e30", "smaller lr"),
        ("scaling", "sizes=[]", r"sizes: got \[\]: .* at least 1 item"),
    ],
)
def test_an_impossible_option_is_refused(name: str, options: str, message: str, tmp_path) -> None:
    with pytest.raises(NMTError, match=message):
        perform(name, options.split("; "), tmp_path)
    assert not list(tmp_path.iterdir())
