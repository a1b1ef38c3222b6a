"""The weights of a model as the bytes of a page, and the model that those bytes are."""

import copy
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from nmt.models.base import Seq2Seq
from nmt.ops import Operations
from nmt.storage.tensor_file import first_names

Numbers = Literal["int8", "fp16"]
"""The numbers of a page's matrices; its vectors, such as biases, are in fp32."""

_ALIGNMENT = 4
"""Each tensor begins at a multiple of so many bytes, as typed arrays want it."""


class PackedTensor(NamedTuple):
    """A tensor's bytes, little-endian, and its values as they are after rounding.

    In int8 the scales of the rows, in fp32, come first; a value is its integer times its scale.
    """

    numbers: str
    content: bytes
    values: Tensor


def packed(model: Seq2Seq, numbers: Numbers) -> Iterator[tuple[str, PackedTensor]]:
    """Yield each tensor of a model on the CPU under the first of its names."""
    tensors = model.state_dict(keep_vars=True)
    for name in dict.fromkeys(first_names(tensors).values()):
        yield name, _pack(tensors[name].detach().float(), numbers)


def _pack(tensor: Tensor, numbers: Numbers) -> PackedTensor:
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


def layout_and_bytes(model: Seq2Seq, numbers: Numbers) -> tuple[dict[str, object], bytes]:
    """Return shape, numbers and offset of each tensor by each of its names, and all bytes."""
    tensors, first = model.state_dict(keep_vars=True), first_names(model.state_dict(keep_vars=True))
    content, entries = bytearray(), {}
    for name, tensor in packed(model, numbers):
        shape = list(tensors[name].shape)
        entries[name] = {"shape": shape, "numbers": tensor.numbers, "offset": len(content)}
        content += tensor.content
        content += bytes(-len(content) % _ALIGNMENT)
    return {name: entries[first[name]] for name in tensors}, bytes(content)


@torch.no_grad()
def rounded(model: Seq2Seq, numbers: Numbers) -> Seq2Seq:
    """Return a copy of the model with the weights that a page of it has."""
    other = copy.deepcopy(model)
    tensors = other.state_dict()
    for name, tensor in packed(model, numbers):
        tensors[name].copy_(tensor.values)
    return other
