"""The config.yaml of a run, under its checksum: what is not as it was written is known."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from nmt.atomic import write_text
from nmt.config import RunConfig, dump_config
from nmt.config_file import Override, parse_tree
from nmt.errors import CheckpointError
from nmt.yaml_nodes import read_text

_SEAL = "# sha256 of the lines below: "
"""With their checksum, the first line of a run's config.yaml: a comment to any reader of YAML."""


def sealed(text: str) -> str:
    """`text`, under its checksum."""
    return f"{_SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def load_sealed(path: Path, overrides: Sequence[Override] = ()) -> RunConfig:
    """`load_config` of a run's config.yaml; CheckpointError where it is not as it was written.

    Without the first line it is taken as it is: versions before had none, and who edits the file
    by hand takes the line away.
    """
    try:
        text = read_text(path, regular=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    head, _, below = text.partition("\n")
    if head.startswith(_SEAL) and sealed(below) != text:
        raise CheckpointError(
            f"{path}: changed since nmt wrote it; for other settings give them to the command "
            "(--set search.beam=3), or, to keep an edit by hand, delete the first line (the "
            "checksum)"
        )
    return parse_tree(text, path, overrides, RunConfig)


def write_sealed(path: Path, config: RunConfig) -> None:
    """Write a run's config.yaml atomically."""
    write_text(path, sealed(dump_config(config)))
