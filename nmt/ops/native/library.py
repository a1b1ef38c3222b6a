"""Whether native code can be used in this process."""

import torch

from nmt.ops.native.sequence import why_not_compiled
from nmt.ops.precision import Dtypes


def available() -> bool:
    """Whether native code can be used in this process."""
    return not why_not()


def why_not() -> str:
    """Why there is no native code, in one line; empty where there is."""
    return why_not_compiled(Dtypes(torch.float32, torch.float32))
