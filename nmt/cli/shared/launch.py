"""`nmt train --processes N`: torch's elastic launcher starts the ranks, watches and ends them."""

import logging
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from nmt.cli.shared.messages import complain
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.training.distributed import Ranks

_LAUNCHED = "NMT_PROCESSES"
"""The environment variable by which a process knows that `launch` has started it."""

_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
]
_SECONDS_TO_SAVE = 600
"""After a signal, until a process that has not ended is killed."""


def check_processes(processes: int, ranks: "Ranks") -> None:
    """Raise ConfigError if torchrun has started this process and it is to start some itself."""
    if processes > 1 and ranks.world > 1 and os.environ.get(_LAUNCHED) != str(processes):
        raise ConfigError(
            f"`processes`: got {processes} in one of the {ranks.world} processes that torchrun "
            "has started; leave it out there, and give torchrun its --nproc-per-node"
        )


def launch(processes: int) -> int:
    """Run this very command in so many processes of this machine; return the exit code.

    Each has an equal share of torch's threads, unless OMP_NUM_THREADS is set. Of a process that
    ended by a signal a line says so; others have said themselves why they failed. Options of
    torchrun are read from the environment, as by torchrun itself (PET_MAX_RESTARTS=3).
    """
    import torch
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    threads = max(1, torch.get_num_threads() // processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    os.environ[_LAUNCHED] = str(processes)
    # torch's handlers raise at every signal, wherever the process is: in its own cleaning up too.
    numbers = [n for n in _SIGNALS if signal.getsignal(n) != signal.SIG_IGN]

    def stop_once(number: int, frame: FrameType | None) -> None:
        for signum in numbers:
            signal.signal(signum, signal.SIG_IGN)
        raise SignalException(f"got {number}", signal.Signals(number))

    for signum in numbers:
        signal.signal(signum, stop_once)
    options = ["--standalone", f"--nproc-per-node={processes}"]
    options += [f"--shutdown-timeout={_SECONDS_TO_SAVE}", "--signals-to-handle="]
    options += ["-m", "--", "nmt"]
    logging.disable(logging.ERROR)  # it would say at length what a line says below
    try:
        arguments = run.parse_args([*options, *sys.argv[1:]])  # type: ignore[no-untyped-call]
        run.run(arguments)  # type: ignore[no-untyped-call]
    except SignalException as stop:
        return 128 + int(stop.sigval)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:
            name = signal.Signals(-failure.exitcode).name
            complain(
                f"error: process {rank} was ended by {name}; the same command goes on from the "
                "last checkpoint"
            )
            return 128 - failure.exitcode
        return failure.exitcode
    finally:
        logging.disable(logging.NOTSET)
    return 0
