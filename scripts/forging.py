"""Forged runs: changed files with the right checksums, for the tests and attack scripts."""

import gzip
import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from nmt.runs.directory import sealed

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
    path.write_text(sealed(change(text)))


def forge_manifest(run: Path, **changes: object) -> None:
    """Change keys of the run's tokenizer.json."""
    path = run / "tokenizer" / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def forge_vocabulary(run: Path, side: str, content: bytes) -> None:
    """Give a side of a word tokenizer, src or tgt, another vocabulary."""
    name = f"{side}.vocab.txt"
    (run / "tokenizer" / name).write_bytes(content)
    forge_manifest(run, **{side: {"name": name, "sha256": hashlib.sha256(content).hexdigest()}})


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


def bomb(name: str) -> Callable[[], object]:
    """Write a hundred megabytes of equal lines, packed."""

    def make() -> None:
        line = b"a\tb" + b" " * 10_000_000 + b"\n"
        if name.endswith(".gz"):
            with gzip.open(name, "wb", compresslevel=1) as file:
                for _ in range(10):
                    file.write(line)
        else:
            with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                archive.writestr("a.tsv", line * 10)

    return make


def billion_words() -> str:
    """Return a YAML file whose aliases expand to a billion words."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for old, new in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]")
    return "\n".join(lines)
