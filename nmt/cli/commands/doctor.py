"""`nmt doctor`: the versions, devices and native code here, and what would make nmt faster."""

import json
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer

import nmt
from nmt.cli.shared.options import Json, usable_cores
from nmt.errors import counted

_PACKAGES = ("torch", "numpy", "sacrebleu", "sentencepiece", "safetensors", "pydantic", "triton")


def doctor(as_json: Json = False) -> None:
    """Show versions, devices, the code that computes, memory, folders.

    It says why that code computes. Where native code is missing, the last lines say how to get it.
    """
    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for label, text in _lines(found):
        typer.echo(f"{label:<14}{text}")


def examine() -> dict[str, Any]:
    """The values that `nmt doctor --json` prints."""
    import torch

    from nmt.data.entries import data_folder
    from nmt.device import describe_device, fast_bf16, resolve_device
    from nmt.ops.backend import choose
    from nmt.ops.native import library
    from nmt.runs.card import cpu_name

    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = [f"cuda:{i}" for i in range(n_gpus)]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    auto = resolve_device("auto")
    backends = {"fp32": choose("auto", auto, torch.float32)}
    backends["bf16"] = choose("auto", auto, torch.bfloat16)
    package = Path(nmt.__file__).parent
    hook = package.parent / "hatch_build.py"
    source = "pip install --force-reinstall --no-deps SOURCE (the folder of nmt's source code)"
    return {
        "versions": {
            "nmt": nmt.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in _PACKAGES},
        },
        "system": {
            "platform": platform.platform(),
            "processor": cpu_name(),
            "cores": usable_cores(),
            "threads": torch.get_num_threads(),
            "memory_bytes": _memory("MemTotal"),
            "available_memory_bytes": _memory("MemAvailable"),
        },
        "devices": [describe_device(torch.device(name)) for name in (*devices, "cpu")],
        "backend": {key: {"name": own.name, "why": own.why} for key, own in backends.items()},
        "fast_bf16": fast_bf16(auto),
        "native": {
            "available": library.available(),
            "variant": library.variant(),
            "why_not": library.why_not(),
        },
        "compiler": next(filter(None, map(shutil.which, ("c++", "g++"))), None),
        "reinstall": f"python {hook}" if hook.exists() else source,
        "folders": {"package": str(package), "corpora": str(data_folder(Path("data")).absolute())},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory(key: str) -> int | None:
    """A line of Linux's /proc/meminfo in bytes; None on another system."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return next((int(size) * 1024 for size in sizes), None)


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The values of `examine` as labels and texts."""
    versions, system, native = found["versions"], found["system"], found["native"]
    others = [f"{name} {versions[name] or '(not installed)'}" for name in _PACKAGES]
    n_cores = counted(system["cores"], "core")
    variant = "this processor" if native["variant"] == "native" else native["variant"]
    memory, available = _gib(system["memory_bytes"]), _gib(system["available_memory_bytes"])
    lines = [
        ("nmt", f"{versions['nmt']}, Python {versions['python']}, {', '.join(others)}"),
        ("system", system["platform"]),
        ("processor", f"{system['processor']}, {n_cores} for this process"),
        ("threads", f"{system['threads']} (torch; OMP_NUM_THREADS sets it)"),
        ("memory", f"{memory}, {available} available"),
        *(("device", text) for text in found["devices"]),
        *(
            (f"backend {key}", f"{own['name']}: {own['why']}")
            for key, own in found["backend"].items()
        ),
        ("fast bf16", found["fast_bf16"] or "no: train.precision: auto takes fp32 here"),
        (
            "native code",
            f"compiled for {variant}" if native["available"] else f"none: {native['why_not']}",
        ),
        ("compiler", found["compiler"] or "none (Debian, Ubuntu: apt-get install g++)"),
        *((f"{name} in", folder) for name, folder in found["folders"].items()),
    ]
    if not native["available"]:
        first = "" if found["compiler"] else "install a C++ compiler, then "
        lines.append(("to get it", f"{first}{found['reinstall']}"))
    return lines


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 2**30:.1f} GiB"
