"""The settings of the captioner."""

from pydantic import Field, model_validator

from nmt.lab.experiment import Options
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.cells import CellKind
from nmt.models.recurrent.rnn_config import BahdanauConfig, RecurrentConfig
from nmt.settings.base import conflict_error


class CaptionsOptions(Options):
    """The captioner's sizes, training and test."""

    attention: AttentionConfig = Field(
        default=AdditiveConfig(size=48), description="the decoder's, any of a translation model's"
    )
    cell: CellKind = Field(default="gru", description="the decoder's recurrent cell")
    hidden: int = Field(default=128, ge=8, description="units of the decoder")
    annotation: int = Field(default=64, ge=8, description="numbers that describe one place")
    embedding: int = Field(default=48, ge=1, description="size of a word's embedding")
    updates: int = Field(default=2000, ge=1, description="updates of Adam, on new pictures each")
    pictures: int = Field(
        default=32, ge=2, description="pictures an update, each in both languages"
    )
    lr: float = Field(default=0.004, gt=0, description="greatest learning rate; a cosine lowers it")
    noise: float = Field(default=0.04, ge=0, description="added to pixels, standard deviation")
    asked: int = Field(
        default=1600,
        ge=4,
        description="unseen arrangements asked, at most; and a quarter as many with new kinds",
    )
    beam: int = Field(default=1, ge=1, description="hypotheses kept in search; 1 is greedy")

    @model_validator(mode="after")
    def _attention_fits(self) -> "CaptionsOptions":
        conflicts = list(self.attention.conflicts(self.hidden, self.annotation))
        if conflicts:
            here = "; here the sizes are called hidden and annotation"
            raise conflict_error([(f"attention.{key}", why + here) for key, why in conflicts])
        return self

    @property
    def decoder(self) -> RecurrentConfig:
        """The translation decoder's own configuration."""
        return RecurrentConfig(
            embedding=self.embedding,
            hidden=self.hidden,
            dropout=0.0,
            attention=self.attention,
            decoder=BahdanauConfig(cell=self.cell),
        )
