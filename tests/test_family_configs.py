"""The recipes of configs/family: one experiment, of which only the model changes."""

from pathlib import Path

import pytest

from nmt.config import load_config
from nmt.data.sources import DataConfig
from nmt.models.catalog import build_model

FOLDER = Path(__file__).parents[1] / "configs" / "family"
PATHS = sorted(FOLDER.glob("*.yaml"))
BASELINE = load_config(FOLDER / "additive.yaml")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_only_name_and_model_differ(path: Path) -> None:
    config = load_config(path)
    assert config.name == f"family-{path.stem}"
    assert config.data.folder == DataConfig().folder
    same = {"name": BASELINE.name, "model": BASELINE.model}
    assert config.model_copy(update=same) == BASELINE


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_sizes_are_about_the_same(path: Path) -> None:
    """Within a seventh of additive's parameters, so that size explains little."""
    expected, got = (
        sum(p.numel() for p in build_model(config.model, 4000, 4000).parameters())
        for config in (BASELINE, load_config(path))
    )
    assert abs(got - expected) < expected / 7


def test_no_model_stands_there_twice() -> None:
    models = [load_config(path).model for path in PATHS]
    assert len(models) >= 17
    assert all(models.index(model) == place for place, model in enumerate(models))
