"""`nmt train --processes N`: run the ranks with torch's elastic launcher."""

import logging
import os
import signal
import sys
from types import FrameType

from nmt.cli.shared.messages import complain
from nmt.errors import ConfigError

_LAUNCHED = "NMT_PROCESSES"  # environment variable that marks a process started by `launch`
_SECONDS_TO_SAVE = 600  # after a signal; a process that is still running is then killed
_SIGNALS = [s for s in signal.Signals if s.name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")]


def check_processes(processes: int, world: int) -> None:
    """Raise ConfigError if torchrun started `world` processes and `processes` asks for others."""
    if processes > 1 and world > 1 and os.environ.get(_LAUNCHED) != str(processes):
        raise ConfigError(
            f"`processes`: got {processes} in one of the {world} processes that torchrun "
            "has started; leave out `processes`, and set --nproc-per-node of torchrun"
        )


def launch(processes: int) -> int:
    """Run this command in several processes on this machine, and return the exit code.

    Each process gets an equal share of torch's threads, unless OMP_NUM_THREADS is set. If a signal
    ended a process, a line on stderr says so; other processes have printed their own errors.
    Environment variables set options of torchrun, as in PET_MAX_RESTARTS=3.
    """
    import torch
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    threads = max(1, torch.get_num_threads() // processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    os.environ[_LAUNCHED] = str(processes)
    # torch's handlers raise at every signal, even during torch's own cleanup; these raise once.
    numbers = [n for n in _SIGNALS if signal.getsignal(n) != signal.SIG_IGN]

    def stop_once(number: int, frame: FrameType | None) -> None:
        for signum in numbers:
            signal.signal(signum, signal.SIG_IGN)
        raise SignalException(f"got {number}", signal.Signals(number))

    for signum in numbers:
        signal.signal(signum, stop_once)
    options = [f"--nproc-per-node={processes}", f"--shutdown-timeout={_SECONDS_TO_SAVE}"]
    options += ["--standalone", "--signals-to-handle=", "-m", "--", "nmt"]
    logging.disable(logging.ERROR)  # torch's long report repeats the line below
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
                f"error: process {rank} was ended by {name}; the same command continues from "
                "the last checkpoint"
            )
            return 128 - failure.exitcode
        return failure.exitcode
    finally:
        logging.disable(logging.NOTSET)
    return 0
