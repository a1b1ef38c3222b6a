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

from nmt.ops.reference import AdditiveMemory
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

    keep, weights, query = torch.ones(B, S, dtype=torch.bool), torch.empty(B, S), some(B, K)
    memory = AdditiveMemory(some(B, S, K), some(B, S, M), keep, torch.empty(K))
    additive.attend(query, memory, weights, some(B, M))
    grads = some(B, K), torch.empty(B, S)
    additive.attend_backward(some(B, M), None, query, memory, weights, *grads)
    additive.keys_backward(torch.empty(B, T, S), some(B, T, K), memory)
    wide, x, state = torch.empty(B, H), some(B, 3 * H), some(B, H)
    saved = torch.empty(B, 4 * H)
    gru.gates_forward(x, x, x, torch.empty(4 * H), wide, wide, state, saved)
    shares = some(B, 4 * H), some(B, 4 * H)
    gru.gates_backward(wide, state, state, saved, state, *shares, wide)


driver.set_active(Absent())
run, JITFunction.run = JITFunction.run, compile_only
for argument in sys.argv[2:]:
    everything(tuple(map(int, argument.split(","))), getattr(torch, sys.argv[1]))
