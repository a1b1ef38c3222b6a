"""What a safetensors file holds, known and checked before any of it is loaded.

A file is eight bytes (the header's length, little-endian), the header (JSON: name -> dtype,
shape, place) and the tensors' bytes. Everything that the header claims is held against the
file's size, and by the reader against the model that is to hold the tensors, while nothing but
the header has been read: a small file cannot ask for a large memory.
"""

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch
from torch import Tensor

from nmt.errors import NMTError
from nmt.storage.bounded import open_regular, parse_json

MAX_HEADER_BYTES = 4 << 20
"""Some thirty thousand tensors."""

_MAX_NUMBERS = 1 << 48
_ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}
_DTYPE_NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Spec(NamedTuple):
    """The number format (safetensors' word for it) and the shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


Specs = dict[str, Spec]
"""What there is, by name."""


def specs_of(tensors: Mapping[str, Tensor]) -> Specs:
    """The specs of tensors, which may be on the meta device."""
    return {
        name: Spec(_DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape))
        for name, tensor in tensors.items()
    }


def read_checked(
    path: Path,
    twins: Mapping[str, str],
    fits: Callable[[Specs], None],
    error: type[NMTError],
) -> bytes:
    """The content of a safetensors file that keeps its word.

    `twins` are further names for tensors of the file. `fits` is told of all names, and raises
    what it has to say, before more than the header is read. Raises `error` for a header that is
    too large, malformed, or does not describe the file's bytes one by one; OSError as
    `open_regular` does.
    """
    with open_regular(path) as file:
        head = _read_head(file, path, error)
        size = os.fstat(file.fileno()).st_size
        header = parse_json(head[8:], f"{path}: header", error)
        specs = _checked_specs(header, size - len(head), path, error)
        for name, twin in twins.items():
            if twin not in specs or name in specs:
                raise error(f"{path}: damaged: '{name}' is to be '{twin}', which it cannot be")
        fits(specs | {name: specs[twin] for name, twin in twins.items()})
        file.seek(0)
        content = file.read(size + 1)
    if len(content) != size or not content.startswith(head):
        raise error(f"{path}: changed while it was read")
    return content


def check_finite(tensors: Mapping[str, Tensor], where: str, error: type[NMTError]) -> None:
    """Raise `error`, naming the first tensor in which a number is NaN or infinite."""
    for name, tensor in tensors.items():
        # A sum is NaN or infinite where a number is; where only the sum is, look at each.
        if not tensor.is_floating_point() or math.isfinite(float(tensor.sum())):
            continue
        bad = int((~tensor.isfinite()).sum())
        if bad:
            raise error(f"{where}: {name}: {bad} of {tensor.numel()} numbers are NaN or infinite")


def _read_head(file: BinaryIO, path: Path, error: type[NMTError]) -> bytes:
    """The length and the header, as they stand in the file."""
    prefix = file.read(8)
    length = int.from_bytes(prefix, "little")
    if length > MAX_HEADER_BYTES:
        raise error(
            f"{path}: damaged or no safetensors file: a header of {length:,} bytes, allowed: "
            f"{MAX_HEADER_BYTES:,}"
        )
    header = file.read(length)
    if len(prefix) < 8 or len(header) < length or not header.startswith(b"{"):
        raise error(f"{path}: damaged or no safetensors file: it has no whole header")
    return prefix + header


def _checked_specs(header: object, n_bytes: int, path: Path, error: type[NMTError]) -> Specs:
    """The specs of a header whose tensors fill `n_bytes` without a hole and do not overlap."""
    assert isinstance(header, dict)  # it begins with a brace
    places, specs = [], {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            specs[name], start, end = _entry(entry)
        except (KeyError, TypeError, ValueError) as problem:
            raise error(f"{path}: damaged: header: {name[:99]!r}: {problem}") from None
        places.append((start, end, name))
    expected = 0
    for start, end, name in sorted(places):
        if start != expected:
            what = "a hole before it" if start > expected else "it overlaps another tensor"
            raise error(f"{path}: damaged: header: {name[:99]!r} begins at byte {start}: {what}")
        expected = end
    if expected != n_bytes:
        raise error(
            f"{path}: damaged: its header tells of {expected:,} bytes of tensors, "
            f"it has {n_bytes:,}"
        )
    return specs


def _entry(entry: object) -> tuple[Spec, int, int]:
    """Spec, first byte and end of one tensor. Raises KeyError, TypeError, ValueError."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError("expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in _ITEM_BYTES:
        raise ValueError(f"unknown dtype {str(dtype)[:20]!r}")
    if not (isinstance(shape, list) and len(shape) <= 8 and all(map(_is_size, shape))):
        raise ValueError("its shape is no list of sizes")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(map(_is_size, offsets))):
        raise ValueError("its data_offsets are not two places")
    start, end = offsets
    wanted = _ITEM_BYTES[dtype] * math.prod(shape)
    if end - start != wanted:
        raise ValueError(f"{dtype} {shape} takes {wanted} bytes, data_offsets give {end - start}")
    return Spec(dtype, tuple(shape)), start, end


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX_NUMBERS
