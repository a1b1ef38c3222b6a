"""Operations by torch and by native code."""

import pytest

from nmt.ops import linear_cross_entropy, ways
from nmt.ops.native import library

NEEDS_NATIVE = pytest.mark.skipif(not library.available(), reason=library.why_not())


@pytest.fixture(params=["torch", pytest.param("compiled", marks=NEEDS_NATIVE)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What computes the steps of an operation."""
    if request.param == "torch":
        for module in (ways, linear_cross_entropy):
            monkeypatch.setattr(module, "native_steps", lambda *_: None)
    return str(request.param)
