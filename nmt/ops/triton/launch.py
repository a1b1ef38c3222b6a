"""Helpers for launching Triton kernels. This module can be imported without Triton."""

import contextlib
import importlib.util
import os
import shutil

import torch
from torch import Tensor


def why_not() -> str:
    """Return why the kernels of this folder cannot run here, or "" if they can."""
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if "CC" not in os.environ and not any(map(shutil.which, ("gcc", "clang"))):
        return "Triton starts kernels by C code, and there is no compiler (CC, gcc or clang)"
    return ""


def rows(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors with contiguous last dimensions; one that has not is copied."""
    return tuple(x if x.stride(-1) == 1 else x.contiguous() for x in tensors)


def check_writable(*tensors: Tensor) -> None:
    """Check what a kernel writes: each row is contiguous, rows may lie apart."""
    assert all(x.stride(-1) == 1 for x in tensors)


def device_of(x: Tensor) -> contextlib.AbstractContextManager[object]:
    """The context in which launches go to the GPU of `x`, whichever is current."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()
