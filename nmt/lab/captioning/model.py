"""The convolutional encoder of drawn pictures."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.lab.captioning.scenes import SIDE
from nmt.models.base import Memory

_CHANNELS = (16, 32, 64)
GRID = SIDE // 2 ** len(_CHANNELS)
"""Places along a side of the grid; a place is 8 by 8 pixels."""


class Eye(nn.Module):
    """Encode a picture as the annotations of GRID x GRID places, row by row.

    Three convolutions of stride 2 and one of stride 1, each with batch normalisation (arXiv
    1502.03167) and a ReLU. A place sees 38 by 38 pixels, with its own 8 by 8 in the middle;
    therefore the first kernels are even. A learned vector for each place adds its position, which
    a convolution alone does not know.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for channels, kernel, stride in [*((c, 4, 2) for c in _CHANNELS), (size, 3, 1)]:
            # The normalisation's shift is the bias.
            layers += [
                nn.Conv2d(before, channels, kernel, stride, padding=1, bias=False),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
            ]
            before = channels
        self.layers = nn.Sequential(*layers)
        self.places = nn.Parameter(0.1 * torch.randn(GRID * GRID, size))

    def forward(self, pictures: Float[Tensor, "B 3 H W"]) -> Memory:
        """All places may be attended; the mean over them starts the decoder (arXiv 1502.03044)."""
        features = self.layers(2 * pictures - 1).flatten(2).transpose(1, 2)
        values = features + self.places
        keep = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
        return Memory(values=values, keep=keep, final=values.mean(dim=1, keepdim=True))
