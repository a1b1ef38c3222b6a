"""The sizes of the model and of batches of one fixed shape, with presets."""

from collections.abc import Mapping

from pydantic import Field

from nmt.errors import ConfigError
from nmt.models.recurrent.rnn import RNNConfig
from nmt.settings.base import Config
from nmt.settings.config_file import Override, Overrides, load_overrides


class Sizes(Config):
    """A GRU with additive attention, one bidirectional layer and one above it."""

    batch: int = Field(default=64, gt=0, description="sentence pairs of a training batch")
    src: int = Field(default=16, gt=1, description="source pieces of a fixed shape, end included")
    tgt: int = Field(default=17, gt=1, description="target pieces of a fixed shape, end included")
    embedding: int = Field(default=256, gt=0, description="size of a piece's embedding")
    hidden: int = Field(default=512, gt=0, description="units of encoder (a direction) and decoder")
    vocabulary: int = Field(default=8000, gt=4, description="pieces a side")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="share of units dropped")

    def model(self) -> RNNConfig:
        """The model of these sizes, as a run's YAML would have it."""
        return RNNConfig(embedding=self.embedding, hidden=self.hidden, dropout=self.dropout)


_PRESETS: Mapping[str, Mapping[str, int]] = {
    "standard": {},
    "long": {"src": 50, "tgt": 50, "hidden": 1000},
    "gpu": {"batch": 256, "src": 50, "tgt": 50, "embedding": 512, "hidden": 1024,
            "vocabulary": 32000},
    "tiny": {"batch": 3, "src": 5, "tgt": 7, "embedding": 8, "hidden": 16, "vocabulary": 200},
}  # fmt: skip
"""`standard` is the default; `long` shows memory, `gpu` is for a large GPU, `tiny` for --quick."""


def sizes_of(name: str, overrides: Overrides) -> Sizes:
    """The preset with `overrides` (`key=value`) on top. Raises ConfigError for unknown ones."""
    if name not in _PRESETS:
        raise ConfigError(f"`sizes`: got '{name}', allowed: {', '.join(_PRESETS)}")
    preset = [Override(key, value, name) for key, value in _PRESETS[name].items()]
    return load_overrides([*preset, *overrides], Sizes)
