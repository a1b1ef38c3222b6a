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


def _compile(cache: Path, *arguments: str) -> list[dict[str, int | str]]:
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, str(SCRIPT), *arguments]
    env["TRITON_CACHE_DIR"] = str(cache)
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "capability",
    [pytest.param("80", marks=pytest.mark.slow), "90", pytest.param("100", marks=pytest.mark.slow)],
)
def test_kernels_compile_once_whatever_the_lengths(capability: str, tmp_path: Path) -> None:
    module = importlib.import_module("nmt.ops.triton.kernels")
    kernels = {name for name in dir(module) if name.endswith("_kernel")}
    lengths = ("256,2,50", "3,2,5", "1,1,1", "5,3,320")  # B, T, S
    rows = _compile(
        tmp_path, capability, "bfloat16", *(f"{some},1024,2048,1024" for some in lengths)
    )
    assert {row["kernel"] for row in rows} == kernels
    assert len({row["hash"] for row in rows}) == len(kernels)
    assert {row["atomics"] for row in rows} == {0}  # sums in one order
    assert all(row["wide_loads"] for row in rows)  # 16 bytes at once
    assert {row["spilled"] for row in rows} == {0}
    rows = _compile(tmp_path, capability, "float32", "3,2,5,7,11,13")
    assert {row["kernel"] for row in rows} == kernels
