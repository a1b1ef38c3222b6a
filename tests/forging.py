"""Forging a run: changes that have the right checksums and the right seal."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

Change = Callable[[Any], object]
"""Changes a value in place."""


def seal(checkpoint: Path, change: Change = lambda content: None) -> None:
    """Change state.json, and write it with checksums of what now lies beside it."""
    path = checkpoint / "state.json"
    content = json.loads(path.read_text())
    content.pop("seal", None)
    for name in content["sha256"]:
        content["sha256"][name] = hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()
    change(content)
    text = json.dumps(content, sort_keys=True).encode()
    path.write_text(json.dumps({**content, "seal": hashlib.sha256(text).hexdigest()}))


def forge_tensors(checkpoint: Path, name: str, change: Change) -> None:
    """Change the tensors, by name, of one of the checkpoint's files."""
    path = checkpoint / f"{name}.safetensors"
    tensors: dict[str, torch.Tensor] = safetensors.torch.load(path.read_bytes())
    change(tensors)
    path.write_bytes(safetensors.torch.save(tensors))
    seal(checkpoint)
