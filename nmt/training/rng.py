"""Seed the random generators; save and restore the state of torch's generators.

Initial weights, dropout and sampled attention use torch's generators.
Batch order, mixtures, noise and sampled pieces use separate generators, derived from the seed, the
epoch and the row (batches/plan.py, batches/resampling.py). Nothing else in training is random.
"""

import random
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def seed_all(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch, on every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def pack_rng(device: torch.device) -> dict[str, Tensor]:
    """Return the states of torch's generators for the CPU and for `device`."""
    tensors = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        tensors["mps"] = torch.mps.get_rng_state()
    return tensors


def restore_rng(tensors: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states that `pack_rng` returned. A device without a saved state is unchanged."""
    torch.set_rng_state(tensors["cpu"].cpu())
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"].cpu(), device)
    elif device.type == "mps" and "mps" in tensors:
        torch.mps.set_rng_state(tensors["mps"].cpu())
