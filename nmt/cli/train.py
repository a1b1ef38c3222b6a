"""nmt train: one YAML in, one run directory out."""

import contextlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.config_option import ConfigArgument, ConfigOption, SetKeys, one_config

if TYPE_CHECKING:
    from nmt.training.loop import Outcome

Run = Annotated[Path | None, typer.Option(help="Run directory.", show_default="runs/NAME")]
Device = Annotated[
    str | None, typer.Option(help="auto, cpu, cuda[:N] or mps.", show_default="the config's")
]
Epochs = Annotated[
    int | None, typer.Option(help="Stop after N epochs.", show_default="the config's")
]
Steps = Annotated[
    int | None, typer.Option(help="Stop after N updates.", show_default="the config's")
]
AllowChange = Annotated[
    bool,
    typer.Option(
        "--allow-change", help="Continue a run with another learning rate, batch size or dropout."
    ),
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic", help="Use only operations that give the same bits every time; slower."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only errors on stderr.")]


def train(
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    set_: SetKeys = None,
    run: Run = None,
    device: Device = None,
    epochs: Epochs = None,
    steps: Steps = None,
    allow_change: AllowChange = False,
    deterministic: Deterministic = False,
    quiet: Quiet = False,
) -> None:
    """Train a model, or go on with a run that was begun.

    The run directory's path is printed on stdout. Ctrl-C and SIGTERM save the state and end;
    the same command again continues it. A run that ended some other way goes on from its last
    checkpoint.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nmt.config import load_config
    from nmt.config_file import Flag
    from nmt.process_memory import configure_memory
    from nmt.training import loop

    given = {"device": device, "epochs": epochs, "steps": steps}
    flags = [
        Flag(f"train.{name}", value, f"--{name} {value}")
        for name, value in given.items()
        if value is not None
    ]
    if deterministic:
        flags.append(Flag("train.deterministic", True, "--deterministic"))
    loaded = load_config(one_config(config_argument, config), [*(set_ or ()), *flags])
    stop = _StopSignal()
    folder = run or Path("runs") / loaded.name
    configure_memory()
    outcome = loop.train(loaded, folder, sys.argv, stop, quiet, allow_change)
    if not quiet:
        typer.echo(_closing_words(outcome), err=True)
    typer.echo(outcome.run)
    if outcome.reason is None:
        raise typer.Exit(128 + stop.number)


def _closing_words(outcome: "Outcome") -> str:
    if outcome.reason is None:
        return f"saved at step {outcome.step:,}; the same command again continues this run"
    best = ""
    if outcome.best_bleu is not None:
        best = f"; best BLEU {outcome.best_bleu:.2f} at step {outcome.best_step:,}"
    return f"finished at step {outcome.step:,}: {outcome.reason}{best}"


class _StopSignal:
    """Whether Ctrl-C or SIGTERM came; the first is noted, the second ends the process.

    Before training asks for the first time there is nothing to save, and both end the process as
    they do any other: by the system, for Python would wait for the end of a call into a library,
    which can be minutes of learning a vocabulary.
    """

    def __init__(self) -> None:
        self.number = 0
        self._is_watching = False

    def __call__(self) -> bool:
        if not self._is_watching:
            self._is_watching = True
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._note)
        return self.number != 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        # Not by sys.stderr: the bar may be writing to it, and Python's streams refuse a second
        # writer in the same thread.
        with contextlib.suppress(OSError):
            os.write(2, b"\nsaving after this update (again to stop at once) ...\n")
