"""Opening a run directory for training: a new one, or one that was begun before."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.atomic import write_text
from nmt.config import RunConfig, dump_config
from nmt.errors import ConfigError
from nmt.run import RunDirectory
from nmt.run_card import run_card

_MAY_CHANGE = (
    "train.epochs",
    "train.steps",
    "train.max_minutes",
    "train.device",
    "train.log_every",
    "train.keep_last",
    "train.tensorboard",
    "valid.samples",
    "valid.patience",
    "search",
)
"""Keys that may differ when a run goes on: they change no update that was or will be made."""


def open_run(
    folder: Path, config: RunConfig, command: Sequence[str], data_files: Sequence[Path], device: str
) -> RunDirectory:
    """The run at `folder`, made now or continued.

    A continued run keeps its config, but for what may change; raises ConfigError naming every
    other difference.
    """
    if not RunDirectory(folder).exists:
        run = RunDirectory.create(folder, config)
        run.write_json("run.json", run_card(config, command, data_files, device))
        return run
    run = RunDirectory.open(folder)
    changes = list(_changes(run.load_config().model_dump(), config.model_dump()))
    refused = [change for change in changes if not change[0].startswith(_MAY_CHANGE)]
    if refused:
        words = "; ".join(f"{key}: {old} -> {new}" for key, old, new in refused)
        raise ConfigError(
            f"{folder}: this run was begun with another configuration ({words}); "
            "use another --run, or the old values"
        )
    if changes:
        write_text(run.config_path, dump_config(config))
    return run


def _changes(old: object, new: object, key: str = "") -> Iterator[tuple[str, object, object]]:
    """Every key that differs, with the old and the new value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            below = f"{key}.{name}" if key else str(name)
            yield from _changes(old.get(name), new.get(name), below)
    elif old != new:
        yield key, old, new
