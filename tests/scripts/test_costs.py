"""scripts/corpus_cost.py and distribution_cost.py: their tables, and each once, short."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from corpus_cost import UNITS
from corpus_cost import table as cost_table
from distribution_cost import ARMS, Speed
from distribution_cost import table as speed_table
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.device import process_bytes

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run(script: str, *words: str) -> str:
    command = [sys.executable, str(SCRIPTS / script), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_cost_that_is_a_line_is_extrapolated_exactly() -> None:
    sizes = [1000, 2000, 4000]
    costs = [dict.fromkeys(UNITS, 3.6 * n + 7200) for n in sizes]
    rows = dict(
        line[2:].split(" | ", 1) for line in cost_table(sizes, costs, 10**9).split("\n")[2:]
    )
    assert rows["text"] == "3.6 bytes | 7.2e-06 GB | 3.6 GB |"
    assert rows["encoding by one process"] == "3.6e+06 µs | 2 hours | 1e+06 hours |"


def test_a_cost_that_falls_does_not_depend_on_the_size() -> None:
    costs = [dict.fromkeys(UNITS, value) for value in (3e9, 2e9)]
    assert "| text | 0 bytes | 2.5 GB | 2.5 GB |" in cost_table([1000, 2000], costs, 10**9)


def test_the_price_of_sharing_is_that_of_a_round_taken_in_turn() -> None:
    found = [
        [Speed(1.0, 1.0), Speed(150.0 * f, 12.0 * f), Speed(200.0 * f, 10.0 * f)] for f in (1, 3)
    ]
    text = speed_table(found)
    assert "| 2 processes | 300 | 24.0 |" in text
    assert text.endswith(
        "Sharing adds 4.0 ms to an update (2.0 to 6.0); 75% of the tokens of two alone."
    )


@pytest.mark.slow
def test_distribution_is_measured(tmp_path: Path) -> None:
    write_reversal(tmp_path, n_train=160, n_test=20)
    config = tmp_path / "toy.yaml"
    config.write_text(dump_config(toy_config(tmp_path, train={"epochs": 99})), encoding="utf-8")
    words = ("--updates", "60", "--rounds", "1", "--folder", str(tmp_path / "runs"))
    out = run("distribution_cost.py", "--config", str(config), *words)
    rows = [line.split(" | ") for line in out.splitlines()[2:5]]
    assert [row[0].removeprefix("| ") for row in rows] == [arm.name for arm in ARMS]
    assert all(float(row[1].replace(",", "")) > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.skipif(process_bytes("RssAnon") is None, reason="needs Linux' /proc")
def test_a_corpus_is_measured(tmp_path: Path) -> None:
    letters = random.Random(1)
    words = ["".join(letters.choices("abcdefghijklmnop", k=7)) for _ in range(24_000)]
    lines = [
        f"{' '.join(words[i : i + 4])}\t{' '.join(words[i + 4 : i + 8])}\n"
        for i in range(0, 24_000, 8)
    ]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    sizes = ("--pairs", "4000", "8000", "--folder", str(tmp_path / "new"))
    out = run("corpus_cost.py", "--tsv", str(tmp_path / "pairs.tsv"), *sizes)
    assert len(out.splitlines()) == 2 + len(UNITS)
    text = float(out.splitlines()[2].split("|")[2].split()[0])
    assert text == pytest.approx(sum(map(len, lines)) / len(lines), rel=0.05)
    assert not (tmp_path / "new").exists()
