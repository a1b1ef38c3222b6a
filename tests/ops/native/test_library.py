"""The compiled library that is loaded, and the reason that is given where none is."""

import ctypes
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.ops.native import manifest
from nmt.ops.native.library import load
from nmt.ops.native.operations import NativeOperations
from tests.ops.conftest import NEEDS_NATIVE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(manifest.FOLDER, tmp_path, dirs_exist_ok=True))


def _manifest(folder: Path, **values: object) -> dict[str, Any]:
    """The manifest with other values, written and returned."""
    content = {**json.loads((folder / manifest.NAME).read_text()), **values}
    (folder / manifest.NAME).write_text(json.dumps(content))
    return content


def _why_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reason, found without loading anything: what is damaged may end this process."""
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", pytest.fail)
        library = load(folder)
    assert not any((library.functions, library.variant))
    assert "\n" not in library.why_not
    return library.why_not


@NEEDS_NATIVE
def test_the_first_library_that_the_processor_can_run_is_loaded(folder: Path, monkeypatch) -> None:
    entry = _manifest(folder)["libraries"][0]
    wider = {**entry, "variant": "wider", "requires": ["avx1024"]}
    _manifest(folder, libraries=[wider, entry, {**entry, "variant": "last"}])
    library = load(folder)
    assert library.why_not == ""
    assert library.variant == entry["variant"]
    assert {"gru_gates_fp32", "gru_gates_bf16", "quantize_rows"} <= set(library.functions)
    _manifest(folder, libraries=[{**entry, "requires": [*entry["requires"], "avx1024"]}])
    assert _why_not(folder, monkeypatch).endswith("this one lacks avx1024")
    _manifest(folder, libraries=[entry], sources="0" * 64)
    assert "have changed since they were compiled" in _why_not(folder, monkeypatch)


def test_a_copy_without_libraries_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "was not compiled" in _why_not(tmp_path, monkeypatch)
    path = tmp_path / manifest.NAME
    path.write_text(json.dumps({"libraries": [], "why_not": "no C++ compiler was found"}))
    assert _why_not(tmp_path, monkeypatch).endswith("no C++ compiler was found")
    monkeypatch.setattr(manifest, "source_digest", lambda: 1)
    for text in ("", "[]", "{}", '{"sources": 1', '{"sources": 1, "libraries": 2}'):
        path.write_text(text)
        assert f"{path} cannot be read" in _why_not(tmp_path, monkeypatch)


@NEEDS_NATIVE
@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied"])
def test_what_is_damaged_is_never_loaded(damage: str, folder: Path, monkeypatch) -> None:
    path = folder / _manifest(folder)["libraries"][0]["file"]
    content = bytearray(path.read_bytes())
    middle = 0 if damage == "emptied" else len(content) // 2
    content[middle] ^= 1
    path.write_bytes(content if damage == "flipped" else content[:middle])
    assert _why_not(folder, monkeypatch).startswith(f"{path} is damaged")


def test_instruction_sets_are_those_a_compiler_may_use(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    assert manifest.instruction_sets(cpuinfo) == set()
    for text, sets in (
        ("flags\t\t: fpu sse4_2 avx512_bf16 md_clear abm\n\nflags : x\n", "sse4_2 avx512_bf16 abm"),
        ("processor\t: 0\nFeatures\t: fp asimd sve2\n", "fp asimd sve2"),
        ("processor : 0\nisa : rv64gc\n", ""),
    ):
        cpuinfo.write_text(text)
        assert manifest.instruction_sets(cpuinfo) == {*sets.split()}


@NEEDS_NATIVE
@pytest.mark.parametrize("target", [-1, 9])
def test_a_target_outside_of_the_vocabulary_is_refused(target: int) -> None:
    x, table, targets = torch.zeros(2, 2), torch.zeros(9, 2), torch.tensor([0, target])
    with pytest.raises(IndexError, match="9 rows"):
        NativeOperations(torch.float32).linear_cross_entropy(
            x, table, table[:, 0], targets, targets < 99, 9, 0.0
        )
