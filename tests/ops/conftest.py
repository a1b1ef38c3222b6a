"""The operations of each backend that can run on a CPU."""

import pytest
import torch

from nmt.ops import Operations
from nmt.ops.backend import BackendName, choose
from nmt.ops.native.library import loaded

NEEDS_NATIVE = pytest.mark.skipif(bool(loaded().why_not), reason=loaded().why_not)


@pytest.fixture(
    params=["reference", "fused", pytest.param("native", marks=NEEDS_NATIVE)],
)
def backend(request: pytest.FixtureRequest) -> BackendName:
    """The name of a backend."""
    name: BackendName = request.param
    return name


def operations_of(backend: BackendName, dtype: torch.dtype = torch.float32) -> Operations:
    """Its operations on a CPU for products of `dtype`."""
    return choose(backend, torch.device("cpu"), dtype).operations
