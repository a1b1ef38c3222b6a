"""nmt doctor: what this installation and this machine have, and what would make nmt faster."""

import json
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

import nmt
from nmt.errors import counted

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

_PACKAGES = ("torch", "numpy", "sacrebleu", "sentencepiece", "safetensors", "pydantic", "triton")
_GIB = 2**30


def doctor(json_: Json = False) -> None:
    """Show versions, devices, the code that computes and why, memory and folders.

    Where native code is missing, the last lines say how to get it.
    """
    found = examine()
    if json_:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for label, text in _lines(found):
        typer.echo(f"{label:<14}{text}")


def examine() -> dict[str, Any]:
    """The values that `nmt doctor --json` prints."""
    import torch

    from nmt.data.entries import data_folder
    from nmt.ops.native import library
    from nmt.runs.card import cpu_name

    return {
        "versions": _versions(),
        "system": {
            "platform": platform.platform(),
            "processor": cpu_name(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "threads": torch.get_num_threads(),
            "memory_bytes": _memory("MemTotal"),
            "available_memory_bytes": _memory("MemAvailable"),
        },
        "devices": _devices(),
        "backend": _backends(),
        "native": {
            "available": library.available(),
            "variant": library.variant(),
            "why_not": library.why_not(),
        },
        "compiler": next(filter(None, map(shutil.which, ("c++", "g++"))), None),
        "reinstall": _reinstall(),
        "folders": {"package": _package(), "corpora": str(data_folder(Path("data")).absolute())},
    }


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"nmt": nmt.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _devices() -> list[str]:
    """Every device of torch, the one that `auto` takes first."""
    import torch

    from nmt.device import describe_device

    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = [f"cuda:{i}" for i in range(n_gpus)]
    names += ["mps"] if torch.backends.mps.is_available() else []
    return [describe_device(torch.device(name)) for name in (*names, "cpu")]


def _backends() -> dict[str, dict[str, str]]:
    """For each precision the code that computes on the device that `auto` takes, and the reason."""
    import torch

    from nmt.device import resolve_device
    from nmt.ops.backend import choose

    device = resolve_device("auto")
    found = {}
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        chosen = choose("auto", device, dtype)
        found[precision] = {"name": chosen.name, "why": chosen.why}
    return found


def _memory(key: str) -> int | None:
    """A line of Linux's /proc/meminfo in bytes; None on another system."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return next((int(size) * 1024 for size in sizes), None)


def _package() -> str:
    return str(Path(nmt.__file__).parent)


def _reinstall() -> str:
    """The command that compiles the native code again."""
    hook = Path(_package()).parent / "hatch_build.py"
    if hook.exists():
        return f"python {hook}"
    return "pip install --force-reinstall --no-deps SOURCE (the folder of nmt's source code)"


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Labels and texts for people."""
    versions, system, native = found["versions"], found["system"], found["native"]
    others = [f"{name} {versions[name] or '(not installed)'}" for name in _PACKAGES]
    lines = [
        ("nmt", f"{versions['nmt']}, Python {versions['python']}, {', '.join(others)}"),
        ("system", system["platform"]),
        ("processor", f"{system['processor']}, {_count(system['cores'], 'core')} for this process"),
        ("threads", f"{system['threads']} (torch; OMP_NUM_THREADS sets it)"),
        (
            "memory",
            f"{_gib(system['memory_bytes'])}, {_gib(system['available_memory_bytes'])} available",
        ),
        *(("device", text) for text in found["devices"]),
        *(
            (f"backend {precision}", f"{chosen['name']}: {chosen['why']}")
            for precision, chosen in found["backend"].items()
        ),
        (
            "native code",
            _compiled_for(native["variant"])
            if native["available"]
            else f"none: {native['why_not']}",
        ),
        ("compiler", found["compiler"] or "none (Debian, Ubuntu: apt-get install g++)"),
        *((f"{name} in", folder) for name, folder in found["folders"].items()),
    ]
    if not native["available"]:
        first = "" if found["compiler"] else "install a C++ compiler, then "
        lines.append(("to get it", f"{first}{found['reinstall']}"))
    return lines


def _compiled_for(variant: str) -> str:
    return f"compiled for {'this processor' if variant == 'native' else variant}"


def _count(number: int | None, noun: str) -> str:
    return f"an unknown number of {noun}s" if number is None else counted(number, noun)


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / _GIB:.1f} GiB"
