"""Forged runs: changed files with the right checksums, for the tests."""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from nmt.runs.directory import add_checksum

Change = Callable[[Any], object]
"""Changes a value in place."""


def write_state(path: Path, content: dict[str, Any]) -> None:
    """Write a state.json with the checksum of its content."""
    content = {key: value for key, value in content.items() if key != "seal"}
    text = json.dumps(content, sort_keys=True).encode()
    path.write_text(json.dumps({**content, "seal": hashlib.sha256(text).hexdigest()}))


def seal(checkpoint: Path, change: Change = lambda content: None) -> None:
    """Change state.json, and write it with the checksums of the present files beside it."""
    path = checkpoint / "state.json"
    content = json.loads(path.read_text())
    del content["seal"]
    for name in content["sha256"]:
        content["sha256"][name] = hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()
    change(content)
    write_state(path, content)


def forge_tensors(checkpoint: Path, name: str, change: Change) -> None:
    """Change the tensors, by name, of the checkpoint's file `name`.safetensors."""
    path = checkpoint / f"{name}.safetensors"
    tensors: dict[str, torch.Tensor] = safetensors.torch.load(path.read_bytes())
    change(tensors)
    path.write_bytes(safetensors.torch.save(tensors))
    seal(checkpoint)


def forge_config(run: Path, change: Callable[[str], str]) -> None:
    """Give the run's config.yaml another text, below its checksum."""
    path = run / "config.yaml"
    _, _, text = path.read_text().partition("\n")
    path.write_text(add_checksum(change(text)))


def forge_manifest(run: Path, **changes: object) -> None:
    path = run / "tokenizer" / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def overlapping_zip(path: Path, names: Sequence[str], content: bytes) -> None:
    """An archive whose members each hold the headers of the next ones, and `content` once."""
    body, places = content, []
    for name in reversed(names):
        member = zipfile.ZipInfo(name)
        member.file_size = member.compress_size = len(body)
        member.CRC = zlib.crc32(body)
        body = member.FileHeader(zip64=False) + body
        places.append((member, len(body)))
    with zipfile.ZipFile(path, "w") as archive:
        assert archive.fp is not None
        archive.fp.write(body)
        for member, from_end in places:
            member.header_offset = len(body) - from_end
            archive.filelist.append(member)
        archive.start_dir, archive._didModify = len(body), True  # type: ignore[attr-defined]
