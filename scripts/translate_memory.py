"""Memory of `nmt translate --file` on a long file.

    .venv/bin/python scripts/translate_memory.py --run runs/starter --lines 200000

writes a file of that many short sentences, translates it in a process of its own, and prints that
process' resident memory at every tenth of the lines. It checks that each line has the translation
of its own sentence.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from nmt.device import process_bytes

SUBJECTS = ("I", "We", "They", "You", "My sister", "The cat", "Our neighbours", "A child")
VERBS = ("see", "like", "buy", "want", "have", "know", "sold", "found")
OBJECTS = ("a red car", "the house", "two books", "some bread", "it", "the old dog", "nothing")


def sentences(count: int) -> Iterator[str]:
    """`count` sentences of three to six words, always the same."""
    rng = random.Random(1)
    for _ in range(count):
        yield f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}."


def start(run: Path, batch_size: int, source: Path, out: Path) -> subprocess.Popen[bytes]:
    """`nmt translate` of a file, greedy."""
    command = [sys.executable, "-m", "nmt", "translate", "--run", str(run), "--beam", "1"]
    command += ["--batch-size", str(batch_size), "--file", str(source)]
    with out.open("wb") as stdout:
        return subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL)


def count_lines(path: Path) -> int:
    """Return the number of line ends in a file."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def measure(run: Path, batch_size: int, source: Path, out: Path, n_lines: int) -> None:
    """Print the memory at every tenth of the lines."""
    started = time.monotonic()
    process = start(run, batch_size, source, out)
    tenth = 0
    print("| lines | resident MiB | seconds |\n|---:|---:|---:|")
    while process.poll() is None:
        time.sleep(0.5)
        done = count_lines(out)
        resident = process_bytes("VmRSS", process.pid)
        if done * 10 // n_lines > tenth and resident is not None:
            tenth = done * 10 // n_lines
            seconds = time.monotonic() - started
            print(f"| {done:,} | {resident / 2**20:.0f} | {seconds:.0f} |", flush=True)
    print(f"\n{count_lines(out):,} lines for {n_lines:,}, exit code {process.returncode}")


def out_of_place(source: Path, out: Path) -> tuple[int, int]:
    """The number of different sentences, and of lines that do not translate their sentence.

    The other sentences of a batch may change a rounding, and so a translation. A translation counts
    as one of a sentence if a hundredth of that sentence's lines have it. After a lost or moved line
    almost none would be in place.
    """
    answers: dict[bytes, Counter[bytes]] = defaultdict(Counter)
    with source.open("rb") as asked, out.open("rb") as answered:
        for sentence, answer in zip(asked, answered, strict=True):
            answers[sentence][answer] += 1
    rare = (n for found in answers.values() for n in found.values() if n < found.total() / 100)
    return len(answers), sum(rare)


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="a run with a checkpoint")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--batch-size", type=int, default=64, help="sentences at a time")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        long = folder / "long.en"
        text = "".join(f"{sentence}\n" for sentence in sentences(given.lines))
        long.write_text(text, encoding="utf-8")
        measure(given.run, given.batch_size, long, folder / "long.fr", given.lines)
        n_sentences, n_odd = out_of_place(long, folder / "long.fr")
        print(f"{n_sentences:,} different sentences, {n_odd:,} lines with another one's answer")


if __name__ == "__main__":
    main()
