"""Every experiment: its two files, the same from the same options, and the contract kept."""

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from nmt.lab.experiment import seeded
from nmt.lab.experiments import EXPERIMENTS, find
from nmt.lab.perform import perform

LAB = Path(__file__).parents[2] / "nmt" / "lab"

QUICK: dict[str, tuple[str, ...]] = {
    "architectures": (),
    "cues": ("updates=2", "tests=5"),
    "equivariance": ("permutations=5",),
    "heads": ("updates=2", "letters=4", "size=8"),
    "hard-soft": ("updates=2", "sentences=3", "hidden=6", "embedding=5", "batch=3"),
    "kernel-regression": ("epochs=20", "draws=2"),
    "masks": (),
    "positions": ("updates=2", "batch=3", "trained_length=5", "positions=9"),
    "retrieval": (),
    "scaling": ("sizes=[1,3,64]", "draws=2"),
}
"""Deterministic experiments, with options that keep the test short."""


def test_every_experiment_is_in_the_catalogue() -> None:
    files = {path.stem for path in LAB.glob("*.py") if "\nEXPERIMENT = " in path.read_text("utf-8")}
    assert files == {name.replace("-", "_") for name in EXPERIMENTS}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_has_its_meaning(name: str) -> None:
    fields = find(name).options.model_fields
    assert "seed" in fields
    assert all(field.description for field in fields.values())


@pytest.mark.parametrize("name", QUICK)
def test_two_runs_give_the_same_bytes_and_leave_chance_alone(name: str, tmp_path: Path) -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].tolist()
    first, second = (perform(name, QUICK[name], tmp_path / folder) for folder in "ab")
    for one, other in zip(first.paths, second.paths, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert first.summary == second.summary
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]


@pytest.mark.parametrize("name", QUICK)
def test_the_picture_is_of_a_sensible_size(name: str, tmp_path: Path) -> None:
    path = perform(name, QUICK[name], tmp_path).paths[1]
    height, width, _ = imread(path).shape
    assert 800 <= width <= 1600
    assert 400 <= height <= 1600
    assert path.stat().st_size < 200_000


def test_seeded_starts_anew_and_puts_back() -> None:
    before = torch.get_rng_state()
    with seeded(3):
        first = torch.rand(5)
    with seeded(3):
        again = torch.rand(5)
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)
