"""Open a run directory for training: create a run, or continue it from its last checkpoint."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path

from nmt.config import RunConfig
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.runs.card import CARD, run_card
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import LOCK_NAME
from nmt.settings.keys import differences
from nmt.storage.atomic import ASIDE, write_json
from nmt.storage.bounded import read_json, section
from nmt.storage.run_files import check_outside_runs, check_tree
from nmt.text.tokenizer import MANIFEST_NAME
from nmt.training.progress import Progress


class Verdict(Enum):
    """Whether a run can continue after a config key changed. The values are texts for messages."""

    SAFE = "may change"
    ASK = "needs `allow_change`: the results then come from two configurations"
    NEVER = "cannot change: use another `run`, or the old value"


_SAFE = (
    "name",
    "data.folder",
    "data.cache",
    "data.test",
    # Data files may have moved: their content is checked.
    *(f"data.{split}.{side}" for split in ("train", "valid") for side in ("file", "src", "tgt")),
    "train.loss.links",
    *(f"train.{key}" for key in ("epochs", "steps", "max_minutes", "device", "deterministic")),
    *(f"train.{key}" for key in ("log_every", "save_every", "keep_last", "keep_best")),
    *(f"valid.{key}" for key in ("samples", "attention_health", "patience")),
    # The other keys of search affect validation, and with it the choice of the best checkpoint.
    *(f"search.{key}" for key in ("beam", "n_best", "batch_size", "sampling", "mbr")),
    *(f"search.{key}" for key in ("keep_numbers", "correct_spelling")),
)
"""Keys that affect no update: file paths, length of the run, logging, checkpoints, device."""

_ASK = (
    *(f"data.{key}" for key in ("noise", "sampling")),
    *(f"train.{key}" for key in ("lr", "optimizer", "schedule", "clip_norm", "loss", "precision")),
    *(f"train.{key}" for key in ("batch_by", "batch_size", "accumulate")),
    *(f"valid.{key}" for key in ("every", "beam", "max_examples", "bleu_tokenize")),
    "search",
)
"""Keys that change later updates, or make later scores incomparable with earlier scores."""


@dataclass(frozen=True)
class Change:
    """A config key whose new value differs from the value in the run so far."""

    key: str
    old: object
    new: object
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.key}: {self.old} -> {self.new}"


def config_changes(old: RunConfig, new: RunConfig, step: int = 0) -> list[Change]:
    """Return the changed keys with their verdicts after `step` updates, in the order of the config.

    Keys in neither _SAFE nor _ASK, such as the corpus or model sizes, cannot change. Dropout and
    stages that have not begun are exceptions, with verdict ASK.
    """
    stages = Verdict.ASK if _begun_stages(old, step) == _begun_stages(new, step) else Verdict.NEVER
    return [
        Change(key, before, after, stages if key == "data.stages" else _verdict(key, new))
        for key, before, after in differences(old.model_dump(), new.model_dump())
    ]


def _verdict(key: str, new: RunConfig) -> Verdict:
    if key in ("train.epochs", "train.steps") and new.train.schedule.kind == "cosine":
        return Verdict.ASK  # a cosine schedule depends on the number of updates
    if _is_under(key, _SAFE):
        return Verdict.SAFE
    section, _, last = key.rpartition(".")
    if last in ("kind", "metric"):
        return Verdict.NEVER
    is_dropout = section.startswith("model") and last.endswith("dropout")
    return Verdict.ASK if is_dropout or _is_under(key, _ASK) else Verdict.NEVER


def _begun_stages(config: RunConfig, step: int) -> list[object]:
    """Return the start and the mixture of each begun stage, which determine the epochs so far."""
    stages = config.data.stages[: config.data.stage_at(step)]
    return [(stage.from_step, stage.weights) for stage in stages]


def _is_under(key: str, prefixes: Sequence[str]) -> bool:
    return any(f"{key}.".startswith(f"{prefix}.") for prefix in prefixes)


def open_run(
    folder: Path,
    config: RunConfig,
    command: Sequence[str],
    data_files: Mapping[Path, str],
    hardware: Mapping[str, str],
    allow_change: bool = False,
) -> Sequence[Change]:
    """Create the run at `folder`, or open it if it has a checkpoint. Return its config changes.

    `data_files` maps data files to their sha256. A run without a checkpoint starts again with
    `config`, and the old config does not matter. If the run has a checkpoint, config.yaml is
    updated. Raises ConfigError, listing all changes, if the verdict of one is NEVER, or ASK without
    `allow_change`. Raises DataError if a data file changed, and CheckpointError if the run contains
    a link or is damaged.
    """
    check_tree(folder)
    run = RunDirectory(folder)
    run.clear_leftovers()
    if not has_checkpoint(run):
        if run.exists:
            run.load_config()  # raises if config.yaml was edited by hand
        # The card comes first: a config.yaml without a card is taken for a file of the user.
        write_json(run.path / CARD, run_card(config, command, data_files, hardware))
        RunDirectory.create(folder, config)
        return ()
    changes = config_changes(run.load_config(), config, max(run.checkpoint_folder.steps()))
    allowed = (Verdict.SAFE, Verdict.ASK) if allow_change else (Verdict.SAFE,)
    if any(change.verdict not in allowed for change in changes):
        lines = [f"{folder}: this run was begun with another configuration:"]
        lines += [f"  {change} ({change.verdict.value})" for change in changes]
        raise ConfigError("\n".join(lines))
    _check_data(run, data_files)
    if changes:
        run.write_config(config)
    return changes


def check_run_folder(folder: Path) -> None:
    """Raise CheckpointError if `folder` is not a run and cannot become one.

    A run has a checkpoint, or a run.json written by nmt. A folder can become a run if it is missing
    or empty, or has only a tokenizer and the files of a training that was killed before it wrote
    run.json. Raises ConfigError if `folder` is inside a folder that nmt writes in another run.
    """
    check_outside_runs(folder, "`run`")
    if not folder.is_dir() or has_checkpoint(RunDirectory(folder)):
        return
    names = {path.name for path in folder.iterdir()}
    if CARD in names:
        with contextlib.suppress(CheckpointError, FileNotFoundError):
            if "nmt" in section(read_json(folder / CARD, CheckpointError), "versions"):
                return
        raise CheckpointError(f"{folder}: not a run: {CARD} is not nmt's; name another `run`")
    allowed = {LOCK_NAME, "pairs", *(f"{ASIDE}{name}" for name in (CARD, "config.yaml"))}
    if (folder / "tokenizer" / MANIFEST_NAME).is_file():
        allowed.add("tokenizer")
    if foreign := names - allowed:
        raise CheckpointError(
            f"{folder}: not a run, and not empty: it holds {sorted(foreign)[0]!r}"
            f"{f' and {len(foreign) - 1} more' if len(foreign) > 1 else ''}; name another `run`"
        )


def has_checkpoint(run: RunDirectory) -> bool:
    return bool(run.checkpoint_folder.steps())


def restore_checkpoints(
    run: RunDirectory, progress: Progress, faults: Mapping[int, str]
) -> list[str]:
    """Make the labels and the checkpoints agree with `progress`. Return lines for the log.

    `faults` maps the step of each newer, damaged checkpoint to its fault. These checkpoints are
    renamed. The labels on disk are outdated if the last save was killed before it wrote them.
    """
    folder = run.checkpoint_folder
    lines = []
    labels = {"last": progress.step}
    best = progress.step if progress.best_step is None else progress.best_step
    if best in folder.steps():
        labels["best"] = best
    else:
        replacement = "the next better one replaces it"
        lines.append(f"the best checkpoint, of step {best:,}, is gone; {replacement}")
    folder.set_labels(labels)  # before setting aside, so that no label names such a checkpoint
    for step, fault in faults.items():
        aside = folder.set_aside(step)
        lines.append(f"{fault}: set aside as {aside.name}, going on from step {progress.step:,}")
    folder.prune(progress.steps_to_keep)
    return lines


def _check_data(run: RunDirectory, data_files: Mapping[Path, str]) -> None:
    """Raise DataError unless the files' checksums equal those in run.json. Paths may differ.

    The position in the epoch at which a run continues is only valid for the same corpus.
    """
    card = run.read_json(CARD)
    try:
        checksums = [str(file["sha256"]) for file in card["data"]]  # type: ignore[index]
    except (KeyError, TypeError):
        raise CheckpointError(f"{run.path / CARD}: damaged: it lacks data.sha256") from None
    for file, checksum in zip_longest(data_files.items(), checksums):
        if file is None or file[1] != checksum:
            raise DataError(
                f"{file[0] if file else 'data'}: changed since {run.path} was begun; "
                "bring the file back as it was, or train in another `run`"
            )
