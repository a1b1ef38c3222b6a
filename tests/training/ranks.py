"""A world of processes for a test, on loopback, forked from this one."""

import contextlib
import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from devices import IS_CPU

from nmt.training.distributed import Ranks

SECONDS = 240
"""After which a test's processes are killed, and the test fails."""


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def in_world(world: int, work: Callable[[Ranks], Any], connect: bool = True) -> list[Any]:
    """The result of `work` on each rank, or the error that it raises, by rank.

    Each rank is a process of its own, whose ranks are connected unless `work` does it.
    """
    if not IS_CPU:
        pytest.skip("a process that uses a GPU cannot be forked")
    context = multiprocessing.get_context("fork")
    names = {"WORLD_SIZE": f"{world}", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{free_port()}"}
    pipes = [context.Pipe(duplex=False) for _ in range(world)]
    processes = [
        context.Process(target=_be, args=(rank, names, work, connect, sender))
        for rank, (_, sender) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    try:
        deadline = time.monotonic() + SECONDS
        for (receiver, sender), process in zip(pipes, processes, strict=True):
            sender.close()
            assert receiver.poll(max(0.0, deadline - time.monotonic())), f"{process.name} hangs"
        return [receiver.recv() for receiver, _ in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _be(rank: int, names: dict[str, str], work: Any, connect: bool, sender: Any) -> None:
    torch.set_num_threads(1)
    os.environ.update({**names, "RANK": str(rank), "LOCAL_RANK": str(rank)})
    ranks = Ranks.from_environment()
    result: Any
    try:
        with ranks.connected(torch.device("cpu")) if connect else contextlib.nullcontext():
            result = work(ranks)
    except Exception as error:
        traceback.print_exc()
        result = error
    try:
        sender.send(result)
    except Exception:  # pickle has no one error for what it does not take
        sender.send(RuntimeError(repr(result)))
