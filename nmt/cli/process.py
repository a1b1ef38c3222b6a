"""Settings of the whole process, which a command makes and the library never does."""

import threading

import torch

from nmt.inference.parallel import MAX_WORKERS
from nmt.storage.process_memory import configure_memory


def configure_process(threads: int | None = None) -> None:
    """Set how the process keeps freed memory, and torch's threads (None: torch's own number).

    Called before the first product of matrices.
    """
    configure_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    divide_threads()


def divide_threads() -> None:
    """Give threads that begin from now on a share of torch's threads; this thread keeps all.

    Searches then run side by side (nmt/inference/parallel.py). `set_num_threads` applies to the
    thread that calls it and to later ones, so another thread calls it.
    """
    n_threads = torch.get_num_threads()
    share = n_threads // min(n_threads, MAX_WORKERS)
    setter = threading.Thread(target=torch.set_num_threads, args=(share,))
    setter.start()
    setter.join()
