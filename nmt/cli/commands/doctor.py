"""`nmt doctor`: show versions, devices and native code, and how to make nmt faster."""

import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

import nmt

_PACKAGES = ("torch", "numpy", "sacrebleu", "sentencepiece", "safetensors", "pydantic", "triton")


def doctor() -> None:
    """Show versions, devices, compute backends and folders.

    Each backend comes with the reason for its choice. If native code is missing, the last lines say
    how to install it.
    """
    for label, text in _lines():
        typer.echo(f"{label:<14}{text}")


def _lines() -> Iterator[tuple[str, str]]:
    import torch

    from nmt.corpora.entries import data_folder
    from nmt.device import bf16_unit, describe_device, resolve_device
    from nmt.ops.backend import choose_backend
    from nmt.ops.native.library import loaded_library
    from nmt.runs.builtin import builtin_runs
    from nmt.runs.card import cpu_name

    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    yield "nmt", f"{nmt.__version__}, Python {platform.python_version()}, {packages}"
    yield "system", platform.platform()
    yield "processor", cpu_name()
    yield "threads", f"{torch.get_num_threads()} (torch; OMP_NUM_THREADS sets it)"
    yield "package in", str(Path(nmt.__file__).parent)
    yield "models", ", ".join(builtin_runs()) or "none comes with this copy of nmt"
    yield "corpora in", str(data_folder(Path("data")).absolute())
    devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    for name in (*devices, "cpu"):
        yield "device", describe_device(torch.device(name))
    auto = resolve_device("auto")
    for key, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        backend = choose_backend("auto", auto, dtype)
        yield f"backend {key}", f"{backend.name}: {backend.why}"
    yield "fast bf16", bf16_unit(auto) or "no: train.precision: auto means fp32 here"
    compiler = next(filter(None, map(shutil.which, ("c++", "g++"))), None)
    library = loaded_library()
    variant = "this processor" if library.variant == "native" else library.variant
    missing = library.why_not and f"none: {library.why_not}"
    yield "native code", missing or f"compiled for {variant}"
    yield "compiler", compiler or "none (Debian, Ubuntu: apt-get install g++)"
    if library.why_not:
        hook = Path(nmt.__file__).parents[1] / "hatch_build.py"
        source = "pip install --force-reinstall --no-deps SOURCE (the folder of nmt's source code)"
        first = "" if compiler else "install a C++ compiler, then "
        yield "to get it", first + (f"python {hook}" if hook.exists() else source)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
