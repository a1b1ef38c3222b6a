"""Compile the Triton kernels for an H100 or H200 (sm_90) on a machine without one.

Run by itself, in a process in which Triton interprets nothing. Calls the kernels' functions with
launches replaced by compilation, and prints a line of JSON per launch. Arguments: a dtype, then
sizes as B,T,S,K,M,H, any number.
"""

import json
import re
import sys
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

from nmt.ops.triton import additive, gru


class Absent:
    """A GPU that is not there."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


def compile_only(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
    """In place of JITFunction.run, which would launch."""
    compiled = run(self, *args, grid=grid, warmup=True, **kwargs)
    ptx = compiled.asm["ptx"]
    row = {
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

    keep, v = torch.ones(B, S, dtype=torch.bool), torch.empty(K)
    query, keys, values = some(B, K), some(B, S, K), some(B, S, M)
    _, weights = additive.attend(query, keys, values, keep, v)
    additive.attend_backward(some(B, M), query, keys, values, v, weights)
    additive.keys_backward(torch.empty(B, T, S), some(B, T, K), keys, v)
    _, saved = gru.gates_forward(some(B, 3 * H), some(B, 3 * H), some(B, H))
    gru.gates_backward(some(B, H), saved, some(B, H))


driver.set_active(Absent())
run, JITFunction.run = JITFunction.run, compile_only
for argument in sys.argv[2:]:
    everything(tuple(map(int, argument.split(","))), getattr(torch, sys.argv[1]))
