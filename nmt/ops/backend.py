"""The one choice of which implementation computes the operations.

It depends on the request, the device and the dtype of products, and on what is installed; never on
whether a gradient is wanted or on what the process has done before. Training, validation and search
therefore take the same one.
"""

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from nmt.errors import ConfigError
from nmt.ops.agreement import disagreement
from nmt.ops.fused.operations import FusedOperations
from nmt.ops.native import library
from nmt.ops.native.operations import NativeOperations
from nmt.ops.native.sequence import native_steps
from nmt.ops.precision import compute_dtype, dtypes_of
from nmt.ops.reference import Operations
from nmt.ops.triton import launch
from nmt.settings.keys import nearest

BackendName = Literal["auto", "reference", "fused", "native", "triton"]
"""The values of `model.backend` and NMT_BACKEND."""

BACKEND_DESCRIPTION = (
    "what computes: reference (plain torch), fused (backward passes of our own on torch), native "
    "(C++, on a CPU), triton (on a CUDA GPU); auto: the fastest that can run, or what NMT_BACKEND "
    "says; all give the same numbers up to rounding"
)
"""The description of the key in every model's config."""

VARIABLE = "NMT_BACKEND"
"""The environment variable that stands in for `auto`."""


class Backend(NamedTuple):
    """The chosen implementation, and why it was chosen, in one line."""

    name: str
    operations: Operations
    why: str


class Candidate(NamedTuple):
    """An implementation that may be chosen; `why_not` is empty where it can run.

    `device_type` is the only one that it is for; None where it is for all. `strength` is the reason
    to take it where nothing else was passed over.
    """

    name: str
    device_type: str | None
    strength: str
    why_not: Callable[[], str]
    build: Callable[[], Operations]


def operations(requested: BackendName, x: Tensor) -> Operations:
    """The operations for `x` as it comes, inside or outside of autocast."""
    return choose(requested, x.device, compute_dtype(x)).operations


def choose(requested: BackendName, device: torch.device, dtype: torch.dtype) -> Backend:
    """The backend for products of `dtype` on `device`; the same at every call of a process.

    Raises ConfigError where NMT_BACKEND names no backend, and where the named one cannot run.
    """
    source = "model.backend"
    if requested == "auto" and VARIABLE in os.environ:
        source, requested = VARIABLE, _named_by_environment()
    return _choose(requested, source, device, dtype)


def why(requested: BackendName, device: torch.device, dtype: torch.dtype) -> str:
    """The name of the backend and the reason for it, in one phrase."""
    backend = choose(requested, device, dtype)
    return f"{backend.name} ({backend.why})"


def _named_by_environment() -> BackendName:
    value = os.environ[VARIABLE]
    allowed: tuple[BackendName, ...] = get_args(BackendName)
    for name in allowed:
        if value == name:
            return name
    near = nearest(value.lower(), allowed, allowed)
    hint = f" (did you mean '{near}'?)" if near else ""
    raise ConfigError(f"{VARIABLE}: got '{value}', allowed: {', '.join(allowed)}{hint}")


@functools.cache
def _choose(requested: str, source: str, device: torch.device, dtype: torch.dtype) -> Backend:
    candidates = _candidates(device, dtype)
    here = [one for one in candidates if one.device_type in (None, device.type)]
    if requested == "auto":
        return first_that_runs(here)
    match = next(candidate for candidate in candidates if candidate.name == requested)
    reason = match.why_not() if match in here else f"it is for {match.device_type} devices"
    if reason:
        able = ", ".join(one.name for one in here if not one.why_not())
        raise ConfigError(
            f"{source}: got '{requested}', which cannot compute on {device.type}: {reason}; "
            f"allowed here: auto, {able}"
        )
    return Backend(match.name, match.build(), f"named by {source}")


def first_that_runs(candidates: Sequence[Candidate]) -> Backend:
    """The first candidate that can run; a warning of one line where a check rejected another."""
    passed_over: list[str] = []
    for candidate in candidates:
        reason = candidate.why_not()
        if not reason:
            why = "; ".join(passed_over) or candidate.strength
            return Backend(candidate.name, candidate.build(), why)
        passed_over.append(f"no {candidate.name}: {reason}")
    raise AssertionError("the reference runs everywhere")


def checked(build: Callable[[], Operations], device: torch.device, dtype: torch.dtype) -> str:
    """Why operations must not be used: what differs from the reference on `device`, or fails.

    Warns of it once, because these operations were expected to work.
    """
    try:
        reason = disagreement(build(), device, dtype)
    except Exception as failure:  # whatever importing or building it raises
        reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
    if reason:
        warnings.warn(f"falling back to another backend: {reason}", RuntimeWarning, stacklevel=2)
    return reason


def _candidates(device: torch.device, dtype: torch.dtype) -> list[Candidate]:
    """The implementations, fastest first."""
    dtypes = dtypes_of(dtype)
    shown = str(dtype).removeprefix("torch.")

    def build_native() -> Operations:
        steps = native_steps(dtypes)
        assert steps is not None
        return NativeOperations(dtypes, steps)

    def why_not_native() -> str:
        if not library.available():
            return library.why_not()
        return "" if native_steps(dtypes) else f"not compiled for {shown}"

    def build_triton() -> Operations:
        from nmt.ops.triton.operations import TritonOperations  # imports Triton

        return TritonOperations(dtypes)

    @functools.cache
    def why_not_triton() -> str:
        if reason := launch.why_not():
            return reason
        if dtype == torch.float64:
            return "its sums are in fp32, and the dtype is float64"
        return checked(build_triton, device, dtype)

    def build_fused() -> Operations:
        return FusedOperations(dtypes, device.type)

    processor = library.variant().replace("native", "this processor")
    return [
        Candidate("triton", "cuda", "agrees with the reference", why_not_triton, build_triton),
        Candidate("native", "cpu", f"compiled for {processor}", why_not_native, build_native),
        Candidate("fused", None, f"the fastest on {device.type}", lambda: "", build_fused),
        Candidate("reference", None, "runs everywhere", lambda: "", Operations),
    ]
