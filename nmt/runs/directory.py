"""The run directory: a self-contained folder with all results of a training, which can be copied.

runs/NAME/config.yaml   the resolved config        run.json       versions, command, hardware
          tokenizer/    the tokenizers             metrics.jsonl, train.log
          checkpoints/step-000123/                 checkpoints/labels.json: best and last
          samples/step-000123.jsonl                translations of a validation, with attention
          pairs/                   the texts of a training from pairs in memory
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from nmt.config import RunConfig, dump_config
from nmt.errors import CheckpointError, ConfigError
from nmt.runs.checkpoints import CheckpointFolder
from nmt.settings.config_file import load_plugins, load_text
from nmt.settings.yaml_text import read_text
from nmt.storage.atomic import flush, remove_leftovers, write_text
from nmt.storage.bounded import check_inside, read_json

CONFIDENCE = "confidence.json"  # evaluation/confidence.py
_CHECKSUM_PREFIX = "# sha256 of the lines below: "
"""The start of the first line of a run's config.yaml, a YAML comment with the checksum."""


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run, its config and its checkpoints."""

    path: Path

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> "RunDirectory":
        """Create a run at `path` with a config.yaml and no checkpoints."""
        run = cls(path)
        run.checkpoint_folder.path.mkdir(parents=True, exist_ok=True)
        run.write_config(config)
        flush(path.parent)
        return run

    def clear_leftovers(self) -> None:
        """Remove the temporary files of killed processes. The caller must hold the run's lock."""
        for folder in map(self.path.joinpath, (".", "pairs", "tokenizer", "samples")):
            remove_leftovers(folder)
        self.checkpoint_folder.clear_leftovers()

    @property
    def exists(self) -> bool:
        """Whether the folder has a config.yaml, as every run has."""
        return self.config_path.is_file()

    def check_exists(self) -> None:
        """Raise CheckpointError unless the run exists."""
        if not self.path.exists():
            raise CheckpointError(f"{self.path}: no such folder")
        if not self.exists:
            raise CheckpointError(f"{self.path}: not a run: it has no config.yaml")

    @property
    def config_path(self) -> Path:
        """The file with the resolved config."""
        return self.path / "config.yaml"

    @property
    def tokenizer_path(self) -> Path:
        """The folder of the tokenizers."""
        return self.path / "tokenizer"

    @property
    def checkpoint_folder(self) -> CheckpointFolder:
        """The folder of the checkpoints."""
        return CheckpointFolder(self.path / "checkpoints")

    def load_config(self) -> RunConfig:
        """Read config.yaml.

        Raises CheckpointError if it does not match its checksum or is a link out of the run, and
        ConfigError if it is invalid. A user can delete the checksum line and edit the file.
        """
        path = self.config_path
        check_inside(path, self.path, CheckpointError)
        try:
            text = read_text(path, regular=True)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file") from None
        head, _, below = text.partition("\n")
        is_written = head.startswith(_CHECKSUM_PREFIX)
        if is_written and add_checksum(below) != text:
            raise CheckpointError(
                f"{path}: changed since nmt wrote it; give other settings to the command "
                "(`search.beam=3`), or delete the first line, the checksum, to keep the edit"
            )
        load_plugins()  # so that a faulty one is not reported as a fault of the run
        try:
            return load_text(text, path, (), RunConfig)
        except ConfigError as error:
            if not is_written:
                raise
            needs = "another version of nmt, or a package that registers its kinds"
            raise ConfigError(f"{error}; the run needs {needs}") from None

    def write_config(self, config: RunConfig) -> None:
        """Write config.yaml with a checksum in its first line."""
        write_text(self.config_path, add_checksum(dump_config(config)))

    def read_json(self, name: str) -> object:
        """Read the JSON file `name`. Raises CheckpointError if it is missing or damaged."""
        path = self.path / name
        try:
            return read_json(path, CheckpointError)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file") from None


def add_checksum(text: str) -> str:
    """Return `text` below a line with its checksum."""
    return f"{_CHECKSUM_PREFIX}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"
