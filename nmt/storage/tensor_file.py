"""Checks of safetensors files before their tensors are loaded.

safetensors' own reader compares the header with the size of the file. This module also checks that
the file is regular, that its header is not too large, that torch has its dtypes and shapes, and
that the tensors fit the model. Only the header is read before these checks, so that a small or
sparse file cannot make nmt allocate much memory.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt.errors import CheckpointError, NMTError
from nmt.storage.bounded import open_regular
from nmt.storage.terminal import one_line

MAX_HEADER_BYTES = 4 << 20  # the maximum size of a header, enough for about 30,000 tensors
SCALES = ":scales"  # added to the name of an int8 matrix for its scales, one fp32 number per row

MISFIT = "does not fit config.yaml and tokenizer"

_MAX_DIMENSIONS = 8
_MAX_SIZE = 1 << 48
_DTYPE_NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Spec(NamedTuple):
    """The dtype of a tensor, in the notation of safetensors, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


Specs = dict[str, Spec]  # specs by the name of the tensor


def specs_of(tensors: Mapping[str, Tensor]) -> Specs:
    """Return the specs of tensors, which may be on the meta device."""
    return {
        name: Spec(_DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape))
        for name, tensor in tensors.items()
    }


def int8_matrices(specs: Specs) -> set[str]:
    """Return the names of the int8 matrices that have scales."""
    return {
        name
        for name, (dtype, shape) in specs.items()
        if (dtype, len(shape)) == ("I8", 2) and specs.get(name + SCALES) == ("F32", shape[:1])
    }


def canonical_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Map each name to the first name of the same tensor. A tied tensor has several names."""
    first: dict[object, str] = {}
    names = {}
    for name, tensor in tensors.items():
        # Empty tensors and tensors on the meta device have no address.
        view = (tensor.data_ptr() or id(tensor), tensor.dtype, tensor.shape, tensor.stride())
        names[name] = first.setdefault(view, name)
    return names


def check_specs(expected: Specs, got: Specs, where: str) -> None:
    """Raise CheckpointError unless all names and specs agree. `where` begins the message."""
    names = [n for n in sorted(expected.keys() | got.keys()) if got.get(n) != expected.get(n)]
    if names:
        name, more = names[0], f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        fault = "missing"
        if name in got:
            fault = f"got {got[name]}, allowed: {expected.get(name, 'no such tensor')}"
        raise CheckpointError(f"{where}: {name[:80]!r}: {fault}{more}")


def read_safetensors(path: Path, expected: Specs | None, error: type[NMTError]) -> bytes:
    """Return the content of a safetensors file in a checkpoint's folder after checking its header.

    Raises CheckpointError, before the tensors are read, if their names and specs differ from
    `expected` (None allows any). Instead of an fp32 matrix, the file may have an int8 matrix with
    scales. Raises `error` if the header is too large, malformed or does not match the file, and
    OSError if the file cannot be read.
    """
    with open_regular(path) as file:
        head = file.read(8)
        length = int.from_bytes(head, "little")
        if length > MAX_HEADER_BYTES:
            got = f"a header of {length:,} bytes, allowed: {MAX_HEADER_BYTES:,}"
            raise error(f"{path}: damaged: not a safetensors file ({got})")
        head += file.read(length)
        size = os.fstat(file.fileno()).st_size
        specs = _specs_of_file(path, error)
        if expected is not None:
            for name in int8_matrices(specs):
                specs[name] = Spec("F32", specs[name].shape)
                del specs[name + SCALES]
            check_specs(expected, specs, f"{path.parent}: {MISFIT}")
        file.seek(0)
        content = file.read(size + 1)
    if len(content) != size or not content.startswith(head):
        raise error(f"{path}: changed while it was read")
    return content


def check_finite(tensors: Mapping[str, Tensor], where: str, error: type[NMTError]) -> None:
    """Raise `error` if a tensor has NaN or infinite elements. The message names the first one."""
    for name, tensor in tensors.items():
        # A NaN or infinite element makes the sum NaN or infinite. The sum may also overflow.
        if not tensor.is_floating_point() or math.isfinite(float(tensor.sum())):
            continue
        bad = int((~tensor.isfinite()).sum())
        if bad:
            raise error(f"{where}: {name}: {bad} of {tensor.numel()} numbers are NaN or infinite")


def _specs_of_file(path: Path, error: type[NMTError]) -> Specs:
    """Return the specs in the header of a safetensors file. Raises `error` if it is malformed."""
    try:
        with safe_open(path, "np") as file:  # "pt" would map the whole file into memory
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            specs = {n: Spec(p.get_dtype(), tuple(p.get_shape())) for n, p in parts.items()}
    except SafetensorError as problem:
        reason = one_line(str(problem)).removeprefix("Error while deserializing header: ")
        raise error(f"{path}: damaged: not a safetensors file ({reason[:200]})") from None
    for name, spec in specs.items():
        sizes_fit = len(spec.shape) <= _MAX_DIMENSIONS and max(spec.shape, default=0) <= _MAX_SIZE
        if spec.dtype not in _DTYPE_NAMES.values() or not sizes_fit:
            raise error(f"{path}: damaged: {name[:99]!r}: got {str(spec)[:99]}, not supported")
    return specs
