"""The run directory: all that a run made, in one folder that can be copied and still translates.

runs/NAME/config.yaml   the resolved config        run.json       versions, command, hardware
          tokenizer/    the tokenizers             metrics.jsonl, train.log
          checkpoints/step-000123/                 best, last -> relative links
"""

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.storage.atomic import flush, remove_leftovers, write_json
from nmt.storage.bounded import read_json, stay_inside
from nmt.runs.checkpoint_files import Tensors
from nmt.runs.checkpoints import CheckpointFolder, CheckpointState
from nmt.config import RunConfig
from nmt.settings.config_file import Override
from nmt.text.tokenizer import Tokenizers
from nmt.errors import CheckpointError
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, bare_model
from nmt.runs.sealed_config import load_sealed, write_sealed
from nmt.types import FilePath
from nmt.storage.tensor_file import Specs, specs_of


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run and the ways to write them whole."""

    path: Path

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> "RunDirectory":
        """A new run at `path` with its config.yaml; CheckpointError if there is one already."""
        run = cls(path)
        if run.exists:
            raise CheckpointError(f"{path}: a run is here already")
        try:
            run.checkpoint_folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be created: {error.strerror}") from None
        run.write_config(config)
        flush(path.parent)
        return run

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """The run at `path`, cleared of what killed writes left. For its one writer, who holds
        the lock: reading goes through `load_model`, which changes nothing.
        """
        run = cls(path)
        run.check_exists()
        for folder in (run.path, run.tokenizer_path):
            remove_leftovers(folder)
        run.checkpoint_folder.path.mkdir(exist_ok=True)
        run.checkpoint_folder.clear_leftovers()
        return run

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

    @property
    def own_files(self) -> list[Path]:
        """All that is in the run but its evaluations: what no other output may replace."""
        tops = [path for path in self.path.iterdir() if path.name != "eval"]
        return [path for top in tops for path in (top, *top.rglob("*"))]

    def load_config(self, overrides: Sequence[Override] = ()) -> RunConfig:
        """The config of the run, with `overrides` on top (see load_config).

        Raises CheckpointError where its file was changed since, or lies outside of the run.
        """
        stay_inside(self.config_path, self.path, CheckpointError)
        return load_sealed(self.config_path, overrides)

    def write_config(self, config: RunConfig) -> None:
        """Write config.yaml, with its checksum."""
        write_sealed(self.config_path, config)

    def write_json(self, name: str, value: object) -> None:
        """Write the run's file `name` atomically."""
        write_json(self.path / name, value)

    def read_json(self, name: str) -> object:
        """The content of the run's file `name`; CheckpointError if it is missing or damaged."""
        path = self.path / name
        try:
            return read_json(path, CheckpointError)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file") from None

    def save_checkpoint(
        self, step: int, model_tensors: Tensors, state_tensors: Tensors, state: Mapping[str, object]
    ) -> Path:
        """See CheckpointFolder.save; follow it by `point("last", step)`."""
        return self.checkpoint_folder.save(step, model_tensors, state_tensors, state)

    def point(self, label: str, step: int) -> None:
        """Make `best` or `last` mean the checkpoint of `step`."""
        self.checkpoint_folder.point(label, step)

    def prune(self, keep: Iterable[int]) -> None:
        """Delete all checkpoints but those of the steps `keep`, and best and last."""
        self.checkpoint_folder.prune(keep)

    def load_state(self, which: str = "last") -> CheckpointState:
        """All that training needs to go on from a checkpoint."""
        return self.checkpoint_folder.load(which)


@dataclass(frozen=True)
class LoadedModel:
    """A trained model with all that is needed to give it text."""

    model: Seq2Seq
    tokenizers: Tokenizers
    config: RunConfig
    step: int


def load_model(run: FilePath, checkpoint: str | int, device: torch.device) -> LoadedModel:
    """The model of a run, on `device` and in eval mode.

    `checkpoint` is best, last, step-000123 or the number. Raises CheckpointError for a file that
    is missing, damaged or does not fit the config; DataError for the tokenizer's files.
    """
    directory = RunDirectory(Path(run))
    directory.check_exists()
    config = directory.load_config()
    folder = directory.checkpoint_folder.find(str(checkpoint))
    stay_inside(directory.tokenizer_path, directory.path, CheckpointError)
    tokenizers = Tokenizers.load(directory.tokenizer_path)
    sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
    expected, ties = _specs_of_model(config.model, sizes, directory.config_path)

    def fits(specs: Specs, twins: Mapping[str, str]) -> None:
        _compare(expected, specs, str(folder))
        for name, twin in twins.items():
            if ties[name] != ties[twin]:
                raise CheckpointError(
                    f"{folder}: does not fit config.yaml: its {name} and {twin} are one tensor, "
                    "and two in the model"
                )

    step, tensors = directory.checkpoint_folder.load_weights(str(checkpoint), fits)
    model = bare_model(config.model, *sizes)
    model.load_state_dict(tensors)
    return LoadedModel(model.to(device).eval(), tokenizers, config, step)


def check_fit(model: Seq2Seq, tensors: Tensors, where: str) -> None:
    """Raise CheckpointError unless every name, shape and number format agrees with the model's.

    `where` says in the message whose tensors they are.
    """
    _compare(specs_of(model.state_dict()), specs_of(tensors), where)


def _specs_of_model(
    config: ModelConfig, sizes: tuple[int, int], where: Path
) -> tuple[Specs, dict[str, int]]:
    """What the weights of a model must be, known without any memory for them.

    Names with the same number are one tensor, as tied weights are.
    """
    try:
        with torch.device("meta"):
            weights = config.build(*sizes).state_dict(keep_vars=True)
    except RuntimeError as error:  # more numbers than can be counted
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{where}: model: no such model can be built: {reason}") from None
    return specs_of(weights), {name: id(weight) for name, weight in weights.items()}


def _compare(expected: Specs, got: Specs, where: str) -> None:
    problems = [
        *(f"lacks {name}" for name in expected.keys() - got.keys()),
        *(f"has {name[:99]!r}, which the model does not" for name in got.keys() - expected.keys()),
        *(
            f"{name}: got {got[name]}, allowed: {expected[name]}"
            for name in expected.keys() & got.keys()
            if got[name] != expected[name]
        ),
    ]
    if problems:
        first, more = sorted(problems)[0], len(problems) - 1
        raise CheckpointError(
            f"{where}: does not fit config.yaml and tokenizer: {first}"
            + (f" (and {more} more)" if more else "")
        )


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def find_run(
    run: Path | None, root: Path = Path("runs"), say: Callable[[str], None] = _to_stderr
) -> Path:
    """The run to use: `run` if given, else the one under `root` with the newest checkpoint.

    One under `root` that cannot be read is left out, and `say` is told so. Raises
    CheckpointError where there is none, naming the nearest.
    """
    if run is not None:
        if not run.is_dir():
            near = _nearest(run, [*_folders(run.parent), *_folders(root)])
            hint = f"; did you mean '{near}'?" if near else ""
            raise CheckpointError(f"{run}: no such run{hint}")
        RunDirectory(run).check_exists()
        if _last_saved(run) is None:
            raise CheckpointError(f"{run}: this run has no checkpoint yet; train it further")
        return run
    if not root.is_dir():
        raise CheckpointError(
            f"no --run given and no folder '{root}' here; train a model first: "
            "nmt train --config starter"
        )
    saved = {}
    for path in _folders(root):
        try:
            if RunDirectory(path).exists:
                saved[path] = _last_saved(path)
        except OSError as error:
            say(f"note: {path}: left out: cannot be read: {error.strerror}")
    found = {path: seconds for path, seconds in saved.items() if seconds is not None}
    if not found:
        raise CheckpointError(
            f"no --run given and none of the {len(saved)} runs in '{root}' has a checkpoint yet"
        )
    return max(found, key=lambda path: found[path])


def _nearest(path: Path, others: list[Path]) -> Path | None:
    """The one of `others` whose name, or whose whole path, is most like that of `path`."""
    for by_text in ({p.name: p for p in others}, {str(p): p for p in others}):
        text = path.name if path.name in by_text else str(path)
        found = difflib.get_close_matches(text, list(by_text), n=1, cutoff=0.5)
        if found:
            return by_text[found[0]]
    return None


def _folders(parent: Path) -> list[Path]:
    return sorted(p for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []


def _last_saved(run: Path) -> float | None:
    """When the newest checkpoint was written, in seconds of the epoch; None without any."""
    folder = RunDirectory(run).checkpoint_folder
    files = [folder.path / f"step-{step:06d}" / "state.json" for step in folder.steps()]
    return max((file.stat().st_mtime for file in files if file.is_file()), default=None)
