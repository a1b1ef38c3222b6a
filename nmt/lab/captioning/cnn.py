"""Features of photographs: the last grid of a convolutional network trained to classify images.

Xu et al. (arXiv 1502.03044, section 3.1.1) take a convolutional layer, not the fully connected one
behind it, so that each feature vector belongs to a place. The network is torchvision's, in eval
mode; captions do not change its weights.
"""

import hashlib
import math
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
from jaxtyping import Float
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor, nn

from nmt.errors import ConfigError, DataError, pip_install
from nmt.lab.captioning.light import Picture
from nmt.lab.captioning.options import RANDOM_WEIGHTS, CNNName
from nmt.lab.captioning.weights import load_weights
from nmt.lab.experiment import seeded
from nmt.storage.bounded import open_regular

_HEADS = {"resnet": ("avgpool", "fc"), "vgg": ("avgpool", "classifier")}
"""The children of torchvision's models behind the last grid."""

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the red, green and blue of ImageNet, with which torchvision's weights were trained."""


class CNN(nn.Module):
    """A convolutional network up to its last grid, and the size of the images that it reads.

    VGG's last max-pooling is left out as well, as in Xu et al.: 14 x 14 places of 224 x 224 pixels.
    ResNets have 7 x 7.
    """

    def __init__(self, name: CNNName, side: int) -> None:
        super().__init__()
        children = OrderedDict(_torchvision_model(name).named_children())
        for head in _head_of(name):
            del children[head]
        if isinstance(features := children.get("features"), nn.Sequential):
            children["features"] = features[:-1]
        self.name = name
        self.side = side
        self.layers = nn.Sequential(children)
        self.eval().requires_grad_(False)

    @torch.inference_mode()
    def forward(self, pictures: Sequence[Picture]) -> Float[Tensor, "B S D"]:
        """The features of square pictures, places row by row."""
        pixels = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2) / 255
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (_MEAN, _STD))
        grid: Tensor = self.layers((pixels - mean) / std)
        return grid.flatten(2).transpose(1, 2)

    @property
    def shape(self) -> tuple[int, int]:
        """(S, D): the places of an image, and the numbers of each."""
        features: Tensor = self([np.zeros((self.side, self.side, 3), np.uint8)])
        return features.shape[1], features.shape[2]

    def fingerprint(self) -> str:
        """A checksum of all that the features of an image depend on."""
        content = safetensors.torch.save(dict(self.layers.state_dict()))
        return hashlib.sha256(f"{self.name} {self.side} ".encode() + content).hexdigest()


def _head_of(name: CNNName) -> tuple[str, ...]:
    return next(head for family, head in _HEADS.items() if name.startswith(family))


def _torchvision_model(name: CNNName) -> nn.Module:
    try:
        from torchvision.models import get_model
    except ImportError:
        raise ConfigError(
            f"`images`: the network is torchvision's: {pip_install('vision')}"
        ) from None
    except RuntimeError as error:  # its operations are compiled for one build of torch
        raise ConfigError(
            f"`images`: this torchvision does not fit torch {torch.__version__} ({error}); install "
            "both from one place"
        ) from None
    model: nn.Module = get_model(name, weights=None)
    return model


def load_cnn(name: CNNName, side: int, weights: str, seed: int) -> CNN:
    """The network with the weights of a safetensors file, or with random ones.

    The tensors have torchvision's names; those of the classifier are not read. Raises DataError
    for a file that is missing, damaged or of another network; ConfigError without torchvision.
    """
    with seeded(seed):
        cnn = CNN(name, side)
    if weights != RANDOM_WEIGHTS:
        path = Path(weights).expanduser()
        load_weights(cnn.layers, path, f"the weights of {name}", _head_of(name))
    return cnn


def read_picture(path: Path, side: int) -> Picture:
    """The largest square in the middle of an image file, as `side` x `side` pixels of RGB.

    Raises DataError where the file is missing, or not an image that can be read.
    """
    try:
        with warnings.catch_warnings(), open_regular(path) as file:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file) as image:
                upright = ImageOps.exif_transpose(image).convert("RGB")
        fitted = ImageOps.fit(upright, (side, side), Image.Resampling.BICUBIC)
    except FileNotFoundError:
        raise DataError(f"{path}: no such image") from None
    except UnidentifiedImageError:
        raise DataError(f"{path}: not an image that can be read") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{path}: not an image that can be read: {error}") from None
    return np.asarray(fitted)


def grid_of(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Weights (..., S) over the places of a square grid, as (..., Y, X)."""
    side = math.isqrt(weights.shape[-1])
    return weights.reshape(*weights.shape[:-1], side, side)
