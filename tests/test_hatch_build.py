"""The build hook compiles when nmt is installed, and writes a reason where it cannot."""

import importlib
import json
import platform
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nmt.ops.native import library, manifest

NEEDS_COMPILER = pytest.mark.skipif(
    not (shutil.which("c++") or shutil.which("g++")), reason="no C++ compiler"
)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """hatch_build.py, imported from the root of the checkout."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    return importlib.import_module("hatch_build")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small C++ files that compile in no time."""
    for name in ("CXX", "CXXFLAGS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "sources"
    folder.mkdir()
    exported = 'extern "C" __attribute__((visibility("default")))'
    (folder / "search.cpp").write_text(f"{exported} int seven() {{ return 7; }}\n")
    (folder / "numbers.h").write_text("struct bf16 {};\n")
    (folder / "sequence.cpp").write_text('#include "numbers.h"\nusing Compute = COMPUTE;\n')
    return folder


def _written(folder: Path) -> Any:
    return json.loads((folder / manifest.NAME).read_text())


@NEEDS_COMPILER
def test_a_build_replaces_another_and_leaves_nothing_over(
    hook: ModuleType, sources: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "lib"
    assert hook.build(folder, sources=sources) == ""
    digest = _written(folder)["sources"]
    (sources / "search.cpp").write_text("int eight() { return 8; }\n")
    hook.build(folder, sources=sources)
    written = _written(folder)
    assert written["sources"] == manifest.source_digest(sources) != digest
    [entry] = written["libraries"]
    assert entry["variant"] == "native"
    assert set(entry["requires"]) == manifest.instruction_sets()
    assert {path.name for path in folder.iterdir()} == {manifest.NAME, entry["file"]}


@NEEDS_COMPILER
def test_a_portable_build_has_one_for_each_variant_best_first(
    hook: ModuleType, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.build(tmp_path, portable=True, sources=sources)
    variants = manifest.PORTABLE_VARIANTS[platform.machine()]
    libraries = _written(tmp_path)["libraries"]
    assert [entry["variant"] for entry in libraries] == list(variants)
    assert [set(entry["requires"]) for entry in libraries] == list(variants.values())
    for system, machine in (("Darwin", "arm64"), ("Linux", "vax")):
        monkeypatch.setattr("platform.system", lambda name=system: name)
        monkeypatch.setattr("platform.machine", lambda name=machine: name)
        with pytest.raises(hook.CompilationError, match=r"Linux only|not known to run on vax"):
            hook.variants(portable=True)


@pytest.mark.parametrize(
    ("compiler", "flags", "why"),
    [
        ("no-such-compiler", "", "no C++ compiler was found (no-such-compiler)"),
        ("true", "'quoted", "CXXFLAGS: No closing quotation"),
        ("sh -c 'printf \"error: \\\\377\" >&2; exit 1'", "", "failed: error: \ufffd"),
    ],
)
def test_where_nothing_is_compiled_the_manifest_says_why(
    compiler: str, flags: str, why: str, hook: ModuleType, tmp_path: Path, sources: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", compiler)
        patch.setenv("CXXFLAGS", flags)
        assert why in hook.build(tmp_path / "lib", sources=sources)
    written = _written(tmp_path / "lib")
    assert written["libraries"] == []
    assert re.fullmatch(f".*{re.escape(why)}.*", written["why_not"])  # one line
    assert library.load(tmp_path / "lib").why_not == f"when nmt was installed, {written['why_not']}"


def _initialize(hook: ModuleType, version: str) -> dict[str, Any]:
    """Return hatchling's build data after the hook, which uses no attribute of its own."""
    data: dict[str, Any] = {"force_include": {}, "pure_python": True, "tag": None}
    hook.NativeBuildHook.initialize(None, version, data)
    return data


def test_a_wheel_with_libraries_is_for_its_platform_only(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable installation has none: its libraries are compiled into the tree."""
    built: list[Path] = []
    monkeypatch.setattr(hook, "build", lambda folder, *_: built.append(folder) or "")
    data = _initialize(hook, "standard")
    assert list(data["force_include"].values()) == ["nmt/ops/native/lib"]
    assert not data["pure_python"]
    assert data["tag"].startswith("py3-none-")
    assert data["tag"].endswith(f"_{platform.machine()}")
    assert _initialize(hook, "editable")["force_include"] == {}
    assert built[1:] == [manifest.FOLDER]


def test_a_wheel_without_libraries_is_plain_unless_portable(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with monkeypatch.context() as patch:
        patch.setenv("NMT_NATIVE", "0")
        data = _initialize(hook, "standard")
    assert (data["pure_python"], data["tag"]) == (True, None)
    [folder] = data["force_include"]
    assert _written(Path(folder))["why_not"] == "native code was left out (NMT_NATIVE=0)"
    monkeypatch.setenv("NMT_PORTABLE_WHEEL", "1")
    with pytest.raises(hook.CompilationError, match=r"no C\+\+ compiler was found"):
        _initialize(hook, "standard")
