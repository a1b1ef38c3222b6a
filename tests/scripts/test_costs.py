"""Scripts that measure costs: their tables of known figures, and a short run of each."""

import subprocess
import sys
from pathlib import Path

import pytest
from corpus_cost import UNITS
from corpus_cost import table as cost_table
from distribution_cost import Speed
from distribution_cost import table as speed_table
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.device import process_bytes

SCRIPTS = Path(__file__).parents[2] / "scripts"


def lines_of(script: str, *words: str) -> list[str]:
    command = [sys.executable, str(SCRIPTS / script), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_cost_that_is_a_line_is_extrapolated_exactly() -> None:
    sizes = [1000, 2000, 4000]
    costs = [dict.fromkeys(UNITS, 3.6 * n + 7200) for n in sizes]
    text = cost_table(sizes, costs, 10**9)
    assert "| text | 3.6 bytes | 7.2e-06 GB | 3.6 GB |" in text
    assert "| encoding by one process | 3.6e+06 µs | 2 hours | 1e+06 hours |" in text
    costs = [dict.fromkeys(UNITS, value) for value in (3e9, 2e9)]  # falls: no slope
    assert "| text | 0 bytes | 2.5 GB | 2.5 GB |" in cost_table([1000, 2000], costs, 10**9)


def test_the_price_of_sharing_is_that_of_a_round_taken_in_turn() -> None:
    rounds = [
        [Speed(1.0, 1.0), Speed(150.0 * f, 12.0 * f), Speed(200.0 * f, 10.0 * f)] for f in (1, 3)
    ]
    text = speed_table(rounds)
    assert "| 2 processes | 300 | 24.0 |" in text
    assert "adds 4.0 ms to an update (2.0 to 6.0); 75% of the tokens of two alone." in text


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_reversal(tmp_path, n_train=160, n_test=20)
    path = tmp_path / "toy.yaml"
    path.write_text(dump_config(toy_config(tmp_path, train={"epochs": 99})), encoding="utf-8")
    return path


@pytest.mark.skipif(process_bytes("VmRSS") is None, reason="needs Linux' /proc")
def test_the_memory_of_a_training_has_a_line_for_each_logged_update(config: Path) -> None:
    options = ("--config", str(config), "--steps", "31", "--every", "10")
    rows = [
        line.split("|")[1:4] for line in lines_of("train_memory.py", *options) if line[:2] == "| "
    ]
    table = [[int(cell.replace(",", "")) for cell in row] for row in rows[1:]]
    assert {updates for updates, _, _ in table} <= {10, 20, 30}
    assert table
    assert all(0 < now <= most for _, now, most in table)
