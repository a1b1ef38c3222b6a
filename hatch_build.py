"""Compile nmt's C++ while nmt is installed; in a checkout, `python hatch_build.py` does the same.

From source it is compiled for this machine's processor. With NMT_PORTABLE_WHEEL=1 the wheel gets
one library for each of manifest.PORTABLE_VARIANTS, for other machines. Without a compiler nmt
installs all the same, and `nmt doctor` says why there is no native code.

With NMT_NATIVE=0 nothing is compiled, for a wheel that any system takes.
CXX names the compiler (default: c++, or else g++), and CXXFLAGS adds options. Neither torch nor
OpenMP is needed: the libraries use the OpenMP that torch has loaded.
"""

import atexit
import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # `python hatch_build.py` needs no hatchling
    BuildHookInterface = object

SOURCES = Path(__file__).resolve().parent / "nmt" / "ops" / "native"
FLAGS = (
    *("-std=c++17", "-O3", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-fvisibility=hidden"),
)
UNITS = {
    "search": ("search.cpp",),
    "fp32": ("sequence.cpp", "-DDTYPES=fp32", "-DCOMPUTE=float", "-DACCUMULATE=float"),
    "bf16": ("sequence.cpp", "-DDTYPES=bf16", "-DCOMPUTE=bf16", "-DACCUMULATE=float"),
    "fp64": ("sequence.cpp", "-DDTYPES=fp64", "-DCOMPUTE=double", "-DACCUMULATE=double"),
}
"""The parts of each library: a source file and the macros it is compiled with."""


def _module(path: Path) -> Any:
    """Import a file by its path, because importing its package would import torch."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


manifest = _module(SOURCES / "manifest.py")


class CompilationError(Exception):
    """Why nothing was compiled, in one line."""


class NativeBuildHook(BuildHookInterface):
    """Adds the compiled libraries to a wheel, or writes them into the tree of an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See the class. Raises CompilationError where a portable wheel cannot be portable."""
        if version == "editable":
            build(manifest.FOLDER)
            return
        folder = Path(tempfile.mkdtemp(prefix="nmt-native-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        portable = os.environ.get("NMT_PORTABLE_WHEEL") == "1"
        why_not = build(folder, portable)
        if portable and why_not:
            raise CompilationError(why_not)
        build_data["force_include"][str(folder)] = "nmt/ops/native/lib"
        if not why_not:
            from packaging.tags import platform_tags

            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{next(iter(platform_tags()))}"


def build(folder: Path, portable: bool = False, sources: Path = SOURCES) -> str:
    """Write libraries and manifest into `folder`; the result says why there are none, or is empty.

    Files are replaced, never rewritten, so that a process that has loaded one goes on.
    """
    written: dict[str, Any] = {"sources": manifest.source_digest(sources), "libraries": []}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=folder) as scratch:
        try:
            if os.environ.get("NMT_NATIVE") == "0":
                raise CompilationError("native code was left out (NMT_NATIVE=0)")
            command = compiler()
            for march, requires in variants(portable).items():
                library = compile_library(command, march, sources, Path(scratch))
                digest = hashlib.sha256(library.read_bytes()).hexdigest()
                name = f"{march}-{digest[:16]}.so"
                os.replace(library, folder / name)
                entry = {"file": name, "sha256": digest, "requires": sorted(requires)}
                written["libraries"].append({"variant": march, **entry})
        except (CompilationError, OSError) as error:
            written |= {"libraries": [], "why_not": str(error)}
        path = Path(scratch) / manifest.NAME
        path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        os.replace(path, folder / manifest.NAME)
    named = {library["file"] for library in written["libraries"]}
    for path in folder.glob("*.so"):
        if path.name not in named:
            path.unlink()
    return str(written.get("why_not", ""))


def compiler() -> list[str]:
    """The command of the C++ compiler."""
    command = words("CXX")
    names = command[:1] or ["c++", "g++"]
    for name in names:
        if shutil.which(name):
            return [name, *command[1:]]
    raise CompilationError(f"no C++ compiler was found ({' or '.join(names)})")


def words(variable: str) -> list[str]:
    """The words of an environment variable, as a shell splits them."""
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise CompilationError(f"{variable}: {error}") from error


def variants(portable: bool) -> dict[str, set[str]]:
    """The -march of each library to compile, best first, with the flags it requires to run."""
    if platform.system() != "Linux":
        raise CompilationError(f"native code is for Linux only, and this is {platform.system()}")
    flags = manifest.instruction_sets()
    native: dict[str, set[str]] = {"native": flags} if flags else {}
    known = manifest.PORTABLE_VARIANTS.get(platform.machine(), {}) if portable else native
    if not known:
        raise CompilationError(f"native code is not known to run on {platform.machine()}")
    return known


def compile_library(command: list[str], march: str, sources: Path, scratch: Path) -> Path:
    """Compile all units for one variant, at the same time, and link them."""
    flags = [*FLAGS, f"-march={march}", *words("CXXFLAGS")]
    objects = {str(scratch / f"{unit}.o"): arguments for unit, arguments in UNITS.items()}
    steps = [
        [*command, *flags, *defined, "-c", str(sources / source), "-o", path]
        for path, (source, *defined) in objects.items()
    ]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(run, steps))
    library = scratch / f"{march}.so"
    # Linked without -fopenmp, because a second OpenMP would start threads of its own.
    run([*command, "-shared", *objects, "-o", str(library)])
    return library


def run(command: list[str]) -> None:
    """Run one step of the compilation."""
    done = subprocess.run(
        command, check=False, capture_output=True, encoding="utf-8", errors="replace"
    )
    if done.returncode != 0:
        lines = done.stderr.splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line), lines[0])
        raise CompilationError(f"'{command[0]}' failed: {first.strip()}")


if __name__ == "__main__":
    sys.exit(build(manifest.FOLDER) or None)
