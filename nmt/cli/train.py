"""nmt train: one YAML in, one run directory out."""

import contextlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from nmt.errors import ConfigError
from nmt.output import give_up

_HANGUP = getattr(signal, "SIGHUP", None)
_SIGNALS = [number for number in (signal.SIGINT, signal.SIGTERM, _HANGUP) if number is not None]

Recipe = Annotated[Path | None, typer.Argument(metavar="[CONFIG]", help="The same as --config.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="YAML file that describes the run, or the name of a recipe: starter."
    ),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key; repeatable.")
]
Run = Annotated[Path | None, typer.Option(help="Run directory. [default: runs/NAME]")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Epochs = Annotated[int | None, typer.Option(help="Stop after this many epochs.")]
Steps = Annotated[int | None, typer.Option(help="Stop after this many updates.")]
AllowChange = Annotated[
    bool,
    typer.Option(
        "--allow-change", help="Go on with other rates, batch sizes or dropout than the run had."
    ),
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic", help="Only operations that give the same bits every time; slower."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only errors on stderr.")]


def train(
    recipe: Recipe = None,
    config: Config = None,
    set_: Set = None,
    run: Run = None,
    device: Device = None,
    epochs: Epochs = None,
    steps: Steps = None,
    allow_change: AllowChange = False,
    deterministic: Deterministic = False,
    quiet: Quiet = False,
) -> None:
    """Train a model, or go on with a run that was begun.

    The run directory's path is printed on stdout. Ctrl-C, SIGTERM and SIGHUP save the state and
    end; the same command again continues it. A run that ended some other way goes on from its last
    checkpoint.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nmt.config import load_config
    from nmt.device import keep_freed_memory
    from nmt.training import loop

    overrides = list(set_ or [])
    given = {"train.device": device, "train.epochs": epochs, "train.steps": steps}
    overrides += [f"{key}={value}" for key, value in given.items() if value is not None]
    if deterministic:
        overrides.append("train.deterministic=true")
    loaded = load_config(_one_config(recipe, config), overrides)
    stop = _StopSignal()
    folder = run or Path("runs") / loaded.name
    keep_freed_memory()
    outcome = loop.train(loaded, folder, sys.argv, stop, quiet, allow_change)
    if outcome.reason is not None:
        typer.echo(outcome.run)
        return
    try:
        typer.echo(outcome.run)
    except OSError:  # the terminal hung up
        give_up(sys.stdout)
    raise typer.Exit(128 + stop.number)


def _one_config(recipe: Path | None, config: Path | None) -> Path:
    """The config, given with `--config` or without. Raises ConfigError for none, or two."""
    chosen = config or recipe
    if chosen is None:
        from nmt.config import recipes

        raise ConfigError(
            "--config is missing: give a YAML file, or the name of a recipe that comes with nmt: "
            + ", ".join(recipes())
        )
    if recipe is not None and recipe != chosen:
        raise ConfigError(f"--config: got {config} and also {recipe}, allowed: one of them")
    return chosen


class _StopSignal:
    """Whether Ctrl-C, SIGTERM or SIGHUP came; the first is noted, the second ends the process.

    Before training asks for the first time there is nothing to save, and each ends the process as
    it does any other: by the system, for Python would wait for the end of a call into a library,
    which can be minutes of learning a vocabulary.
    """

    def __init__(self) -> None:
        self.number = 0
        self._is_watching = False

    def __call__(self) -> bool:
        if not self._is_watching:
            self._is_watching = True
            for number in _SIGNALS:
                # Ignored by `nohup`, it stays so.
                if number != _HANGUP or signal.getsignal(number) != signal.SIG_IGN:
                    signal.signal(number, self._note)
        return self.number != 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for each in _SIGNALS:
            # A terminal that closes sends it twice, by the system and by the shell.
            signal.signal(each, signal.SIG_IGN if each == _HANGUP else signal.SIG_DFL)
        # Not by sys.stderr: the bar may be writing to it, and Python's streams refuse a second
        # writer in the same thread.
        with contextlib.suppress(OSError):
            os.write(2, b"\nsaving after this update (again to stop at once) ...\n")
