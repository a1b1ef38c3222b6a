"""scripts/train_memory.py, short: its table, and the law that it shows of a whole training."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.device import process_bytes

SCRIPT = Path(__file__).parents[2] / "scripts" / "train_memory.py"

pytestmark = pytest.mark.skipif(process_bytes("VmRSS") is None, reason="needs Linux' /proc")


def _output(folder: Path, steps: int, every: int) -> list[str]:
    """The lines printed on a training on batches of varied shapes."""
    rng = random.Random(3)
    with (folder / "train.tsv").open("w", encoding="utf-8") as file:
        for _ in range(6000):
            words = [rng.choice("abcdefgh") for _ in range(rng.randint(2, 60))]
            target = words[: rng.randint(1, len(words))]
            file.write(" ".join(words) + "\t" + " ".join(target) + "\n")
    (folder / "varied.yaml").write_text(
        f"name: varied\ndata: {{src_lang: en, tgt_lang: fr, train: {{tsv: {folder}/train.tsv}}}}\n"
        "tokenizer: {kind: word, min_freq: 1}\nmodel: {embedding: 24, hidden: 40}\n"
        "train: {batch_size: 500, batch_by: tokens, device: cpu}\n",
        encoding="utf-8",
    )
    command = [sys.executable, str(SCRIPT), "--config", str(folder / "varied.yaml")]
    command += ["--steps", str(steps), "--every", str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _rows(lines: list[str]) -> list[list[int]]:
    """Updates, resident MiB and their maximum."""
    rows = [line.split("|")[1:4] for line in lines if line.startswith("| ")]
    return [[int(cell.replace(",", "")) for cell in row] for row in rows[1:]]


@pytest.mark.slow
def test_memory_of_a_training_stays(tmp_path: Path) -> None:
    lines = _output(tmp_path, 361, 120)
    most = {updates: peak for updates, _, peak in _rows(lines)}
    assert most[360] - most[120] < 60
    said = int(lines[-1].removeprefix("said after 200 updates: ").removesuffix(" MiB"))
    assert abs(said - most[360]) < 0.2 * most[360]


def test_the_table_has_a_line_for_each_logged_update(tmp_path: Path) -> None:
    table = _rows(_output(tmp_path, 31, 10))
    assert {updates for updates, _, _ in table} <= {10, 20, 30}
    assert all(0 < now <= most for _, now, most in table)
