"""The choice of the backend that computes the operations.

It depends on the requested name, the device, the dtype of products, and what is installed. It never
depends on whether a gradient is wanted or on what the process has done before. Training, validation
and search therefore use the same backend.
"""

import functools
import importlib.util
import os
import shutil
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from nmt.errors import ConfigError
from nmt.ops.agreement import check
from nmt.ops.fused.operations import FusedOperations
from nmt.ops.native.library import DTYPES, loaded_library
from nmt.ops.native.operations import NativeOperations
from nmt.ops.precision import compute_dtype
from nmt.ops.reference import Operations

BackendName = Literal["auto", "reference", "fused", "native", "triton"]
"""The values of `model.backend`."""

BACKEND_DESCRIPTION = (
    "implementation of the operations: reference (plain torch), fused (torch with hand-written "
    "backward passes), native (C++, on a CPU), triton (on a CUDA GPU), or auto (the fastest of "
    "these that can run); their results are equal up to rounding"
)
"""The description of the key in every model's config."""

_BY_SPEED: dict[BackendName, str | None] = {
    "triton": "cuda",
    "native": "cpu",
    "fused": None,
    "reference": None,
}
"""The backends, fastest first, with the only device type that each supports, or None for any."""


class Backend(NamedTuple):
    """The chosen implementation, and the reason for the choice in one line."""

    name: str
    operations: Operations
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


def operations(requested: BackendName, x: Tensor) -> Operations:
    """Return the backend's operations for the device of `x` and its dtype under autocast."""
    return choose_backend(requested, x.device, compute_dtype(x)).operations


@functools.cache
def choose_backend(requested: BackendName, device: torch.device, dtype: torch.dtype) -> Backend:
    """Choose the backend for products of `dtype` on `device`; the result is cached.

    `auto` takes the fastest backend that can run. Raises ConfigError if a named backend cannot run.
    """
    candidates = [name for name, kind in _BY_SPEED.items() if kind in (None, device.type)]
    if requested == "auto":
        name = next(name for name in candidates if not why_not(name, device, dtype))
        faster = candidates[: candidates.index(name)]
        why = "; ".join(f"no {other}: {why_not(other, device, dtype)}" for other in faster)
        return Backend(name, build(name, device, dtype), why or f"the fastest on {device.type}")
    reason = f"it is for {_BY_SPEED[requested]} devices"
    if requested in candidates:
        reason = why_not(requested, device, dtype)
    if reason:
        names = ", ".join(name for name in candidates if not why_not(name, device, dtype))
        raise ConfigError(
            f"model.backend: got '{requested}', which cannot compute on {device.type}: {reason}; "
            f"allowed here: auto, {names}"
        )
    return Backend(requested, build(requested, device, dtype), "named by model.backend")


@functools.cache
def why_not(name: BackendName, device: torch.device, dtype: torch.dtype) -> str:
    """Return why a backend cannot compute products of `dtype` on `device`, or "" if it can."""
    if name == "native":
        no_code = "" if dtype in DTYPES else f"not compiled for {str(dtype).removeprefix('torch.')}"
        return loaded_library().why_not or no_code
    if name == "triton":
        if reason := why_no_triton():
            return reason
        if dtype == torch.float64:
            return "its sums are in fp32, and the dtype is float64"
        return check(lambda: build(name, device, dtype), device, dtype)
    return ""


def why_no_triton() -> str:
    """Return why Triton's kernels cannot run here, or "" if they can."""
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if "CC" not in os.environ and not any(map(shutil.which, ("gcc", "clang"))):
        return "Triton needs a C compiler to start kernels, but found none (CC, gcc or clang)"
    return ""


def build(name: BackendName, device: torch.device, dtype: torch.dtype) -> Operations:
    if name == "triton":
        from nmt.ops.triton.operations import TritonOperations  # imports Triton

        return TritonOperations(dtype)
    if name == "native":
        return NativeOperations(dtype)
    return FusedOperations(dtype, device.type) if name == "fused" else Operations()
