"""The settings of the captioner."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from nmt.lab.captioner import DecoderOptions
from nmt.models.recurrent.cells import CellKind
from nmt.models.recurrent.rnn_config import BahdanauConfig, RecurrentConfig
from nmt.settings.base import UserPath, conflict_error
from nmt.text.vocabulary import MAX_SIZE

CNNName = Literal["resnet18", "resnet34", "resnet50", "vgg16", "vgg19"]

RANDOM_WEIGHTS = "random"
"""In place of a file of weights."""


class CaptionsOptions(DecoderOptions):
    """The captioner's sizes, training and test; and the images and captions of one's own."""

    cell: CellKind = Field(default="gru", description="the decoder's recurrent cell")
    hidden: int = Field(default=128, ge=8, description="units of the decoder")
    embedding: int = Field(default=48, ge=1, description="size of a word's embedding")
    updates: int = Field(default=2000, ge=1, description="updates of Adam")
    pictures: int = Field(
        default=32,
        ge=2,
        description="pictures an update, new ones each with captions in both languages; of image "
        "files, each with one of its captions",
    )
    lr: float = Field(default=0.004, gt=0, description="greatest learning rate; a cosine lowers it")
    noise: float = Field(default=0.04, ge=0, description="added to pixels, standard deviation")
    asked: int = Field(
        default=1600,
        ge=4,
        description="unseen arrangements asked, at most; and a quarter as many with new kinds",
    )
    beam: int = Field(default=1, ge=1, description="hypotheses kept in search; 1 is greedy")
    images: UserPath | None = Field(
        default=None, description="folder of image files, in place of drawn pictures"
    )
    captions: UserPath | None = Field(
        default=None, description="their captions: lines of image<TAB>caption, or a CSV of Flickr8k"
    )
    cnn: CNNName = Field(default="resnet18", description="torchvision's network for image files")
    weights: str | None = Field(
        default=None,
        description="its weights, a safetensors file; `random` trains the decoder on random ones",
    )
    side: int = Field(
        default=224, ge=64, le=1024, description="pixels along an image's side as the network reads"
    )
    dropout: float = Field(
        default=0.3, ge=0, lt=1, description="share of units dropped, with image files"
    )
    language: str = Field(default="en", description="of the captions; it decides their spacing")
    words: int = Field(
        default=10_000, ge=10, le=MAX_SIZE, description="the captions' most frequent words, kept"
    )
    held_out: float = Field(
        default=0.1, gt=0, lt=0.5, description="share of image files for validation, and for test"
    )
    evaluations: int = Field(default=10, ge=1, description="validations; the best weights are kept")
    model: UserPath = Field(
        default=Path("lab/captioner"), description="folder in which the trained model is kept"
    )
    image: UserPath | None = Field(
        default=None, description="image file that the kept model captions; nothing is trained"
    )

    @model_validator(mode="after")
    def _sources_fit(self) -> "CaptionsOptions":
        given = {"images": self.images, "captions": self.captions, "weights": self.weights}
        missing = [name for name, value in given.items() if value is None]
        if self.image is not None and len(missing) < len(given):
            raise conflict_error([("image", "a kept model captions it; give no images with it")])
        if 0 < len(missing) < len(given):
            needs = "images, captions and weights (a file, or `random`) go together"
            raise conflict_error([(missing[0], f"missing; {needs}")])
        return self

    @property
    def decoder(self) -> RecurrentConfig:
        """The translation decoder's own configuration."""
        return RecurrentConfig(
            embedding=self.embedding,
            hidden=self.hidden,
            dropout=0.0 if self.images is None else self.dropout,
            attention=self.attention,
            decoder=BahdanauConfig(cell=self.cell),
        )
