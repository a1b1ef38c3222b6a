"""`nmt train`: train the model of a config in a run directory."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from nmt.cli.shared import process
from nmt.cli.shared.flags import overrides_of
from nmt.cli.shared.launch import check_processes, launch
from nmt.cli.shared.options import ConfigOptions, Quiet, Threads
from nmt.errors import NMTError
from nmt.storage.terminal import discard_output

if TYPE_CHECKING:
    from nmt.training.distributed import Ranks

_SECONDS_TO_BE_ENDED = 5.0  # ranks above 0 wait to report an error, which rank 0 reports first
_SIGNALS = [s for s in signal.Signals if s.name in ("SIGINT", "SIGTERM", "SIGHUP")]


def train(
    *,
    config: ConfigOptions,
    run: Annotated[Path | None, "Run directory.", "runs/NAME"] = None,
    device: Annotated[str | None, "auto, cpu, cuda[:N] or mps.", "the config's"] = None,
    threads: Threads = None,
    epochs: Annotated[int | None, "Stop after N epochs, instead of the config's."] = None,
    steps: Annotated[int | None, "Stop after N updates, instead of the config's."] = None,
    allow_change: Annotated[
        bool, "Continue a run with a changed learning rate, batch size or dropout."
    ] = False,
    processes: Annotated[
        int,
        Option(
            min=1,
            help="Train in N processes on this machine, each with a GPU or a share of the CPU "
            "threads. An update then has N times train.accumulate batches.",
        ),
    ] = 1,
    quiet: Quiet = False,
) -> None:
    """Train a model, or continue a run.

    The path of the run directory is printed on stdout. Ctrl-C, SIGTERM and SIGHUP save the state
    and end the training; the same command continues it. A run that ended in another way continues
    from its last checkpoint. --processes trains in several processes on this machine; torchrun
    trains on several machines.
    """
    for number in _SIGNALS:
        if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    from nmt.training import loop
    from nmt.training.distributed import Ranks

    ranks = Ranks.from_environment()
    check_processes(processes, ranks.world)
    flags = overrides_of("train", {"device": device, "epochs": epochs, "steps": steps})
    stop = _StopSignal(ranks)
    with stop.one_report():
        run_config = config.load(*flags)
        if processes > ranks.world:
            # Not sys.exit: Python would abort if a thread of torch's launcher is in C++ code then.
            os._exit(launch(processes))
        process.configure_process(threads)
        with process.deterministic(run_config.train.deterministic):
            outcome = loop.train(run_config, run, sys.argv, stop, quiet, allow_change, ranks)
    if not ranks.is_first:
        raise typer.Exit(0 if outcome.reason is not None else stop.exit_code)
    if outcome.reason is not None:
        typer.echo(outcome.run)
        return
    try:
        typer.echo(outcome.run)
    except OSError:  # the terminal hung up
        discard_output(sys.stdout)
    raise typer.Exit(stop.exit_code)


class _StopSignal:
    """Tells training whether it got Ctrl-C, SIGTERM or SIGHUP. A second signal ends the process.

    Until training first calls this object there is nothing to save, and a signal ends the process
    at once. A Python handler would run only when a library call returns, which can take minutes
    while a vocabulary is learned.

    With several ranks a second signal does nothing, because the launcher forwards to each rank a
    signal that may have reached the rank already. The launcher kills ranks that take too long.
    """

    def __init__(self, ranks: "Ranks") -> None:
        self.number = 0
        self._ranks = ranks
        self._is_watching = False

    def __call__(self) -> bool:
        if not self._is_watching:
            self._is_watching = True
            for number in _SIGNALS:
                # SIGHUP stays ignored under `nohup`.
                if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN:
                    signal.signal(number, self._note)
        return self.number != 0

    @property
    def exit_code(self) -> int:
        """The code of a program ended by the signal; SIGTERM if another rank got the signal."""
        return 128 + (self.number or signal.SIGTERM)

    @contextlib.contextmanager
    def one_report(self) -> Iterator[None]:
        """Let only one rank report an error in this block.

        Rank 0 reports its error. The other ranks, and a rank that lost its peer, wait until the
        launcher ends them. A rank that is not ended within seconds reports its error too.
        """
        from nmt.training.distributed import LostRankError

        try:
            yield
        except Exception as error:
            is_lost = isinstance(error, LostRankError)
            if self._ranks.world == 1 or (self._ranks.is_first and not is_lost):
                raise
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            if is_lost and self.number:  # the signal ended all ranks
                raise typer.Exit(self.exit_code) from None
            time.sleep(_SECONDS_TO_BE_ENDED)
            if isinstance(error, NMTError):
                error.args = (f"rank {self._ranks.rank}: {error}",)
            raise

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        if self._ranks.world > 1:
            return
        for caught in _SIGNALS:
            # A closing terminal sends SIGHUP twice, by the system and by the shell.
            signal.signal(caught, signal.SIG_IGN if caught.name == "SIGHUP" else signal.SIG_DFL)
        # Not to sys.stderr: the progress bar may be writing to it, and Python's streams refuse a
        # second writer in the same thread.
        with contextlib.suppress(OSError):
            os.write(2, b"\nsaving after this update (again to stop at once) ...\n")
