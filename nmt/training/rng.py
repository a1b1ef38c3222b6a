"""The global random generators of Python, NumPy and torch: seeded together, saved and restored.

The order of batches, noise and sampled pieces have generators of their own, made from the seed, the
epoch and the row (data/epoch_plan.py, data/resampling.py). Nothing else in training is random.
"""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmt.errors import CheckpointError

Json = dict[str, Any]

N_WORDS = 624
"""Words of 32 bits in the state of a Mersenne Twister, beside its position in them."""


def seed_all(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch, on every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def torch_rng(device: torch.device) -> dict[str, Tensor]:
    """The state of torch's generators: of the CPU, and of `device`.

    An update draws from no others. This takes microseconds, `pack_rng` tenths of a millisecond.
    """
    tensors = {"rng.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        tensors["rng.cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        tensors["rng.mps"] = torch.mps.get_rng_state()
    return tensors


def set_torch_rng(tensors: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore what `torch_rng` gave. A device without a saved state keeps its seed."""
    torch.set_rng_state(tensors["rng.cpu"].cpu())
    if device.type == "cuda" and "rng.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["rng.cuda"].cpu(), device)
    elif device.type == "mps" and "rng.mps" in tensors:
        torch.mps.set_rng_state(tensors["rng.mps"].cpu())


def pack_rng(device: torch.device) -> tuple[dict[str, Tensor], Json]:
    """The state of all generators of the CPU and of `device`: tensors, and numbers for JSON."""
    _, words, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    assert isinstance(numpy_state, dict)
    tensors = {
        **torch_rng(device),
        "rng.python": torch.tensor(words, dtype=torch.int64),
        "rng.numpy": torch.from_numpy(numpy_state["state"]["key"].astype(np.int64)),
    }
    numbers = {
        "python_gauss": gauss,
        "numpy_position": numpy_state["state"]["pos"],
        "numpy_gauss": [numpy_state["has_gauss"], numpy_state["gauss"]],
    }
    return tensors, numbers


def check_rng(tensors: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError for a word or position out of range, which NumPy does not check."""
    python = tensors["rng.python"]
    for name, words in (("rng.python", python[:-1]), ("rng.numpy", tensors["rng.numpy"])):
        if int(words.min()) < 0 or int(words.max()) >= 2**32:
            raise CheckpointError(f"'{name}': not all of its numbers are words of 32 bits")
    if not 0 <= int(python[-1]) <= N_WORDS:
        raise CheckpointError(f"'rng.python': got place {int(python[-1])}, allowed: 0 to {N_WORDS}")


def unpack_rng(tensors: Mapping[str, Tensor], numbers: Json, device: torch.device) -> None:
    """Restore what `pack_rng` gave.

    Raises RuntimeError for a malformed state of torch. `check_rng` checks the other generators.
    """
    set_torch_rng(tensors, device)
    words = tuple(tensors["rng.python"].tolist())
    random.setstate((3, words, numbers["python_gauss"]))
    has_gauss, gauss = numbers["numpy_gauss"]
    state = {"key": tensors["rng.numpy"].numpy(), "pos": numbers["numpy_position"]}
    np.random.set_state(
        {"bit_generator": "MT19937", "state": state, "has_gauss": has_gauss, "gauss": gauss}
    )
