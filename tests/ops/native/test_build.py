"""What is compiled when it is first needed: kept, shared, and done without where it can not be."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.ops.native.build import SWITCH, Built, built, built_before
from tests.ops.conftest import NEEDS_COMPILER

_SOURCE = 'extern "C" __attribute__((visibility("default"))) int seven() { return 7; }\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(SWITCH, raising=False)
    return tmp_path / "cache" / "nmt"


def _built(source: Path, *defined: str) -> Built:
    """As a new process would find it."""
    return built.__wrapped__(source, *defined)


def _source(folder: Path, text: str = _SOURCE) -> Path:
    path = folder / "own.cpp"
    path.write_text(text)
    return path


@NEEDS_COMPILER
def test_it_is_compiled_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _built(_source(tmp_path))
    assert first.library is not None
    assert first.library.seven() == 7
    assert [path.suffix for path in cache.iterdir()] == [".so"]  # and nothing is left over
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert _built(_source(tmp_path)).library is not None


@NEEDS_COMPILER
def test_a_changed_source_is_compiled_anew(tmp_path: Path) -> None:
    _built(_source(tmp_path))
    changed = _built(_source(tmp_path, _SOURCE.replace("7", "8"))).library
    assert changed is not None
    assert changed.seven() == 8


@NEEDS_COMPILER
def test_so_it_is_for_another_header_and_for_what_is_defined_otherwise(tmp_path: Path) -> None:
    source = _source(tmp_path, '#include "own.h"\n' + _SOURCE.replace("7", "SIX + ONE"))
    found = []
    for six, one in (("6", "1"), ("16", "1"), ("16", "11")):
        (tmp_path / "own.h").write_text(f"#define SIX {six}\n")
        library = _built(source, f"ONE={one}").library
        assert library is not None
        found.append(library.seven())
    assert found == [7, 17, 27]


@NEEDS_COMPILER
def test_nothing_is_compiled_for_those_who_would_not_wait(tmp_path: Path, cache: Path) -> None:
    source = _source(tmp_path)
    assert built_before(source).why_not == "not compiled so far"
    assert not list(cache.iterdir())
    _built(source)
    found = built_before(source).library
    assert found is not None
    assert found.seven() == 7


@pytest.mark.parametrize(
    ("compiler", "source", "why"),
    [
        ("no-such-compiler", _SOURCE, "no C++ compiler, 'no-such-compiler'"),
        ("false", _SOURCE, "'false' failed: no message"),
        ("c++ 'quoted", _SOURCE, "CXX: No closing quotation"),
        pytest.param("c++", "int broken(", "error: ", marks=NEEDS_COMPILER),
        ("sh -c 'printf \"error: \\\\377\" >&2; exit 1'", _SOURCE, "failed: error: \ufffd"),
        pytest.param(
            "c++", "void a(); void b() { a(); }", "undefined symbol", marks=NEEDS_COMPILER
        ),
    ],
)
def test_without_a_compiler_there_is_a_reason(
    compiler: str, source: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler)
    found = _built(_source(tmp_path, source))
    assert found.library is None
    assert why in found.why_not
    assert "\n" not in found.why_not


@NEEDS_COMPILER
@pytest.mark.parametrize("compiler", ["", " ", "c++ -g0"])
def test_the_compiler_may_have_options_or_none_be_named(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler)
    assert _built(_source(tmp_path)).library is not None


def test_it_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "off")
    assert _built(_source(tmp_path)).why_not == f"{SWITCH} is off"


@NEEDS_COMPILER
def test_a_folder_that_others_may_write_to_is_not_trusted(tmp_path: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    found = _built(_source(tmp_path))
    assert found.library is not None
    assert found.library.seven() == 7
    assert not list(cache.iterdir())


@NEEDS_COMPILER
def test_a_folder_that_can_not_be_written_to_is_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _source(tmp_path)
    _built(source)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert built_before(source).library is not None
    assert _built(source).library is not None
    (tmp_path / "own.h").touch()
    monkeypatch.setenv("CXX", "c++")
    assert _built(source).library is not None
    assert len(list(cache.iterdir())) == 1


@NEEDS_COMPILER
def test_a_folder_that_can_not_be_made_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert _built(_source(tmp_path)).library is not None


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@NEEDS_COMPILER
@pytest.mark.parametrize("damage", [_cut, _flipped, lambda _: b"damaged", lambda _: b""])
def test_what_is_damaged_is_never_loaded_and_made_again(
    damage: Callable[[bytes], bytes],
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = _source(tmp_path)
    _built(source)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.unlink()  # the file that this process has mapped stays as it is
    kept.write_bytes(damage(whole))
    with monkeypatch.context() as patch:  # to load it may end this process
        patch.setattr("ctypes.CDLL", pytest.fail)
        assert built_before(source).library is None
    found = _built(source)
    assert found.library is not None
    assert found.library.seven() == 7
    assert built_before(source).library is not None


@NEEDS_COMPILER
def test_a_library_without_its_functions_is_not_kept(tmp_path: Path, cache: Path) -> None:
    source = _source(tmp_path)
    lacking = built.__wrapped__(source, functions=("seven", "eight"))
    assert lacking.library is None
    assert lacking.why_not == "'c++' made a library without 'eight'"
    assert not list(cache.iterdir())
    _built(source)
    assert built_before(source, functions=("seven",)).library is not None
    assert built_before(source, functions=("eight",)).library is None


@NEEDS_COMPILER
def test_it_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, n=name, real=real: (calls.append(n), real(*args))[1]
        )
    assert _built(_source(tmp_path)).library is not None
    assert calls == ["fsync", "replace", "fsync"]


@NEEDS_COMPILER
def test_what_killed_compilations_left_is_removed(tmp_path: Path, cache: Path) -> None:
    for name, seconds in (("making-old", 3_600), ("making-new", 60)):
        (cache / name).mkdir(parents=True)
        (cache / name / "made.o").touch()
        os.utime(cache / name, (time.time() - seconds,) * 2)
    cache.chmod(0o700)
    _built(_source(tmp_path))
    assert [path.name for path in cache.iterdir() if path.is_dir()] == ["making-new"]


@NEEDS_COMPILER
@pytest.mark.parametrize("base", ["relative", "./relative", ""])
def test_no_library_is_taken_from_the_folder_one_works_in(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user without a home
    assert _built(_source(tmp_path)).library is not None
    assert not [path for path in tmp_path.rglob("*.so") if path.is_file()]
    home = tmp_path / "home"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", str(home)))
    assert _built(_source(tmp_path)).library is not None
    assert list((home / ".cache" / "nmt").iterdir())


@NEEDS_COMPILER
def test_its_threads_are_torchs() -> None:
    """One OpenMP in the process: a second one would fight for the processor."""
    code = (
        "import torch\n"
        "from nmt.ops.native.sequence import why_not_compiled\n"
        "from nmt.ops.precision import Dtypes\n"
        "assert not why_not_compiled(Dtypes(torch.float32, torch.float32))\n"
        "maps = open('/proc/self/maps').read().split()\n"
        "print(len({path for path in maps if 'omp' in path.rpartition('/')[2]}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


@NEEDS_COMPILER
def test_a_search_compiles_nothing(cache: Path) -> None:
    code = (
        "import torch\n"
        "from nmt.models.recurrent.rnn import RNNConfig\n"
        "model = RNNConfig(embedding=4, hidden=4).build(9, 9).eval()\n"
        "ids = torch.tensor([[4, 5, 3]])\n"
        "with torch.inference_mode():\n"
        "    model.encode(ids, torch.ones_like(ids).bool())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not cache.exists()
