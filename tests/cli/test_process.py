"""Settings of the process: memory of ever new shapes, freed blocks, determinism."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from nmt.cli.shared.process import CACHE_CAPACITIES, deterministic
from nmt.device import process_bytes

pytestmark = pytest.mark.skipif(process_bytes("VmRSS") is None, reason="needs Linux' /proc")

PROGRAM = """
import os, torch
from nmt.ops.products import product
from nmt.cli.shared.process import configure_memory
from nmt.device import process_bytes, release_freed_memory

configure_memory()
weight = torch.zeros(96, 64)

def resident_after(first: int, last: int) -> int:
    for n_columns in range(first, last):
        product(weight, torch.zeros(64, n_columns))
    release_freed_memory()
    return process_bytes("VmRSS")

before = resident_after(1, 600)
print(resident_after(600, 1100) - before)
blocks = [torch.ones(2**20) for _ in range(64)]
last = torch.ones(1000)  # above the others, so that the heap cannot shrink from its end
full = process_bytes("VmRSS")
del blocks
after = process_bytes("VmRSS")
release_freed_memory()
print(full - after, after - process_bytes("VmRSS"))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what glibc does")
def test_memory_of_new_shapes_is_bounded_and_freed_blocks_stay() -> None:
    """Once the caches are full; what is freed stays until it is released."""
    names = {*CACHE_CAPACITIES, "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["OMP_NUM_THREADS"] = "1"
    shown = subprocess.check_output([sys.executable, "-c", PROGRAM], env=environment, text=True)
    grown, returned, released = map(int, shown.split())
    assert grown < 30 * 2**20
    assert returned < 16 * 2**20
    assert released > 200 * 2**20


def test_deterministic_holds_in_its_block_only() -> None:
    for value in (False, True):
        with deterministic(value):
            assert torch.are_deterministic_algorithms_enabled() is value
    assert not torch.are_deterministic_algorithms_enabled()
