"""The weights of a model as the bytes of a page, and a model with these rounded weights."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from torch import Tensor

from nmt.models.base import Seq2Seq
from nmt.ops import Operations
from nmt.storage.tensor_file import canonical_names

NumberFormat = Literal["int8", "fp16"]
"""The number format of a page's matrices. Vectors, such as biases, are in fp32."""

_ALIGNMENT = 4
"""The offset of each tensor is a multiple of 4 bytes, as JavaScript's typed arrays require."""


class PackedTensor(NamedTuple):
    """A tensor's number format, its bytes (little-endian), and its values after rounding.

    In int8, the bytes begin with an fp32 scale per row. A value is an integer times this scale.
    """

    numbers: str
    content: bytes
    values: Tensor


def packed_tensors(model: Seq2Seq, numbers: NumberFormat) -> Iterator[tuple[str, PackedTensor]]:
    """Yield each tensor of a model once, with its first name. The model must be on the CPU."""
    tensors = model.state_dict(keep_vars=True)
    for name in dict.fromkeys(canonical_names(tensors).values()):
        yield name, _pack(tensors[name].detach().float(), numbers)


def _pack(tensor: Tensor, numbers: NumberFormat) -> PackedTensor:
    if tensor.dim() != 2:
        return PackedTensor("fp32", _bytes(tensor), tensor)
    if numbers == "fp16":
        half = tensor.half()
        return PackedTensor(numbers, _bytes(half), half.float())
    integers, scales = Operations().quantize_rows(tensor)
    return PackedTensor(numbers, _bytes(scales) + _bytes(integers), integers * scales)


def _bytes(tensor: Tensor) -> bytes:
    array = tensor.contiguous().numpy()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def layout_and_bytes(model: Seq2Seq, numbers: NumberFormat) -> tuple[dict[str, object], bytes]:
    """Return the layout of a model's tensors, and their bytes.

    The layout maps each name to the shape, the number format and the byte offset of its tensor. A
    shared tensor is stored once, and all its names have the same entry.
    """
    content, entries = bytearray(), {}
    for name, (kind, tensor_bytes, values) in packed_tensors(model, numbers):
        entries[name] = {"shape": [*values.shape], "numbers": kind, "offset": len(content)}
        content += tensor_bytes + bytes(-len(tensor_bytes) % _ALIGNMENT)
    first = canonical_names(model.state_dict(keep_vars=True))
    return {name: entries[first_name] for name, first_name in first.items()}, bytes(content)
