"""The config.yaml of a run, whose first line is a checksum that reveals any change."""

import hashlib
from pathlib import Path

from nmt.config import RunConfig, dump_config
from nmt.errors import CheckpointError
from nmt.settings.config_file import load_text
from nmt.settings.yaml_text import read_text
from nmt.storage.atomic import write_text

_SEAL = "# sha256 of the lines below: "
"""The first line of a run's config.yaml, before the checksum: a comment in YAML."""


def sealed(text: str) -> str:
    """`text` after a line with its checksum."""
    return f"{_SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def load_sealed(path: Path) -> RunConfig:
    """The config in a run's config.yaml; CheckpointError if the file was changed since.

    A file without the first line is not checked: a user who edits the file deletes that line.
    """
    try:
        text = read_text(path, regular=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    head, _, below = text.partition("\n")
    if head.startswith(_SEAL) and sealed(below) != text:
        raise CheckpointError(
            f"{path}: changed since nmt wrote it; give other settings to the command "
            "(`search.beam=3`), or delete the first line, the checksum, to keep the edit"
        )
    return load_text(text, path, (), RunConfig)


def write_sealed(path: Path, config: RunConfig) -> None:
    """Write a run's config.yaml atomically."""
    write_text(path, sealed(dump_config(config)))
