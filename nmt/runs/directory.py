"""The run directory: one folder with all that a run made, which can be copied elsewhere.

runs/NAME/config.yaml   the resolved config        run.json       versions, command, hardware
          tokenizer/    the tokenizers             metrics.jsonl, train.log
          checkpoints/step-000123/                 checkpoints/labels.json: best and last
          samples/step-000123.jsonl                translations of a validation, with attention
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from nmt.config import RunConfig, dump_config
from nmt.errors import CheckpointError
from nmt.runs.checkpoints import CheckpointFolder
from nmt.settings.config_file import load_text
from nmt.settings.yaml_text import read_text
from nmt.storage.atomic import flush, remove_leftovers, write_text
from nmt.storage.bounded import read_json, stay_inside

_SEAL = "# sha256 of the lines below: "
"""The first line of a run's config.yaml, before the checksum: a comment in YAML."""


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run, its config and its checkpoints."""

    path: Path

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> "RunDirectory":
        """A run at `path` with its config.yaml and no checkpoint yet."""
        run = cls(path)
        run.checkpoint_folder.path.mkdir(parents=True, exist_ok=True)
        run.write_config(config)
        flush(path.parent)
        return run

    def clear_leftovers(self) -> None:
        """Remove what killed writes have left; the caller holds the run's lock."""
        for folder in (self.path, self.tokenizer_path, self.path / "samples"):
            remove_leftovers(folder)
        self.checkpoint_folder.clear_leftovers()

    @property
    def exists(self) -> bool:
        """Whether a run is here."""
        return self.config_path.is_file()

    def check_exists(self) -> None:
        """Raise CheckpointError unless a run is here."""
        if not self.path.exists():
            raise CheckpointError(f"{self.path}: no such folder")
        if not self.exists:
            raise CheckpointError(f"{self.path}: not a run: it has no config.yaml")

    @property
    def config_path(self) -> Path:
        """The resolved config."""
        return self.path / "config.yaml"

    @property
    def tokenizer_path(self) -> Path:
        """The folder of the tokenizers."""
        return self.path / "tokenizer"

    @property
    def checkpoint_folder(self) -> CheckpointFolder:
        """The checkpoints."""
        return CheckpointFolder(self.path / "checkpoints")

    def load_config(self) -> RunConfig:
        """The config of the run.

        Raises CheckpointError if config.yaml was changed, or is a link out of the run.
        """
        stay_inside(self.config_path, self.path, CheckpointError)
        return load_sealed(self.config_path)

    def write_config(self, config: RunConfig) -> None:
        """Write config.yaml, with its checksum."""
        write_text(self.config_path, sealed(dump_config(config)))

    def read_json(self, name: str) -> object:
        """The content of the run's file `name`; CheckpointError if it is missing or damaged."""
        path = self.path / name
        try:
            return read_json(path, CheckpointError)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file") from None


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
