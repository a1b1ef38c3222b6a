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


def compiled(cache: Path, *arguments: str) -> list[dict[str, int | str]]:
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=env | {"TRITON_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def all_kernels() -> set[str]:
    names = set()
    for module in ("additive", "gru"):
        found = dir(importlib.import_module(f"nmt.ops.triton.{module}"))
        names |= {name for name in found if name.endswith("_kernel")}
    return names


def test_every_kernel_compiles_for_sm_90_as_it_was_designed(tmp_path: Path) -> None:
    rows = compiled(tmp_path, "bfloat16", "256,50,50,1024,2048,1024", "3,2,5,7,11,13")
    designed, odd = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    assert {row["kernel"] for row in designed} == {row["kernel"] for row in odd} == all_kernels()
    assert {row["atomics"] for row in rows} == {0}  # sums in one order
    for row in designed:
        assert row["spilled"] == 0, row
        assert row["registers"] <= 128, row  # four programs or more on a multiprocessor
        assert row["wide_loads"] > 0, row  # 16 bytes at once


def test_a_kernel_is_compiled_once_whatever_the_lengths(tmp_path: Path) -> None:
    lengths = ("3,2,5", "1,1,1", "16,16,16", "5,17,320")  # B, T, S
    rows = compiled(tmp_path, "float32", *(f"{some},16,48,13" for some in lengths))
    assert len(rows) == len(lengths) * len(all_kernels())
    assert len({row["hash"] for row in rows}) == len(all_kernels())
