"""Opening a run directory for training: a new one, or one that was begun before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from nmt.config import RunConfig
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.runs.card import CARD, run_card
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import LOCK_NAME
from nmt.runs.tree import check_tree
from nmt.storage.atomic import ASIDE, digest, remove_leftovers
from nmt.storage.bounded import read_json
from nmt.text.tokenizer import MANIFEST_NAME
from nmt.training.changes import Change, Verdict, changes
from nmt.training.progress import Progress


@dataclass(frozen=True)
class Opened:
    """A run directory and what was changed in the configuration of the run since it was begun."""

    run: RunDirectory
    changed: Sequence[Change] = ()


def open_run(
    folder: Path,
    config: RunConfig,
    command: Sequence[str],
    data_files: Sequence[Path],
    hardware: Mapping[str, str],
    allow_change: bool = False,
) -> Opened:
    """The run at `folder`, made now or continued.

    A continued run keeps its config, but for what may change (changes.py), and its data: raises
    ConfigError naming every difference, DataError naming a file with another content, and
    CheckpointError for a link in the run. Without a checkpoint nothing was learned yet, and the
    run is begun again, whatever its config was.
    """
    check_tree(folder)
    run = RunDirectory(folder)
    remove_leftovers(folder)
    if run.exists:
        run = RunDirectory.open(folder)
        if not begun(run):
            _begin_again(run, config)
    # The card comes first: a config.yaml without one is not a run's but the user's own.
    if not begun(run):
        run.write_json(CARD, run_card(config, command, data_files, hardware))
        return Opened(run if run.exists else RunDirectory.create(folder, config))
    found = changes(run.load_config(), config)
    allowed = (Verdict.SAFE, Verdict.ASK) if allow_change else (Verdict.SAFE,)
    if any(change.verdict not in allowed for change in found):
        words = [f"{folder}: this run was begun with another configuration:"]
        words += [f"  {change} ({change.verdict.value})" for change in found]
        raise ConfigError("\n".join(words))
    _check_data(run, data_files)
    if found:
        run.write_config(config)
    return Opened(run, found)


def check_place(folder: Path) -> None:
    """Raise CheckpointError where `folder` holds what no run left there; nothing is changed.

    A folder that is absent or empty may become a run, and so may one with a config.yaml, with
    vocabularies, or with what a start that was killed leaves before run.json.
    """
    if not folder.is_dir() or begun(RunDirectory(folder)):
        return
    names = {path.name for path in folder.iterdir()}
    if CARD in names:
        if _is_card(folder / CARD):
            return
        raise CheckpointError(f"{folder}: not a run: {CARD} is not nmt's; name another --run")
    own = {LOCK_NAME, *(f"{ASIDE}{name}" for name in (CARD, "config.yaml"))}
    if (folder / "tokenizer" / MANIFEST_NAME).is_file():
        own.add("tokenizer")
    # What is begun beside a config that a user put there deletes nothing but leftovers.
    foreign = {name for name in names - own if name.startswith(ASIDE) or "config.yaml" not in names}
    if foreign:
        raise CheckpointError(
            f"{folder}: not a run, and not empty: it holds {sorted(foreign)[0]!r}"
            f"{f' and {len(foreign) - 1} more' if len(foreign) > 1 else ''}; name another --run"
        )


def _is_card(path: Path) -> bool:
    try:
        card = read_json(path, CheckpointError)
    except (CheckpointError, FileNotFoundError):
        return False
    versions = card.get("versions") if isinstance(card, dict) else None
    return isinstance(versions, dict) and "nmt" in versions


def _begin_again(run: RunDirectory, config: RunConfig) -> None:
    """Give a run that has learned nothing yet the config `config`."""
    if run.load_config() != config:
        if not (run.path / CARD).exists():
            raise ConfigError(
                f"{run.config_path}: no run wrote this config, and it differs from the one "
                "given; use another --run"
            )
        run.write_config(config)


def begun(run: RunDirectory) -> bool:
    """Whether there is a checkpoint to go on from."""
    return bool(run.checkpoint_folder.steps())


def settle(run: RunDirectory, progress: Progress, faults: Mapping[int, str]) -> list[str]:
    """Make the folder what it was when the checkpoint of `progress` was made; lines to say of it.

    `faults` are those of newer checkpoints: they get another name. A save that was killed before
    its last move is ended.
    """
    folder = run.checkpoint_folder
    lines = []
    for step, fault in faults.items():
        aside = folder.set_aside(step)
        lines.append(f"{fault}: set aside as {aside.name}, going on from step {progress.step:,}")
    best = progress.step if progress.best_step is None else progress.best_step
    if best in folder.steps():
        folder.point("best", best)
    else:
        folder.forget("best")
        lines.append(
            f"the best checkpoint, of step {best:,}, is gone; there is none until the next"
        )
    folder.point("last", progress.step)
    folder.prune(progress.kept_steps)
    return lines


def _check_data(run: RunDirectory, data_files: Sequence[Path]) -> None:
    """Raise DataError unless the files, wherever they lie now, are those that run.json tells of.

    The place in the epoch where a run goes on means something only in the same corpus.
    """
    card = run.read_json(CARD)
    try:
        begun = [str(file["sha256"]) for file in card["data"]]  # type: ignore[index]
    except (KeyError, TypeError):
        raise CheckpointError(f"{run.path / CARD}: damaged: it lacks data.sha256") from None
    for path, expected in zip_longest(data_files, begun):
        if path is None or digest(path) != expected:
            raise DataError(
                f"{path or 'data'}: changed since {run.path} was begun; "
                "bring the file back as it was, or train in another --run"
            )
