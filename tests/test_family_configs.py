"""The recipes of configs/family: one experiment, of which only the model changes."""

from pathlib import Path

from nmt.config import RunConfig, load_config
from nmt.corpora.sources import DataConfig
from nmt.models.catalog import build_model

FOLDER = Path(__file__).parents[1] / "configs" / "family"
PATHS = sorted(FOLDER.glob("*.yaml"))
BASELINE = load_config(FOLDER / "additive.yaml")


def n_parameters(config: RunConfig) -> int:
    return sum(p.numel() for p in build_model(config.model, 4000, 4000).parameters())


def test_only_name_and_model_differ_and_no_model_is_there_twice() -> None:
    models = []
    for path in PATHS:
        config = load_config(path)
        assert config.name == f"family-{path.stem}"
        assert config.data.folder == DataConfig().folder
        same = {"name": BASELINE.name, "model": BASELINE.model}
        assert config.model_copy(update=same) == BASELINE
        models.append(config.model)
    assert len(models) >= 17
    assert all(models.index(model) == place for place, model in enumerate(models))


def test_sizes_are_about_the_same() -> None:
    """Within a seventh of additive's parameters, so that size explains little."""
    expected = n_parameters(BASELINE)
    for path in PATHS:
        assert abs(n_parameters(load_config(path)) - expected) < expected / 7, path.stem
