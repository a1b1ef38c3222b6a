"""Load a server on loopback: many clients for a while; lost and wrong answers, latency, throughput.

    python scripts/serve_load.py --run runs/starter --clients 200 --seconds 60

starts `nmt serve` on a free port and stops it at the end. The sentences come from a split of
the run's corpus. `nmt translate --file` translates the same ones first: its lines are what each
answer must be, and its seconds, without loading, are what the server's throughput stands beside.
It prints JSON.
"""

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from serve_attack import NO_ANSWER, Langs, exchange, post, start_server

from nmt.corpora.corpora import read_examples
from nmt.device import process_bytes
from nmt.evaluation.examples import split_named
from nmt.runs.trained_run import TrainedRun

ANSWER_SECONDS = 60
"""A request without an answer for so long is lost."""


@dataclass
class Counts:
    """Counts of the clients; `wrong` are the answers that differ, with text and translation."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    lost: int = 0
    wrong: list[tuple[str, str, str]] = field(default_factory=list)


async def client(
    port: int, langs: Langs, pairs: list[tuple[str, str]], end: float, counts: Counts
) -> None:
    """Ask for one sentence after another until `end`, in seconds of the monotonic clock."""
    for text, expected in cycle(pairs):
        if time.monotonic() >= end:
            return
        body = json.dumps({"q": text, "source": langs[0], "target": langs[1]}).encode()
        request = post("/translate", body)
        started = time.monotonic()
        try:
            status, content = await asyncio.wait_for(exchange(port, request), ANSWER_SECONDS)
        except NO_ANSWER:
            counts.lost += 1
            continue
        if status == 429:
            counts.refused += 1
            await asyncio.sleep(1)
            continue
        counts.seconds.append(time.monotonic() - started)
        answer = json.loads(content).get("translatedText") if status == 200 else content.decode()
        if answer != expected:
            counts.wrong.append((text, expected, str(answer)))


async def load(
    port: int, langs: Langs, pairs: list[tuple[str, str]], n_clients: int, seconds: float
) -> Counts:
    """`n_clients` at once, each with the pairs in an order of its own."""
    counts, chance, end = Counts(), random.Random(1), time.monotonic() + seconds
    orders = [chance.sample(pairs, len(pairs)) for _ in range(n_clients)]
    await asyncio.gather(*(client(port, langs, order, end, counts) for order in orders))
    return counts


def translate_file(run: Path, texts: list[str], flags: list[str]) -> tuple[list[str], float]:
    """Return the lines of `nmt translate --file`, and its seconds less those for one sentence."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "in.txt"), Path(folder, "out.txt")
        files = ["--file", str(source), "--out", str(out), "--force"]
        command = [sys.executable, "-m", "nmt", "translate", "--run", str(run), *files, *flags]
        for some in (texts[:1], texts):
            source.write_text("".join(f"{text}\n" for text in some), encoding="utf-8")
            started = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.monotonic() - started)
        return out.read_text(encoding="utf-8").split("\n")[:-1], seconds[1] - seconds[0]


def report(counts: Counts, seconds: float, n_texts: int, alone: float) -> dict[str, object]:
    ordered = sorted(counts.seconds)
    n_answers = len(ordered)
    rate, rate_alone = n_answers / seconds, n_texts / max(alone, 1e-9)
    return {
        "answers": n_answers,
        "lost": counts.lost,
        "wrong": len(counts.wrong),
        "refused_429": counts.refused,
        "median_seconds": ordered[n_answers // 2] if ordered else None,
        "p99_seconds": ordered[int(0.99 * n_answers)] if ordered else None,
        "sentences_per_second": rate,
        "nmt_translate_sentences_per_second": rate_alone,
        "ratio": rate / rate_alone,
        "examples_of_wrong": counts.wrong[:10],
    }


def main() -> int:
    """Measure; 1 where an answer was lost or wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--split", default="valid")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--int8", action="store_true")
    options = parser.parse_args()
    config = TrainedRun.open(options.run).config.data
    examples = read_examples(split_named(config, options.split), config)
    texts = [e.src_text for e in examples if e.src_text.strip()][: options.sentences]
    flags = ["--int8"] if options.int8 else []
    lines, alone = translate_file(options.run, texts, flags)
    limits = ("--max-waiting", str(10 * options.clients), "--time-limit", "50")
    server, port = start_server(options.run, *limits, *flags)
    try:
        langs, pairs = (config.src_lang, config.tgt_lang), list(zip(texts, lines, strict=True))
        asyncio.run(load(port, langs, pairs, min(8, options.clients), 2))  # caches and allocator
        started = time.monotonic()
        counts = asyncio.run(load(port, langs, pairs, options.clients, options.seconds))
        seconds, peak = time.monotonic() - started, process_bytes("VmHWM", server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    figures = report(counts, seconds, len(texts), alone)
    print(json.dumps({**figures, "peak_bytes": peak, "exit": code}, indent=1))
    return int(bool(counts.lost or counts.wrong or code))


if __name__ == "__main__":
    sys.exit(main())
