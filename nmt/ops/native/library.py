"""The compiled library that this process uses, or the reason why there is none.

It is compiled when nmt is installed (hatch_build.py), never while nmt runs. Which library is loaded
depends only on the installation and the processor.
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

SEQUENCE_FUNCTIONS = {
    "gru_gates": "nnpnn" + 8 * "p" + "nn",
    "gru_gates_backward": "nnpppnnppnnppnpp",
    "attention_keys": "nnppp",
    "attention_step": 4 * "n" + 10 * "p",
    "attention_step_backward": 4 * "n" + 17 * "p" + "n",
    "softmax_loss": "nnpppnrnppp",
    "product": "nnnppnnp",
    "transpose": "nnpp",
}
"""The functions of sequence.cpp, for each of DTYPES, with the types of their parameters."""

DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float64: "fp64"}
"""The dtypes of factors and products, and the suffixes of the functions' names."""

_SEARCH = {
    "top_k_log_probs": "nnnppnnpp",
    "quantize_rows": "nnppp",
    "dequantize": "nnpppp",
    "additive_attention_step": 4 * "n" + 8 * "p",
}
_FUNCTIONS = {
    **{f"{name}_{d}": kinds for name, kinds in SEQUENCE_FUNCTIONS.items() for d in DTYPES.values()},
    **_SEARCH,
}
"""Every function with the types of its parameters; none returns a value."""

_KINDS = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "r": ctypes.c_double}
"""(p)ointer, integer (n)umber, (r)eal number."""


class Library(NamedTuple):
    """The functions of a loaded library, or a line that says why none was loaded.

    `variant` is the processor for which it was compiled: native, x86-64-v3, ...
    """

    functions: dict[str, Any]
    variant: str = ""
    why_not: str = ""


@functools.cache
def loaded_library() -> Library:
    """Return the library of this installation, loaded once per process."""
    return load(manifest.FOLDER)


def address(tensor: Tensor | None) -> int | None:
    """Return the address of a contiguous tensor, or None for None; C++ takes no strides."""
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()


def load(folder: Path) -> Library:
    """Load the best library in `folder` for this processor, or return why there is none."""
    try:
        content = json.loads((folder / manifest.NAME).read_text(encoding="utf-8"))
        if reason := content.get("why_not"):
            return Library({}, why_not=f"when nmt was installed, {reason}")
        if content["sources"] != manifest.source_digest():
            return Library({}, why_not="the C++ files have changed since they were compiled")
        flags = manifest.instruction_sets()
        for entry in content["libraries"]:
            if flags.issuperset(entry["requires"]):
                return _open(folder / entry["file"], entry["sha256"], entry["variant"])
        lack = ", ".join(sorted(set(content["libraries"][-1]["requires"]) - flags))
    except FileNotFoundError:
        return Library({}, why_not="it was not compiled for this copy of nmt")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return Library({}, why_not=f"{folder / manifest.NAME} cannot be read: {error!r}")
    return Library({}, why_not=f"compiled for other processors; this one lacks {lack}")


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
