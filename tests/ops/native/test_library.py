"""Which compiled library is loaded, and the reason that is given where none is."""

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.ops.native import manifest
from nmt.ops.native.library import load
from nmt.ops.native.search import native_search
from nmt.ops.native.sequence import native_steps
from nmt.ops.precision import Dtypes
from tests.ops.conftest import NEEDS_NATIVE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the libraries of this installation."""
    for path in manifest.FOLDER.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def _change(folder: Path, **values: Any) -> None:
    path = folder / manifest.NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def _libraries(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / manifest.NAME).read_text())["libraries"]
    return found


def _why_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reason, found without loading anything: what is damaged may end this process."""
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", pytest.fail)
        found = load(folder)
    assert not found.functions
    assert not found.variant
    assert "\n" not in found.why_not
    return found.why_not


@NEEDS_NATIVE
def test_a_library_is_loaded_with_all_its_functions(folder: Path) -> None:
    found = load(folder)
    assert found.why_not == ""
    assert found.variant == _libraries(folder)[0]["variant"]
    assert {"gru_gates_fp32", "gru_gates_bf16", "quantize_rows"} <= set(found.functions)


@NEEDS_NATIVE
def test_every_call_gives_the_same_operations_whatever_was_done_before() -> None:
    fp32 = Dtypes(torch.float32, torch.float32)
    with torch.inference_mode():
        assert native_steps(fp32) is not None
    assert native_steps(fp32) is native_steps(fp32)
    assert native_search() is native_search()
    assert native_steps(Dtypes(torch.float16, torch.float32)) is None


def test_a_copy_without_libraries_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _why_not(tmp_path, monkeypatch) == "it was not compiled for this copy of nmt"


def test_the_reason_of_the_installation_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / manifest.NAME).write_text("{}")
    _change(tmp_path, libraries=[], why_not="no C++ compiler was found (c++ or g++)")
    reason = "when nmt was installed, no C++ compiler was found (c++ or g++)"
    assert _why_not(tmp_path, monkeypatch) == reason


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"sources": 1', '{"sources": 1, "libraries": 2}']
)
def test_a_damaged_manifest_is_named(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / manifest.NAME).write_text(text)
    monkeypatch.setattr(manifest, "source_digest", lambda: 1)
    assert f"{tmp_path / manifest.NAME} cannot be read" in _why_not(tmp_path, monkeypatch)


@NEEDS_NATIVE
def test_libraries_of_other_sources_are_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _change(folder, sources="0" * 64)
    assert _why_not(folder, monkeypatch) == "the C++ files have changed since they were compiled"


@NEEDS_NATIVE
def test_a_library_of_another_processor_is_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home folder may be shared, and an environment copied."""
    (entry,) = _libraries(folder)[:1]
    entry["requires"] += ["avx1024", "avx2048"]
    _change(folder, libraries=[entry])
    why_not = "compiled for another processor: this one lacks avx1024, avx2048"
    assert _why_not(folder, monkeypatch) == why_not


@NEEDS_NATIVE
def test_the_first_library_that_the_processor_can_run_is_taken(folder: Path) -> None:
    (entry,) = _libraries(folder)[:1]
    wider = {**entry, "variant": "wider", "requires": ["avx1024"]}
    _change(folder, libraries=[wider, {**entry, "variant": "own"}, {**entry, "variant": "last"}])
    assert load(folder).variant == "own"


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@NEEDS_NATIVE
@pytest.mark.parametrize("damage", [_cut, _flipped, lambda _: b"damaged", lambda _: b""])
def test_what_is_damaged_is_never_loaded(
    damage: Callable[[bytes], bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / _libraries(folder)[0]["file"]
    path.write_bytes(damage(path.read_bytes()))
    assert _why_not(folder, monkeypatch) == f"{path} is damaged: its checksum is wrong"


@NEEDS_NATIVE
def test_a_missing_library_and_a_missing_function_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.ops.native.library._FUNCTIONS", {"gru_gates_fp32": "p", "other": "p"})
    found = load(folder)
    assert not found.functions
    assert found.why_not.endswith("undefined symbol: other")
    path = folder / _libraries(folder)[0]["file"]
    path.unlink()
    assert _why_not(folder, monkeypatch).startswith(f"{path} cannot be loaded")


@NEEDS_NATIVE
def test_its_threads_are_torchs() -> None:
    """One OpenMP in the process: a second one would compete for the cores."""
    code = (
        "from nmt.ops.native import library\n"
        "assert library.available()\n"
        "maps = open('/proc/self/maps').read().split()\n"
        "print(len({path for path in maps if 'omp' in path.rpartition('/')[2]}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_instruction_sets_are_those_that_a_compiler_may_use(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor : 0\nflags\t\t: fpu sse4_2 avx512_bf16 md_clear abm\n\nflags : x\n"
    )
    assert manifest.instruction_sets(cpuinfo) == {"sse4_2", "avx512_bf16", "abm"}
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd sve2\n")
    assert manifest.instruction_sets(cpuinfo) == {"fp", "asimd", "sve2"}
    cpuinfo.write_text("processor : 0\nisa : rv64gc\n")
    assert manifest.instruction_sets(cpuinfo) == set()
    assert manifest.instruction_sets(tmp_path / "none") == set()
