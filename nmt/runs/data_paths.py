"""The files of a run's config, found also by a command that starts in another folder."""

import glob
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from nmt.config import RunConfig
from nmt.corpora.text_files import archive_of
from nmt.errors import CheckpointError
from nmt.runs.card import CARD
from nmt.runs.directory import RunDirectory
from nmt.settings.base import Config

_Config = TypeVar("_Config", bound=Config)


def with_found_paths(config: RunConfig, run: RunDirectory) -> RunConfig:
    """`config`, its relative paths made absolute where nothing is here but something is there.

    Here is the current folder; there is the folder in which the run was begun, as run.json has it.
    A config of which all paths are found here, or none there, stays as it is.
    """
    begun_in = _folder_of(run)
    return config if begun_in is None else _found(config, begun_in)


def _folder_of(run: RunDirectory) -> Path | None:
    """The folder in which a run was begun; None where it is not known, or the current one."""
    try:
        card = run.read_json(CARD)
    except CheckpointError:  # what needs the card says so
        return None
    folder = card.get("folder") if isinstance(card, dict) else None
    if not isinstance(folder, str) or not os.path.isabs(folder) or folder == os.getcwd():
        return None
    return Path(folder)


def _found(config: _Config, folder: Path) -> _Config:
    changed = {}
    for name, value in config:
        new = _found_value(value, folder)
        if new != value:
            changed[name] = new
    return config.model_copy(update=changed) if changed else config


def _found_value(value: object, folder: Path) -> object:
    if isinstance(value, Path):
        is_elsewhere = not value.is_absolute() and not _exists(value) and _exists(folder / value)
        return folder / value if is_elsewhere else value
    if isinstance(value, Config):
        return _found(value, folder)
    if isinstance(value, tuple):
        return tuple(_found_value(item, folder) for item in value)
    if isinstance(value, Mapping):
        return {key: _found_value(item, folder) for key, item in value.items()}
    return value


def _exists(path: Path) -> bool:
    """Whether a file, a folder, the archive of a member or what a wildcard stands for is there."""
    try:
        return archive_of(path).exists() or any(glob.iglob(str(path)))
    except (OSError, ValueError):  # a name too long, a folder that may not be searched
        return False
