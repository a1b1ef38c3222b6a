"""What every launch of a Triton kernel needs; imported without Triton too."""

import contextlib
import importlib.util

import torch
from torch import Tensor


def available() -> bool:
    """Whether the kernels of the modules named `*_triton` can run here."""
    return torch.cuda.is_available() and importlib.util.find_spec("triton") is not None


def rows(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors with their last dimensions in one piece; a copy only where one is not."""
    return tuple(x if x.stride(-1) == 1 else x.contiguous() for x in tensors)


def writable(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, which a kernel is to write: their rows may lie apart, a row may not."""
    assert all(x.stride(-1) == 1 for x in tensors)
    return tensors


def device_of(x: Tensor) -> contextlib.AbstractContextManager[object]:
    """The context in which launches go to the GPU of `x`, whichever is current."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()
