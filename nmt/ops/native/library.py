"""The compiled library that serves this process, or the reason why there is none.

It is compiled when nmt is installed (hatch_build.py), never while nmt runs. What is loaded depends
on the installation and the processor alone.
"""

import ctypes
import functools
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch  # loads the OpenMP that the library uses
from torch import Tensor

from nmt.ops.native import manifest

SEQUENCE = {
    "gru_gates": "nnpnn" + 8 * "p" + "nn",
    "gru_gates_backward": "nnpppnnppnnppnpp",
    "attention_keys": "nnppp",
    "attention_step": 4 * "n" + 10 * "p",
    "attention_step_backward": 4 * "n" + 17 * "p" + "n",
    "softmax_loss": "nnpppnrnppp",
    "product": "nnnppnnp",
    "transpose": "nnpp",
}
"""The functions of sequence.cpp, which exist for each of DTYPES."""

DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float64: "fp64"}
"""The dtypes of their factors and products, and the suffixes of their names."""

_SEARCH = {
    "top_k_log_probs": "nnnppnnpp",
    "quantize_rows": "nnppp",
    "dequantize": "nnpppp",
    "additive_attention_step": 4 * "n" + 8 * "p",
}
_FUNCTIONS = {
    **{f"{name}_{dtype}": kinds for name, kinds in SEQUENCE.items() for dtype in DTYPES.values()},
    **_SEARCH,
}
"""Every function with the kinds of its parameters; none returns a value."""

_KINDS = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "r": ctypes.c_double}
"""(p)ointer, integer (n)umber, (r)eal number."""


class Library(NamedTuple):
    """The functions of a loaded library, or why nothing was loaded, in one line.

    `variant` is the processor that it was compiled for: native, x86-64-v3, ...
    """

    functions: dict[str, Any]
    variant: str = ""
    why_not: str = ""


@functools.cache
def loaded() -> Library:
    """The library that serves this process."""
    return load(manifest.FOLDER)


def address(tensor: Tensor | None) -> int | None:
    """The address of a tensor that C++ takes without strides: it must be contiguous."""
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()


def load(folder: Path) -> Library:
    """Load the best library in `folder` that this processor can run."""
    try:
        written = json.loads((folder / manifest.NAME).read_text(encoding="utf-8"))
        if reason := written.get("why_not"):
            return Library({}, why_not=f"when nmt was installed, {reason}")
        if written["sources"] != manifest.source_digest():
            return Library({}, why_not="the C++ files have changed since they were compiled")
        flags = manifest.instruction_sets()
        for entry in written["libraries"]:
            if flags.issuperset(entry["requires"]):
                return _open(folder / entry["file"], entry["sha256"], entry["variant"])
        lacking = ", ".join(sorted(set(written["libraries"][-1]["requires"]) - flags))
    except FileNotFoundError:
        return Library({}, why_not="it was not compiled for this copy of nmt")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return Library({}, why_not=f"{folder / manifest.NAME} cannot be read: {error!r}")
    return Library({}, why_not=f"compiled for another processor: this one lacks {lacking}")


def _open(path: Path, sha256: str, variant: str) -> Library:
    try:
        # Loading a truncated library would end the process, so its checksum comes first.
        if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            return Library({}, why_not=f"{path} is damaged: its checksum is wrong")
        library = ctypes.CDLL(str(path))
        functions = {name: getattr(library, name) for name in _FUNCTIONS}
    except (OSError, AttributeError) as error:
        return Library({}, why_not=f"{path} cannot be loaded: {error}")
    for name, kinds in _FUNCTIONS.items():
        functions[name].argtypes = [_KINDS[kind] for kind in kinds]
        functions[name].restype = None
    return Library(functions, variant)
