"""The list of compiled libraries, which hatch_build.py writes and library.py reads.

This module imports only the standard library, because nmt is built without torch.
"""

import hashlib
import re
from pathlib import Path

FOLDER = Path(__file__).with_name("lib")  # where the compiled libraries and their manifest are

NAME = "manifest.json"

_X86_FLAGS = re.compile(r"(pni|s?sse|avx|fma|f16c|bmi|abm|lzcnt|movbe|popcnt|gfni|xop|tbm)\w*")
"""The flags in /proc/cpuinfo whose instructions a compiler may choose by itself."""

_X86_64_V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_X86_64_V4 = _X86_64_V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
PORTABLE_VARIANTS = {
    "x86_64": {"x86-64-v4": _X86_64_V4, "x86-64-v3": _X86_64_V3},
    "aarch64": {"armv8-a": {"fp", "asimd"}},
}
"""The variants in a wheel for each architecture, best first: -march and the required flags."""


def instruction_sets(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Return the instruction sets of this processor, as Linux names them; none if unknown."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "Features":  # ARM
            return set(value.split())
        if key.strip() == "flags":  # x86
            return {flag for flag in value.split() if _X86_FLAGS.fullmatch(flag)}
    return set()


def source_digest(folder: Path = FOLDER.parent) -> str:
    """Return the SHA-256 of the C++ files in `folder`. A library is loaded only if it matches."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.h"), *folder.glob("*.cpp")]):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()
