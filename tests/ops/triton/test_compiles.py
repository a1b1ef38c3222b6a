"""Triton's compiler takes every kernel, for a GPU that need not be there."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton, which PyTorch for CUDA brings, is not installed")

SCRIPT = Path(__file__).with_name("compile_kernels.py")


@pytest.mark.parametrize(
    "capability",
    [pytest.param("80", marks=pytest.mark.slow), "90", pytest.param("100", marks=pytest.mark.slow)],
)
def test_kernels_compile_once_whatever_the_lengths(capability: str, tmp_path: Path) -> None:
    module = importlib.import_module("nmt.ops.triton.kernels")
    kernels = {name for name in dir(module) if name.endswith("_kernel")}
    lengths = ("256,2,50", "3,2,5", "1,1,1", "5,3,320")  # B, T, S
    sizes = ["bfloat16", *(f"{some},1024,2048,1024" for some in lengths)]
    command = [sys.executable, str(SCRIPT), capability, *sizes, "float32", "3,2,5,7,11,13"]
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    bf16, fp32 = ([row for row in rows if row["dtype"] == name] for name in ("bfloat16", "float32"))
    assert {row["kernel"] for row in bf16} == {row["kernel"] for row in fp32} == kernels
    assert len({row["hash"] for row in bf16}) == len(kernels)
    assert {row["atomics"] for row in bf16} == {0}  # sums in one order
    assert all(row["wide_loads"] for row in bf16)  # 16 bytes at once
