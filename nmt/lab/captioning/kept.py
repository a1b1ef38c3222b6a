"""A captioner of images in a folder of its own, which is all that its users need.

MODEL/captioner.yaml    the options it was trained with     tokenizer/         its words
      cnn.safetensors   the network that makes features     model.safetensors  the captioner
      features/         those of the training's images; may be deleted
"""

from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import nn

from nmt.decoding.search_config import SearchConfig
from nmt.errors import CheckpointError
from nmt.lab.captioner import Captioner, FeatureEncoder, Features, annotate, describe
from nmt.lab.captioning.cnn import CNN, load_cnn, read_picture
from nmt.lab.captioning.light import CaptionedPicture, Picture
from nmt.lab.captioning.options import CaptionsOptions
from nmt.lab.captioning.weights import load_weights
from nmt.settings.config_file import load_file
from nmt.settings.yaml_text import dump_yaml
from nmt.storage.atomic import replaced, write_text
from nmt.storage.output import check_output
from nmt.text.tokenizer import MANIFEST_NAME, Tokenizer, Tokenizers
from nmt.text.vocabulary import BOS_ID
from nmt.types import Hypothesis

FEATURES = "features"
_CONFIG, _TOKENIZER = "captioner.yaml", "tokenizer"
_CNN, _MODEL = "cnn.safetensors", "model.safetensors"
_LONGEST = 50  # words of a caption, its end included


@dataclass(frozen=True)
class ImageCaptioner:
    """From image files to captions: the network, the words, and the decoder between them."""

    options: CaptionsOptions
    tokenizer: Tokenizer
    cnn: CNN
    model: Captioner

    @classmethod
    def new(cls, options: CaptionsOptions, tokenizer: Tokenizer, cnn: CNN) -> "ImageCaptioner":
        """An untrained one, its first weights drawn by torch's global generator."""
        encoder = FeatureEncoder(cnn.shape[1], options.annotation, options.dropout, normalise=True)
        vocab_size = len(tokenizer.vocab)
        model = Captioner(encoder, options.decoder, options.annotation, vocab_size)
        return cls(options, tokenizer, cnn, model)

    def save(self, folder: Path) -> None:
        """Write it into a folder that `prepare` has accepted; captioner.yaml comes last."""
        (folder / _CONFIG).unlink(missing_ok=True)
        Tokenizers(self.tokenizer, self.tokenizer, joint=True).save(folder / _TOKENIZER)
        for name, module in ((_CNN, self.cnn.layers), (_MODEL, self.model)):
            with replaced(folder / name) as stream:
                stream.write(safetensors.torch.save(_tensors(module)))
        write_text(folder / _CONFIG, dump_yaml(self.options))

    @classmethod
    def load(cls, folder: Path) -> "ImageCaptioner":
        """The captioner that was saved there.

        Raises CheckpointError where there is none; ConfigError and DataError for damaged files.
        """
        if not (folder / _CONFIG).is_file():
            raise CheckpointError(
                f"{folder}: no captioner is kept here; train one: `images`, `captions`, `weights`"
            )
        options = load_file(folder / _CONFIG, (), CaptionsOptions)
        tokenizer = Tokenizers.load(folder / _TOKENIZER).tgt
        cnn = load_cnn(options.cnn, options.side, str(folder / _CNN), options.seed)
        captioner = cls.new(options, tokenizer, cnn)
        load_weights(captioner.model, folder / _MODEL, "the weights of this captioner")
        return captioner

    def describe(self, features: Features, beam: int) -> list[Hypothesis]:
        """The best caption of each image, as ids with their attention."""
        config = SearchConfig(
            beam=beam, max_length_factor=0, max_length_extra=_LONGEST, allow_unk=False
        )
        memory = annotate(self.model, features)
        first_ids = torch.full((len(features.keep),), BOS_ID)
        return describe(self.model, memory, first_ids, config)

    def caption(self, image: Path, beam: int) -> tuple[str, CaptionedPicture]:
        """The caption of one image file, and where its words looked."""
        picture = read_picture(image, self.options.side)
        values = self.cnn([picture])
        keep = torch.ones(values.shape[:2], dtype=torch.bool)
        [found] = self.describe(Features(values, keep), beam)
        return self.text_of(found), self.shown(picture, found)

    def text_of(self, found: Hypothesis) -> str:
        """The caption as text."""
        return self.tokenizer.decode(found.ids)

    def shown(self, picture: Picture, found: Hypothesis) -> CaptionedPicture:
        """The words and their attention, on the grid of the network."""
        words = self.tokenizer.encoded_from_ids(found.ids).words
        side = round(found.attention.shape[1] ** 0.5)
        grids = found.attention.reshape(-1, side, side)
        return CaptionedPicture(picture, words, grids[: len(words)])


def prepare(folder: Path) -> None:
    """Create the folder of a new captioner. Its features may be there already.

    Raises CheckpointError for a folder of other files, or one that cannot be made. Raises
    ConfigError for one with a captioner, unless outputs replace files (nmt/storage/output.py).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be created: {error.strerror}") from None
    if names and not names & {_CONFIG, FEATURES}:
        raise CheckpointError(
            f"{folder}: has other files in it; allowed for `model`: a new folder, or a captioner's"
        )
    for name in (_CONFIG, _CNN, _MODEL, f"{_TOKENIZER}/{MANIFEST_NAME}"):
        check_output(folder / name)


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
