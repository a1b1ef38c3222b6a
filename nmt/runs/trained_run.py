"""A trained run as its readers open it: its config, tokenizers and models."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from nmt.config import RunConfig
from nmt.errors import CheckpointError, ConfigError
from nmt.models.base import Seq2Seq
from nmt.models.catalog import meta_model, uninitialised_model
from nmt.models.ensemble import Ensemble
from nmt.runs.checkpoint_files import Tensors
from nmt.runs.directory import RunDirectory
from nmt.runs.pack import unpacked
from nmt.settings.config_file import Overrides, with_overrides
from nmt.storage.bounded import stay_inside
from nmt.storage.tensor_file import MISFIT, Specs, check_specs, first_names, specs_of
from nmt.text.tokenizer import Tokenizers
from nmt.types import FilePath


@dataclass(frozen=True)
class LoadedModel:
    """A trained model, with the tokenizers and the config that its users need."""

    model: Seq2Seq
    tokenizers: Tokenizers
    config: RunConfig
    step: int


@dataclass(frozen=True)
class TrainedRun:
    """A run directory whose config.yaml has been read, once. Nothing in it is changed."""

    directory: RunDirectory
    config: RunConfig

    @classmethod
    def open(cls, path: FilePath) -> "TrainedRun":
        """The run at `path`, a folder or a packed run (runs/pack.py).

        Raises CheckpointError if there is none, or if its config.yaml was changed; ConfigError if
        that is invalid.
        """
        path = Path(path)
        directory = RunDirectory(unpacked(path) if path.is_file() else path)
        directory.check_exists()
        return cls(directory, directory.load_config())

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.directory.path

    def with_config(self, overrides: Overrides) -> "TrainedRun":
        """The same run with some keys of its config changed; raises ConfigError."""
        return replace(self, config=with_overrides(self.config, overrides))

    def tokenizers(self) -> Tokenizers:
        """The tokenizers of both sides. Raises DataError, or CheckpointError for a link."""
        stay_inside(self.directory.tokenizer_path, self.path, CheckpointError)
        return Tokenizers.load(self.directory.tokenizer_path)

    def load_model(self, checkpoint: str | int, device: torch.device) -> LoadedModel:
        """The model of a checkpoint, on `device` and in eval mode.

        `checkpoint` is best, last, step-000123 or the number. Raises CheckpointError for a file
        that is missing, damaged or does not fit the config; DataError for the tokenizers.
        """
        tokenizers = self.tokenizers()
        step, tensors = self.load_tensors(checkpoint, tokenizers)
        model = uninitialised_model(
            self.config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
        )
        model.load_state_dict(tensors)
        return LoadedModel(model.to(device).eval(), tokenizers, self.config, step)

    def load_tensors(self, checkpoint: str | int, tokenizers: Tokenizers) -> tuple[int, Tensors]:
        """The step and the weights of a checkpoint, which fit the config and the tokenizers.

        Raises CheckpointError as `load_model` does.
        """
        sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
        try:
            weights = meta_model(self.config.model, *sizes).state_dict(keep_vars=True)
        except RuntimeError as error:  # more numbers than can be counted
            reason = str(error).partition("\n")[0]
            raise CheckpointError(
                f"{self.directory.config_path}: model: no such model can be built: {reason}"
            ) from None
        folder = self.directory.checkpoint_folder
        step, tensors = folder.load_weights(str(checkpoint), _expected(weights))
        return step, {name: tensors[first] for name, first in first_names(weights).items()}


def load_models(
    runs: Sequence[TrainedRun],
    checkpoint: str | int,
    device: torch.device,
    weights: Sequence[float] | None = None,
) -> LoadedModel:
    """The model of a run, or the Ensemble of several; config and step are those of the first.

    `weights` are as in Ensemble. Raises what `TrainedRun.load_model` raises, and ConfigError for
    no run, runs whose vocabularies differ, or weights that do not fit.
    """
    if not runs:
        raise ConfigError("run: got none, allowed: one, or several for an ensemble")
    loaded = [run.load_model(checkpoint, device) for run in runs]
    first = loaded[0]
    for run, other in zip(runs[1:], loaded[1:], strict=True):
        for side in ("src", "tgt"):
            ours, theirs = getattr(first.tokenizers, side), getattr(other.tokenizers, side)
            if (ours.lang, ours.model_bytes) != (theirs.lang, theirs.model_bytes):
                raise ConfigError(
                    f"{run.path}: its {side} vocabulary is another than that of {runs[0].path}; "
                    "an ensemble needs runs with the same tokenizers"
                )
    if len(loaded) == 1 and weights is None:
        return first
    members = [member.model for member in loaded]
    ensemble = Ensemble(members, len(first.tokenizers.tgt.vocab), weights)
    return replace(first, model=ensemble.to(device).eval())


def check_fit(model: Seq2Seq, tensors: Tensors, where: str) -> None:
    """Raise CheckpointError unless all names, shapes and number formats are those of the model.

    `where` begins the message.
    """
    expected = _expected(model.state_dict(keep_vars=True))
    check_specs(expected, specs_of(tensors), f"{where}: {MISFIT}")


def _expected(weights: Tensors) -> Specs:
    """The specs of a model's tensors in its checkpoint."""
    specs = specs_of(weights)
    return {name: specs[name] for name in first_names(weights).values()}
