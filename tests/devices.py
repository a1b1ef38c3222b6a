"""The device of the tests: a CPU, or with NMT_TEST_DEVICE=cuda a GPU, real or pretend."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

DEVICE = os.environ.get("NMT_TEST_DEVICE", "cpu")
IS_CPU = DEVICE == "cpu"
HERE = torch.device("cpu") if IS_CPU else torch.device(DEVICE, 0)


def cpu_only(reason: str) -> pytest.MarkDecorator:
    """Skip what cannot be tested on a GPU."""
    return pytest.mark.skipif(not IS_CPU, reason=f"for a CPU: {reason}")


class _DrawOnCpu(TorchFunctionMode):
    """Draws from a CPU's generator on the CPU: a GPU refuses it, and the numbers are the same."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        is_method = bool(args) and isinstance(args[0], torch.Tensor)  # such as random_
        if is_method or kwargs.get("generator") is None or kwargs.get("device") is not None:
            return func(*args, **kwargs)
        return func(*args, **kwargs, device="cpu").to(DEVICE)


def use_device() -> None:
    """Make tensors and modules of this thread on DEVICE, whose products in fp32 are not TF32's."""
    torch.set_default_device(DEVICE)
    torch.backends.cudnn.allow_tf32 = False
    _DrawOnCpu().__enter__()
