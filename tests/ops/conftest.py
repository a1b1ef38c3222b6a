"""The operations of each backend that can run on the device of the tests."""

import importlib.util

import pytest
import torch
from devices import HERE, IS_CPU

from nmt.ops import Operations
from nmt.ops.backend import BackendName, choose_backend
from nmt.ops.native.library import loaded_library

_WHY_NOT = loaded_library().why_not if IS_CPU else "native code is for a CPU"
NEEDS_NATIVE = pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)

NEEDS_TRITON = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)

FASTER = ["fused", pytest.param("native", marks=NEEDS_NATIVE)]
"""Names of the backends for a CPU but the reference."""


@pytest.fixture(params=["reference", *FASTER])
def backend(request: pytest.FixtureRequest) -> BackendName:
    name: BackendName = request.param
    return name


def operations_of(backend: BackendName, dtype: torch.dtype = torch.float32) -> Operations:
    """Its operations for products of `dtype`."""
    return choose_backend(backend, HERE, dtype).operations
