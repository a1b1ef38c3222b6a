"""Weights of a module from a safetensors file that must fit it."""

from pathlib import Path

import safetensors.torch
from torch import nn

from nmt.errors import DataError
from nmt.storage.tensor_file import Specs, check_finite, read_checked, specs_of

_COUNTER = "num_batches_tracked"
"""Batch normalisation's count of batches: older files have none, and eval mode reads none."""


def load_weights(module: nn.Module, path: Path, what: str, ignored: tuple[str, ...] = ()) -> None:
    """Load the file into `module`: names and shapes must agree.

    Tensors of the children `ignored`, which the module lacks, are not read. Raises DataError for a
    file that is missing, damaged, or not `what`, before any weight changes.
    """
    expected = {k: v for k, v in specs_of(module.state_dict()).items() if _COUNTER not in k}

    def fits(found: Specs) -> None:
        own = {k: v for k, v in found.items() if k.split(".")[0] not in ignored}
        wrong = [
            *(f"it lacks {name}" for name in expected if name not in own),
            *(f"it has {k[:99]!r}" for k in own if k not in expected and _COUNTER not in k),
            *(
                f"{name}: got {own[name].shape}, allowed: {spec.shape}"
                for name, spec in expected.items()
                if name in own and own[name].shape != spec.shape
            ),
        ]
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise DataError(f"{path}: not {what}: {wrong[0]}{more}")

    try:
        tensors = safetensors.torch.load(read_checked(path, {}, fits, DataError))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    chosen = {name: tensor for name, tensor in tensors.items() if name in expected}
    check_finite(chosen, str(path), DataError)
    module.load_state_dict(chosen, strict=False)
