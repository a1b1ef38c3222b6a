"""Attack a server on loopback while well-behaved clients use it.

    python scripts/serve_attack.py --run runs/starter --seconds 600

For each attack it starts `nmt serve`, attacks it from another process for its share of the seconds,
and meanwhile asks for /health and for translations of short sentences. The table has the answers to
these, the slowest one, the server's resident memory, the bytes that it logged, and the seconds from
SIGTERM, with the attack still on, to its end. Exit code 1 if a good request failed or took longer
than 5 seconds, or if SIGTERM took longer than 15.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.device import process_bytes
from nmt.runs.trained_run import TrainedRun

MAX_SECONDS = 5.0
"""A good request takes at most so long."""

MAX_END_SECONDS = 15.0
LOST_SECONDS = 30.0
OPEN_FILES = 256
"""The server's limit of file descriptors."""

NO_ANSWER = (OSError, ValueError, IndexError, TimeoutError)
"""The errors of an exchange with a server that does not answer."""

Langs = tuple[str, str]


def post(path: str, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{more}"
    return f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def start_server(run: Path, **options: Any) -> tuple[subprocess.Popen[str], int]:
    """Start `nmt serve` on a free port, with options of Popen; return the process and the port.

    Raises ValueError, with the process killed, if its first line is no address on loopback.
    """
    command = [sys.executable, "-m", "nmt", "serve", "--run", str(run), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    assert server.stdout is not None
    try:
        return server, int(server.stdout.readline().removeprefix("http://127.0.0.1:"))
    except ValueError:
        server.kill()
        server.wait()
        raise


async def exchange(port: int, request: bytes) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        answer = await reader.read()
    finally:
        writer.close()
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), content


async def repeat(port: int, requests: Iterator[bytes], n_clients: int) -> None:
    """Send one request after another from each of `n_clients`, whatever the answers are."""

    async def client() -> None:
        for request in requests:
            with contextlib.suppress(*NO_ANSWER):
                await asyncio.wait_for(exchange(port, request), 120)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(client() for _ in range(n_clients)))


async def hold(port: int, first: bytes, n_connections: int = 400) -> None:
    """Keep connections open that say no more than `first`, each opened anew when it is closed."""

    async def client(number: int) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(first if number % 2 else b"")
                await reader.read(1)
                writer.close()
            await asyncio.sleep(0.2)

    await asyncio.gather(*(client(number) for number in range(n_connections)))


def json_bodies(path: str, *fields: Mapping[str, object]) -> list[bytes]:
    return [post(path, json.dumps(fields_of_one).encode()) for fields_of_one in fields]


def requests(langs: Langs) -> dict[str, list[bytes]]:
    """The requests of an attack that sends them over and over, by its name."""
    wrong: dict[str, object] = {f"k{n}": [] for n in range(6_000)}
    marks = ("<a b=", "<a ", "<![", "<?", "<script>", "<!--", "</", "&#9", "<a b='\"")
    asked = {"source": langs[0], "target": langs[1]}
    texts = [mark * (size // len(mark)) for mark in marks for size in (4_900, 70_000)]
    ids = [5 + n % 50 for n in range(5_000)]
    part = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n' + b"a" * 60_000
    charsets = ("idna", "punycode", "utf-7", "unicode_escape", "utf-8")
    kinds = [f"multipart/form-data; boundary=x; charset={name}" for name in charsets]
    form = "application/x-www-form-urlencoded"
    body = f"q={'ab+cd+' * 800}&source={langs[0]}&target={langs[1]}".encode()
    health = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    upgrade = health.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
    return {
        # Very many faults in one request.
        "faults": json_bodies(
            "/v1/translate",
            {"q": "a", "attention_rows": wrong},
            {"q": "a", **wrong},
            {"q": list(range(11_000))},
            {"q": "a", "attention_rows": {str(n): ["x"] * 9 for n in range(1_200)}},
        ),
        # HTML that a parser reads again and again.
        "html": json_bodies("/translate", *({"q": q, **asked, "format": "html"} for q in texts)),
        # Searches that take minutes.
        "long_search": json_bodies(
            "/v1/translate",
            {"q": "I am tired.", "n_best": 5, "prefix_ids": ids},
            {"q": "I am tired.", "n_best": 5, "prefix_ids": ids[:1_900]},
            {"q": "ab cd " * 700, "n_best": 5, "prefix_ids": ids[:700]},
            {"q": ["xy zw " * 80] * 9, "n_best": 5},
            {"q": "ab cd " * 800, "n_best": 5, "attention": "piece"},
        ),
        # As many sentences as are allowed.
        "crowd": json_bodies("/v1/translate", {"q": [f"a dog {n} sits" for n in range(200)]}),
        # Forms in encodings that are slow to read.
        "charsets": [post("/translate", part + b"\r\n--x--\r\n", kind) for kind in kinds],
        # Forms of other pages, and names that resolve to this machine.
        "origins": [
            post("/translate", body, form, "Origin: https://evil.example\r\n"),
            post("/translate", body, form).replace(b"127.0.0.1", b"evil.example"),
        ],
        # What is not HTTP, upgrades, and many requests at once.
        "garbage": [b"\x16\x03\x01\x02" * 20, upgrade * 50, health * 100],
    }


HELD = {
    # More connections than descriptors, without a request or with half of its header.
    "idle": b"GET /health HTTP/1.1\r\nHost: 127",
    "slow_bodies": post("/translate", b"x" * 60_000)[:-1],
    "stuck_readers": b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 500,
}
"""Starts of requests whose connections are kept open."""


async def endless(port: int) -> None:
    """Bodies in chunks without end, some of one byte each."""
    head = b"POST /translate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def client(number: int) -> None:
        chunk = b"1\r\na\r\n" * 10_000 if number % 2 else b"10000\r\n" + b"a" * 65536 + b"\r\n"
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(head)
                while True:
                    writer.write(chunk)
                    await writer.drain()
            await asyncio.sleep(0.01)

    await asyncio.gather(*(client(number) for number in range(4)))


ATTACKS = ("none", *requests(("en", "de")), *HELD, "endless")


async def attack(name: str, port: int, langs: Langs) -> None:
    """Attack the server in this way until the process is killed."""
    if name == "none":
        await asyncio.sleep(1e6)
    elif name == "endless":
        await endless(port)
    elif name in HELD:
        await hold(port, HELD[name])
    else:
        await repeat(port, itertools.cycle(requests(langs)[name]), 8 if name == "crowd" else 4)


@dataclass
class Outcome:
    """The answers to good clients of an attacked server, and the cost of the server."""

    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    rss: int = 0
    log_bytes: int = 0
    end_seconds: float = 0.0
    code: int = 0
    log: str = ""

    @property
    def slowest(self) -> float:
        return max(self.seconds, default=0.0)

    @property
    def faults(self) -> list[str]:
        limits = {
            f"an answer took {self.slowest:.1f} s": self.slowest > MAX_SECONDS,
            f"SIGTERM took {self.end_seconds:.1f} s": self.end_seconds > MAX_END_SECONDS,
            f"exit code {self.code}": self.code != 0,
            "nothing was answered": not self.seconds,
        }
        return self.failed[:3] + [fault for fault, is_broken in limits.items() if is_broken]


async def use(port: int, langs: Langs, end: float, outcome: Outcome) -> None:
    """Ask for /health, one sentence, and three sentences, until `end`."""
    asked = {"source": langs[0], "target": langs[1]}
    texts = ("I am tired.", ["A dog runs.", "Where is she?", "It rains."])
    requests = [b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"]
    requests += [post("/translate", json.dumps({"q": q, **asked}).encode()) for q in texts]

    async def client(request: bytes) -> None:
        while time.monotonic() < end:
            started = time.monotonic()
            try:
                status, content = await asyncio.wait_for(exchange(port, request), LOST_SECONDS)
                if status != 200:
                    outcome.failed.append(f"{status} {content[:100]!r}")
            except NO_ANSWER as error:
                outcome.failed.append(f"{error!r} after {time.monotonic() - started:.1f} s")
            else:
                outcome.seconds.append(time.monotonic() - started)
            await asyncio.sleep(0.3)

    await asyncio.gather(*map(client, requests))


def _be_attacker(name: str, port: int, langs: Langs) -> None:
    _allow_files(4096)
    asyncio.run(attack(name, port, langs))


def _allow_files(n: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    n = n if hard == resource.RLIM_INFINITY else min(n, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


def attack_server(run: Path, name: str, seconds: float) -> Outcome:
    """Attack a new server for so long."""
    config = TrainedRun.open(run).config.data
    langs = (config.src_lang, config.tgt_lang)
    outcome = Outcome()
    with tempfile.TemporaryFile() as log:
        server, port = start_server(run, stderr=log, preexec_fn=lambda: _allow_files(OPEN_FILES))
        context = multiprocessing.get_context("spawn")
        attacker = context.Process(target=_be_attacker, args=(name, port, langs), daemon=True)
        try:
            attacker.start()
            asyncio.run(use(port, langs, time.monotonic() + seconds, outcome))
            outcome.rss = process_bytes("VmHWM", server.pid) or 0
            started = time.monotonic()
            server.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(60)
            outcome.end_seconds = time.monotonic() - started
        finally:
            server.kill()
            outcome.code = server.wait()
            attacker.kill()
        outcome.log_bytes = os.fstat(log.fileno()).st_size
        log.seek(0)
        outcome.log = log.read(5000).decode("utf-8", "replace")
    return outcome


def main() -> int:
    """Attack and print; 1 if a good request failed or was slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=600, help="of all attacks [600]")
    options = parser.parse_args()
    row = "{:<14}{:>8}{:>8}{:>9}{:>8}{:>7}{:>11}{:>9}".format
    titles = ("attack", "answers", "failed", "slowest", "median", "MiB", "log bytes", "SIGTERM")
    print(row(*titles), flush=True)
    has_faults = False
    for name in ATTACKS:
        one = attack_server(options.run, name, options.seconds / len(ATTACKS))
        slowest, median = f"{one.slowest:.2f}", f"{statistics.median_high(one.seconds or [0]):.2f}"
        counts = len(one.seconds), len(one.failed), slowest, median, one.rss >> 20
        print(row(name, *counts, f"{one.log_bytes:,}", f"{one.end_seconds:.1f}"), flush=True)
        if one.faults:
            print(*(f"    {fault}" for fault in one.faults), one.log[-1500:], sep="\n", flush=True)
            has_faults = True
    return int(has_faults)


if __name__ == "__main__":
    sys.exit(main())
