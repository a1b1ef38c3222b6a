"""Settings of the process: memory of ever new shapes, freed blocks, the user's own variables."""

import ast
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import nmt
from nmt.cli.process import CACHE_CAPACITIES, configure_memory, deterministic
from nmt.device import process_bytes
from nmt.errors import ConfigError

pytestmark = pytest.mark.skipif(process_bytes("VmRSS") is None, reason="needs Linux' /proc")

NEW_SHAPES = """
import torch
from nmt.ops.products import product
from nmt.cli.process import configure_memory
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
"""

FREED = """
import torch
from nmt.cli.process import configure_memory
from nmt.device import process_bytes, release_freed_memory

configure_memory()
blocks = [torch.ones(2**20) for _ in range(64)]
last = torch.ones(1000)  # above the others, so that the heap cannot shrink from its end
full = process_bytes("VmRSS")
del blocks
kept = process_bytes("VmRSS")
release_freed_memory()
print(full - kept, kept - process_bytes("VmRSS"))
"""


def _printed(program: str, **variables: str) -> list[int]:
    """The numbers that `program` prints in a process of its own, whose caches are not yet made."""
    names = {*CACHE_CAPACITIES, "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"}
    clean = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-c", program]
    environment = {**clean, "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_products_of_new_shapes_take_no_more_memory_once_the_caches_are_full() -> None:
    (grown,) = _printed(NEW_SHAPES)
    assert grown < 30 * 2**20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what glibc does")
def test_freed_memory_stays_until_it_is_released() -> None:
    returned, released = _printed(FREED)
    assert returned < 16 * 2**20
    assert released > 200 * 2**20


@pytest.mark.parametrize("name", CACHE_CAPACITIES)
def test_a_capacity_that_the_user_has_set_stays(name: str) -> None:
    program = (
        "import os; from nmt.cli.process import configure_memory; configure_memory(); "
        f"print(os.environ['{name}'])"
    )
    assert _printed(program, **{name: "77"}) == [77]
    assert _printed(program) == [int(CACHE_CAPACITIES[name])]


@pytest.mark.parametrize("capacity", ["", "x", "0", "00", "-1", "1.5", "9" * 5000])
def test_a_capacity_that_makes_torch_crash_is_refused(
    capacity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRU_CACHE_CAPACITY", capacity)
    with pytest.raises(ConfigError, match=r"LRU_CACHE_CAPACITY: got .*, allowed: "):
        configure_memory()


def test_a_process_that_is_gone_has_no_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    assert process_bytes("VmRSS", process.pid) is None
    assert process_bytes("NoSuchField") is None


def test_deterministic_holds_in_its_block_only() -> None:
    with deterministic(False):
        assert not torch.are_deterministic_algorithms_enabled()
    with deterministic(True):
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


SETTERS = {
    *("torch.set_num_threads", "torch.use_deterministic_algorithms", "library.mallopt"),
    *("gc.set_threshold", "gc.freeze", "gc.disable", "signal.signal", "os.environ.setdefault"),
}

ALLOWED = {
    "bench/memory.py: torch.set_num_threads",  # in a process of its own
    "lab/costs.py: torch.set_num_threads",  # an experiment that times itself, and sets it back
    "inference/parallel.py: torch.set_num_threads",
    "__main__.py: signal.signal",  # of the command, before it is imported
    "serve/run.py: signal.signal",  # the server's process, which sets them back
}


def test_no_room_below_the_command_line_sets_what_the_whole_process_shares() -> None:
    """Another thread of the program that calls the library would meet such a setting too."""
    root = Path(nmt.__file__).parent
    paths = {path: path.relative_to(root) for path in root.rglob("*.py")}
    found = {
        f"{name}: {ast.unparse(node.func)}"
        for path, name in paths.items()
        if name.parts[0] != "cli"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SETTERS
    }
    assert found <= ALLOWED
