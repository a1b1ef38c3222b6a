"""nmt train: one YAML in, one run directory out."""

import contextlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from nmt.cli import process
from nmt.cli.config_option import ConfigArgument, ConfigOption, SetKeys, one_config
from nmt.cli.flags import overrides_of
from nmt.storage.output import give_up

_HANGUP = getattr(signal, "SIGHUP", None)
_SIGNALS = [number for number in (signal.SIGINT, signal.SIGTERM, _HANGUP) if number is not None]

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

    The run directory's path is printed on stdout. Ctrl-C, SIGTERM and SIGHUP save the state and
    end; the same command again continues it. A run that ended some other way goes on from its last
    checkpoint.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nmt.config import load_config
    from nmt.training import loop

    flags = {
        "device": device,
        "epochs": epochs,
        "steps": steps,
        "deterministic": deterministic or None,
    }
    overrides = [*(set_ or ()), *overrides_of("train", flags)]
    loaded = load_config(one_config(config_argument, config), overrides)
    stop = _StopSignal()
    folder = run or Path("runs") / loaded.name
    process.configure_process()
    with process.deterministic(loaded.train.deterministic):
        outcome = loop.train(loaded, folder, sys.argv, stop, quiet, allow_change)
    if outcome.reason is not None:
        typer.echo(outcome.run)
        return
    try:
        typer.echo(outcome.run)
    except OSError:  # the terminal hung up
        give_up(sys.stdout)
    raise typer.Exit(128 + stop.number)


class _StopSignal:
    """Whether Ctrl-C, SIGTERM or SIGHUP came: the first is noted, the second ends the process.

    Until training calls this for the first time there is nothing to save, and the system ends the
    process at once. Python would wait until a call into a library returns, which can take minutes
    while a vocabulary is learned.
    """

    def __init__(self) -> None:
        self.number = 0
        self._is_watching = False

    def __call__(self) -> bool:
        if not self._is_watching:
            self._is_watching = True
            for number in _SIGNALS:
                # `nohup` has it ignored; it stays so.
                if number != _HANGUP or signal.getsignal(number) != signal.SIG_IGN:
                    signal.signal(number, self._note)
        return self.number != 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for each in _SIGNALS:
            # A terminal that closes sends it twice, by the system and by the shell.
            signal.signal(each, signal.SIG_IGN if each == _HANGUP else signal.SIG_DFL)
        # Not to sys.stderr: the progress bar may be writing to it, and Python's streams refuse a
        # second writer in the same thread.
        with contextlib.suppress(OSError):
            os.write(2, b"\nsaving after this update (again to stop at once) ...\n")
