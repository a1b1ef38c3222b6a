"""The settings of every toolkit: the same sizes, optimiser and batch."""

from pydantic import Field

from nmt.settings.base import Config

LENGTH_PENALTY = 0.6
"""Length penalty: a hypothesis' score is divided by its length to this power."""

LENGTH_FACTOR = 1.5
"""Most target pieces per source piece. It is fixed in JoeyNMT; the others are set to it."""


class Settings(Config):
    """One experiment; a toolkit that cannot do something the same way says so in its file."""

    embedding: int = Field(default=256, gt=0, description="size of a piece's embedding")
    hidden: int = Field(default=512, gt=0, description="units of the decoder")
    vocabulary: int = Field(default=8000, gt=4, description="pieces a side")
    batch: int = Field(default=64, gt=0, description="sentence pairs of a batch")
    dropout: float = Field(default=0.2, ge=0, lt=1, description="share of units dropped")
    lr: float = Field(default=1e-3, gt=0, description="Adam's rate, constant")
    clip: float = Field(default=1.0, gt=0, description="largest norm of a gradient")
    steps: int = Field(default=60, gt=0, description="updates")
    report_every: int = Field(default=5, gt=0, description="updates between lines of the log")
    beam: int = Field(default=5, gt=0, description="hypotheses a sentence")
    sentences: int | None = Field(
        default=None, gt=1, description="of the test set, from its beginning; null: all"
    )
    seed: int = Field(default=1, ge=0, description="seed of all chance")
