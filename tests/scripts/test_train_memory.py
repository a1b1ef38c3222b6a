"""scripts/train_memory.py, short: its table, and the law that it shows of a whole training."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.process_memory import process_bytes

SCRIPT = Path(__file__).parents[2] / "scripts" / "train_memory.py"

pytestmark = pytest.mark.skipif(process_bytes("VmRSS") is None, reason="needs Linux' /proc")


def _table(folder: Path, steps: int, every: int) -> list[tuple[int, int, int]]:
    """Updates, resident MiB and their maximum, of a training on batches of varied shapes."""
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
    assert "said after the first batches: " in done.stdout
    rows = [line.split("|")[1:4] for line in done.stdout.splitlines() if line.startswith("| ")]
    return [tuple(int(cell.replace(",", "")) for cell in row) for row in rows[1:]]  # type: ignore[misc]


@pytest.mark.slow
def test_memory_of_a_training_stays(tmp_path: Path) -> None:
    table = {updates: most for updates, _, most in _table(tmp_path, 361, 120)}
    assert table[360] - table[120] < 60


def test_the_table_has_a_line_for_each_logged_update(tmp_path: Path) -> None:
    table = _table(tmp_path, 31, 10)
    assert {updates for updates, _, _ in table} <= {10, 20, 30}
    assert all(0 < now <= most for _, now, most in table)
