"""Weights in 8 bits, as a page holds them: a byte a weight and a scale a row, in base64."""

import base64
from typing import TypedDict

import numpy as np
from jaxtyping import Float32

LEVELS = 255


class PackedWeights(TypedDict):
    """Base64 of float32 scales (little-endian), one a row, and of the rows' bytes."""

    scales: str
    weights: str


def pack(weights: Float32[np.ndarray, "T S"]) -> PackedWeights:
    """Each row as bytes in steps of 1/255 of its greatest weight, its scale.

    `unpack` gives each weight back within scale / 510, so within 0.002 of a distribution. A row's
    greatest weight comes back exactly.
    """
    scales = weights.max(axis=1, initial=0.0).astype("<f4")
    steps = np.divide(LEVELS, scales, where=scales > 0, out=np.zeros(len(scales)), dtype=np.float64)
    levels = np.rint(weights * steps[:, None]).astype(np.uint8)
    return {"scales": _base64(scales), "weights": _base64(levels)}


def unpack(packed: PackedWeights, n_columns: int) -> Float32[np.ndarray, "T S"]:
    """The weights of a packed matrix, to the bit those that a page shows (web/weights.js)."""
    scales = np.frombuffer(base64.b64decode(packed["scales"]), dtype="<f4").astype(np.float64)
    levels = np.frombuffer(base64.b64decode(packed["weights"]), dtype=np.uint8)
    rows = levels.reshape(len(scales), n_columns)
    weights: Float32[np.ndarray, "T S"] = (rows * scales[:, None] / LEVELS).astype(np.float32)
    return weights


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()
