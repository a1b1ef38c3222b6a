"""Operations by torch and by compiled code."""

import pytest
import torch

from nmt.ops import linear_cross_entropy, ways
from nmt.ops.native.sequence import why_not_compiled
from nmt.ops.precision import Dtypes

FP32 = Dtypes(torch.float32, torch.float32)
NEEDS_COMPILER = pytest.mark.skipif(bool(why_not_compiled(FP32)), reason=why_not_compiled(FP32))


@pytest.fixture(params=["torch", pytest.param("compiled", marks=NEEDS_COMPILER)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What computes the steps of an operation."""
    if request.param == "torch":
        for module in (ways, linear_cross_entropy):
            monkeypatch.setattr(module, "compiled", lambda *_: None)
    return str(request.param)
