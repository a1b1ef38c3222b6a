"""scripts/attack.py, short: it finds nothing where nothing is wrong, and what it is for."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from attack import COUNTS, FAULTS, faults_of
from attacks.material import TRANSLATE, Case, Expected, Material, snapshot
from attacks.process import Outcome

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "attack.py"


def test_a_short_attack_finds_nothing() -> None:
    counts = {"forged": 1, "damage": 6}
    options = [f"--{kind}={count}" for kind, count in counts.items()]
    command = [sys.executable, str(SCRIPT), "--server=0", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    table = {row[0]: row[1:] for row in rows if row and row[0] in (*COUNTS, "all")}
    total = {"all": sum(counts.values())}
    assert {kind: int(row[0]) for kind, row in table.items()} == {**counts, **total}
    assert table["all"][2:] == ["0"] * len(FAULTS)


@pytest.fixture
def material(tmp_path: Path) -> Material:
    """With a clean translation, and nothing else."""
    material = Material(tmp_path)
    material.clean["word-translate"] = Outcome(0, "a\n", "", 1 << 28, hangs=False)
    return material


OUTCOME = Outcome(0, "b\n", "", 1 << 28, hangs=False)
NOTHING = Case("nothing", TRANSLATE, lambda: None)
SAME = replace(NOTHING, expected=Expected.SAME, about=("run.json",))
REFUSED = replace(NOTHING, expected=Expected.REFUSED, about=("run.json",))


@pytest.mark.parametrize(
    ("case", "outcome", "changed", "faults"),
    [
        (NOTHING, OUTCOME, [], []),
        (NOTHING, replace(OUTCOME, code=-signal.SIGSEGV), [], ["crash"]),
        (NOTHING, replace(OUTCOME, code=-signal.SIGKILL, hangs=True), [], ["hang"]),
        (NOTHING, replace(OUTCOME, stderr="Traceback (most recent call last):"), [], ["traceback"]),
        (NOTHING, replace(OUTCOME, max_rss=2 << 30), [], ["memory"]),
        (NOTHING, OUTCOME, ["outside/victim.txt"], ["outside"]),
        (SAME, OUTCOME, [], ["silent"]),
        (SAME, replace(OUTCOME, stdout="a\n"), [], []),
        (SAME, replace(OUTCOME, stderr="run.json: damaged"), [], []),
        (REFUSED, OUTCOME, [], ["silent"]),
        (REFUSED, replace(OUTCOME, code=2), [], []),
    ],
)
def test_what_an_attack_came_to(
    material: Material, case: Case, outcome: Outcome, changed: list[str], faults: list[str]
) -> None:
    pairs = faults_of(case, outcome, changed, material, material.folder)
    assert [fault for fault, _ in pairs] == faults


def test_a_change_outside_is_seen_and_one_in_the_run_is_none(
    material: Material, tmp_path: Path
) -> None:
    (tmp_path / "word" / "run").mkdir(parents=True)
    folder = tmp_path / "x"
    material.copy("word", folder)
    before = snapshot(folder)
    (folder / "run" / "new").touch()
    assert snapshot(folder) == before
    (folder / "outside" / "victim.txt").write_text("yours")
    (folder / "outside" / "folder" / ".tmp-mine.txt").unlink()
    after = snapshot(folder)
    changed = {name for name in before if before[name] != after.get(name)}
    assert changed == {"outside/victim.txt", "outside/folder/.tmp-mine.txt"}
