"""Compile the Triton kernels for a GPU that need not be there.

Run by itself, in a process in which Triton interprets nothing. Calls the kernels' functions with
launches replaced by compilation, and prints a line of JSON per launch. Arguments: the compute
capability (80: A100; 90: H100, H200; 100: B200), then dtypes, each before its sizes B,T,S,K,M,H.
"""

import json
import re
import sys
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

from nmt.ops.reference import AdditiveMemory
from nmt.ops.triton.operations import TritonAttention, TritonGRUSteps, adadelta


def compile_only(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
    """In place of JITFunction.run, which would launch."""
    compiled = run(self, *args, grid=grid, warmup=True, **kwargs)
    ptx = compiled.asm["ptx"]
    row = {
        "dtype": str(dtype).removeprefix("torch."),
        "kernel": self.__name__,
        "hash": compiled.hash,
        "wide_loads": len(re.findall(r"ld\.global\S*\.v4\.b32", ptx)),
        "atomics": len(re.findall(r"\b(?:atom|red)\.", ptx)),
    }
    sys.stdout.write(json.dumps(row) + "\n")
    return compiled


def everything(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    """Every function once, on numbers that nobody reads."""
    B, T, S, K, M, H = sizes

    def some(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype)

    steps, keep = TritonGRUSteps(dtype), torch.ones(B, S, dtype=torch.bool)
    memory = AdditiveMemory(some(B, S, K), some(B, S, M), keep, torch.empty(K))
    outputs = torch.empty(T, B, K), torch.empty(T, B, S), some(T, B, M)
    attention = TritonAttention(steps, memory, *outputs)
    attention.begin_backward(T * [None], T * [None])
    for t in range(T):
        attention.attend(t, some(B, K).t())
        attention.attend_backward(t, some(B, M).t(), some(B, K).t(), some(B, K).t())
    attention.gradients()
    wide, x, state = torch.empty(B, H).t(), some(B, 3 * H), some(B, H)
    saved, shares = torch.empty(B, 4 * H).t(), some(B, 4 * H).t()
    steps.gru_gates(x.t(), x.t(), x.t(), torch.empty(4 * H), wide, saved, state)
    adadelta(*(torch.empty(K, 16) for _ in range(4)), 1.0, 0.95, 1e-6)
    steps.gru_gates_backward(
        wide, state.t(), state, saved, state, shares, some(B, 4 * H).t(), torch.zeros(4 * H)
    )


CAPABILITY = int(sys.argv[1])
# A GPU that is not there.
driver.set_active(
    SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget("cuda", CAPABILITY, 32),
    )
)
run, JITFunction.run = JITFunction.run, compile_only
dtype = torch.float32
for argument in sys.argv[2:]:
    if hasattr(torch, argument):
        dtype = getattr(torch, argument)
    else:
        everything(tuple(map(int, argument.split(","))), dtype)
