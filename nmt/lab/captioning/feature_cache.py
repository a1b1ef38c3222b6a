"""Features of images on the disk: computed once for each image and network."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from nmt.errors import DataError
from nmt.lab.captioner import Features
from nmt.lab.captioning.cnn import CNN, read_picture
from nmt.storage.atomic import digest, replaced
from nmt.storage.bounded import read_bytes

_TOGETHER = 32  # images that the network reads at a time
_MAX_BYTES = 64 << 20
_NAME = "features"


class FeatureCache:
    """The features of image files, each in a file named by the checksums of image and network.

    They are kept in half precision. A file that is gone or damaged is made anew.
    """

    def __init__(self, folder: Path, cnn: CNN, images: Sequence[Path]) -> None:
        """Compute the features that `folder` lacks. Raises DataError for an unreadable image."""
        key = cnn.fingerprint()
        self._shape = cnn.shape
        self.files = [folder / f"{_checksum(image, key)}.safetensors" for image in images]
        folder.mkdir(parents=True, exist_ok=True)
        missing = [i for i, file in enumerate(self.files) if self._read(file) is None]
        self.n_computed = len(missing)
        starts = range(0, len(missing), _TOGETHER)
        for start in tqdm(starts, unit="batch", desc="features", leave=False, disable=None):
            part = missing[start : start + _TOGETHER]
            features = cnn([read_picture(images[i], cnn.side) for i in part]).half()
            for i, one in zip(part, features, strict=True):
                if not bool(one.isfinite().all()):
                    raise DataError(f"{images[i]}: its features are beyond the range of fp16")
                with replaced(self.files[i]) as stream:
                    stream.write(safetensors.torch.save({_NAME: one.contiguous()}))

    def features(self, rows: Sequence[int]) -> Features:
        """The features of these images. Raises DataError where a file has gone since."""
        found = [self._of(row) for row in rows]
        values = torch.stack(found)
        return Features(values, torch.ones(values.shape[:2], dtype=torch.bool))

    def _of(self, row: int) -> Float[Tensor, "S D"]:
        values = self._read(self.files[row])
        if values is None:
            raise DataError(f"{self.files[row]}: gone, or damaged, while it was needed")
        return values.float()

    def _read(self, file: Path) -> Float[Tensor, "S D"] | None:
        """The features in a file of the cache; None where it is missing or damaged."""
        try:
            found = safetensors.torch.load(read_bytes(file, _MAX_BYTES, DataError)).get(_NAME)
        except (FileNotFoundError, DataError, safetensors.SafetensorError):
            return None
        return found if found is not None and found.shape == self._shape else None


def _checksum(image: Path, key: str) -> str:
    """Of an image and a network. Raises DataError where the image cannot be read."""
    try:
        return hashlib.sha256(f"{key} {digest(image)}".encode()).hexdigest()
    except OSError as error:
        raise DataError(f"{image}: cannot be read: {error.strerror}") from None
