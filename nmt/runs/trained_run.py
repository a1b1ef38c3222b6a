"""Read access to a trained run: its config, tokenizers and models."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from nmt.config import RunConfig
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.models.base import Seq2Seq
from nmt.models.catalog import meta_model, uninitialised_model
from nmt.models.ensemble import Ensemble
from nmt.runs.builtin import resolve
from nmt.runs.checkpoint_files import Tensors
from nmt.runs.directory import RunDirectory
from nmt.runs.hub import download, is_hub_name
from nmt.runs.pack import unpack
from nmt.settings.config_file import Overrides, with_overrides
from nmt.storage.bounded import check_inside
from nmt.storage.tensor_file import MISFIT, Specs, canonical_names, check_specs, specs_of
from nmt.text.tokenizer import Tokenizers
from nmt.types import FilePath


@dataclass(frozen=True)
class LoadedModel:
    """A trained model with its tokenizers, its config and its step."""

    model: Seq2Seq
    tokenizers: Tokenizers
    config: RunConfig
    step: int


@dataclass(frozen=True)
class TrainedRun:
    """A run directory, opened for reading, and its config.

    `name` is the argument of `open`, for messages. `archive` is the file of a packed run, whose
    `directory` is temporary, or None if `open` got a folder.
    """

    directory: RunDirectory
    config: RunConfig
    name: str
    archive: Path | None = None

    @classmethod
    def open(cls, path: FilePath) -> "TrainedRun":
        """Open a run.

        `path` is a folder, a packed run (runs/pack.py), or the name of a built-in model or of a run
        on the Hub. Raises CheckpointError if there is no run or its config.yaml was edited, and
        ConfigError if the config is invalid.
        """
        name = str(Path(path))
        path = download(path) if is_hub_name(path) else resolve(Path(path))
        archive = path if path.is_file() else None
        with _naming(name, path):
            directory = RunDirectory(path if archive is None else unpack(archive))
        with _naming(name, directory.path):
            directory.check_exists()
            return cls(directory, directory.load_config(), name, archive)

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.directory.path

    def name_in_errors(self) -> contextlib.AbstractContextManager[None]:
        """Replace the path of the run directory, which may be temporary, by `name` in errors."""
        return _naming(self.name, self.path)

    def check_folder(self, reason: str) -> None:
        """Raise CheckpointError with `reason` if the run is packed and therefore lacks files."""
        if self.archive is not None:
            raise CheckpointError(f"{self.name}: {reason}")

    def with_config(self, overrides: Overrides) -> "TrainedRun":
        """Return the run with `overrides` in its config. Raises ConfigError if they are invalid."""
        return replace(self, config=with_overrides(self.config, overrides))

    def tokenizers(self) -> Tokenizers:
        """Load the tokenizers. Raises DataError if damaged, CheckpointError if outside the run."""
        with self.name_in_errors():
            check_inside(self.directory.tokenizer_path, self.path, CheckpointError)
            tokenizers = Tokenizers.load(self.directory.tokenizer_path)
        return replace(tokenizers, reverse_target=self.config.data.reverse_target)

    def load_model(self, checkpoint: str | int, device: torch.device) -> LoadedModel:
        """Load the model of a checkpoint, on `device` and in eval mode.

        `checkpoint` is best, last, step-000123, 123 or a name. Raises CheckpointError if a file is
        missing, damaged or does not fit the config, and DataError for invalid tokenizers.
        """
        tokenizers = self.tokenizers()
        step, tensors = self.load_tensors(checkpoint, tokenizers)
        sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
        model = uninitialised_model(self.config.model, *sizes)
        model.load_state_dict(tensors)
        return LoadedModel(model.to(device).eval(), tokenizers, self.config, step)

    def load_tensors(self, checkpoint: str | int, tokenizers: Tokenizers) -> tuple[int, Tensors]:
        """Return the step and the weights of a checkpoint.

        Raises CheckpointError if a file is missing or damaged, or if the weights do not fit the
        config and `tokenizers`.
        """
        sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
        try:
            weights = meta_model(self.config.model, *sizes).state_dict(keep_vars=True)
        except RuntimeError as error:  # the number of elements overflows
            problem = "no such model can be built: " + str(error).partition("\n")[0]
            raise CheckpointError(f"{self.name}: model: {problem}") from None
        folder = self.directory.checkpoint_folder
        with self.name_in_errors():
            step, tensors = folder.load_weights(str(checkpoint), _expected(weights))
        return step, {name: tensors[first] for name, first in canonical_names(weights).items()}


def load_models(
    runs: Sequence[TrainedRun],
    checkpoint: str | int,
    device: torch.device,
    weights: Sequence[float] | None = None,
) -> LoadedModel:
    """Load the model of a run, or an Ensemble of the models of several runs.

    The config and the step are of the first run. `weights` are as in Ensemble. Raises ConfigError
    if `runs` is empty, if vocabularies or directions of the runs differ, or if `weights` do not
    fit. Raises the errors of `TrainedRun.load_model`.
    """
    if not runs:
        raise ConfigError("run: got none, allowed: one, or several for an ensemble")
    models = [run.load_model(checkpoint, device) for run in runs]
    first = models[0]
    for run, other in zip(runs[1:], models[1:], strict=True):
        if other.tokenizers.reverse_target != first.tokenizers.reverse_target:
            raise ConfigError(
                f"{run.name}: its data.reverse_target differs from that of {runs[0].name}; "
                "rerank with it instead, since an ensemble writes in one direction"
            )
        for side in ("src", "tgt"):
            ours, theirs = getattr(first.tokenizers, side), getattr(other.tokenizers, side)
            if (ours.lang, ours.model_bytes) != (theirs.lang, theirs.model_bytes):
                raise ConfigError(
                    f"{run.name}: its {side} vocabulary differs from that of {runs[0].name}; "
                    "an ensemble needs runs with the same tokenizers"
                )
    if len(models) == 1 and weights is None:
        return first
    members = [member.model for member in models]
    ensemble = Ensemble(members, len(first.tokenizers.tgt.vocab), weights)
    return replace(first, model=ensemble.to(device).eval())


def check_fit(model: Seq2Seq, tensors: Tensors, where: str) -> None:
    """Raise CheckpointError unless `tensors` has the names, shapes and dtypes of `model`.

    The message begins with `where`.
    """
    expected = _expected(model.state_dict(keep_vars=True))
    check_specs(expected, specs_of(tensors), f"{where}: {MISFIT}")


@contextlib.contextmanager
def _naming(name: str, path: Path) -> Iterator[None]:
    """Replace `path` by `name` in errors."""
    try:
        yield
    except NMTError as error:
        raise type(error)(str(error).replace(str(path), name)) from error


def _expected(weights: Tensors) -> Specs:
    """Return the specs of the tensors that a checkpoint of the model must have."""
    specs = specs_of(weights)
    return {name: specs[name] for name in canonical_names(weights).values()}
