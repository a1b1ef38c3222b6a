"""scripts/attack.py, short: it finds nothing where nothing is wrong, and what it is for."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from attacks import bombs, escapes, links
from attacks.case import CHECKPOINT, TRANSLATE, Case, Expected
from attacks.judge import COUNTS, FAULTS, case_of, faults_of
from attacks.material import Material, snapshot
from attacks.process import Outcome, run
from forging import write_state
from training.toy import toy_config

from nmt.runs.directory import RunDirectory
from nmt.runs.sealed_config import sealed

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

NOTHING = Case("nothing", TRANSLATE, lambda: None)


def attack(*options: str) -> subprocess.CompletedProcess[str]:
    """The script."""
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "attack.py"), *options],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_short_attack_finds_nothing() -> None:
    counts = {
        "forged": 1,
        "links": 0,
        "damage": 6,
        "bombs": 2,
        "escapes": 9,
        "outputs": 3,
        "files": 2,
        "mutated": 2,
    }
    done = attack("--server=0", *(f"--{kind}={count}" for kind, count in counts.items()))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    found = {row[0]: row[1:] for row in rows if row and row[0] in (*COUNTS, "all")}
    assert {kind: int(row[0]) for kind, row in found.items()} == {
        **counts,
        "all": sum(counts.values()),
    }
    assert found["all"][2:] == ["0"] * len(FAULTS)


@pytest.fixture
def material(tmp_path: Path) -> Material:
    """With a clean translation, and nothing else."""
    made = Material(tmp_path)
    made.clean["word-translate"] = Outcome(0, "a\n", "", 1 << 28, hangs=False)
    return made


OUTCOME = Outcome(0, "b\n", "", 1 << 28, hangs=False)
ESCAPED = replace(NOTHING, expected=Expected.ESCAPED)
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
        (NOTHING, replace(OUTCOME, code=2, stderr="error: out of memory"), [], ["memory"]),
        (NOTHING, OUTCOME, ["outside/victim.txt"], ["outside"]),
        (SAME, OUTCOME, [], ["silent"]),
        (SAME, replace(OUTCOME, stdout="a\n"), [], []),
        (SAME, replace(OUTCOME, stderr="run.json: damaged"), [], []),
        (SAME, replace(OUTCOME, code=2), [], []),
        (REFUSED, OUTCOME, [], ["silent"]),
        (REFUSED, replace(OUTCOME, code=2), [], []),
        (ESCAPED, replace(OUTCOME, stdout="ev\\u001b[31mil\n"), [], []),
        (ESCAPED, replace(OUTCOME, stdout="evil\n"), [], []),
        (ESCAPED, replace(OUTCOME, stdout="ev\x1b[31mil\n"), [], ["escape"]),
        (ESCAPED, replace(OUTCOME, stdout="ev\ril\n"), [], ["escape"]),
        (ESCAPED, replace(OUTCOME, stdout="\r 3 sentences\revil\n"), [], []),
        (ESCAPED, replace(OUTCOME, stdout="something else\n"), [], ["escape"]),
    ],
)
def test_what_an_attack_came_to(
    material: Material, case: Case, outcome: Outcome, changed: list[str], faults: list[str]
) -> None:
    found = faults_of(case, outcome, changed, material, material.folder)
    assert [fault for fault, _ in found] == faults


def test_a_change_outside_is_seen_and_one_in_the_run_is_none(
    material: Material, tmp_path: Path
) -> None:
    (tmp_path / "word" / "run").mkdir(parents=True)
    folder = tmp_path / "x"
    material.copy("word", folder)
    before = snapshot(folder)
    (folder / "run" / "new").touch()
    (folder / "data").mkdir(exist_ok=True)
    assert snapshot(folder) == before
    (folder / "outside" / "victim.txt").write_text("yours")
    (folder / "outside" / "folder" / ".tmp-mine.txt").unlink()
    after = snapshot(folder)
    changed = {name for name in before if before[name] != after.get(name)}
    assert changed == {"outside/victim.txt", "outside/folder/.tmp-mine.txt"}


@pytest.mark.parametrize("what", ["search: {beam: 1000000000}", "a model of aliases"])
def test_forged_settings_are_behind_the_right_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Else the attack would be refused for the checksum, whatever the settings are."""
    checkpoint = tmp_path / CHECKPOINT
    checkpoint.mkdir(parents=True)
    write_state(checkpoint / "state.json", {"aliases": {}, "sha256": {}})
    run = RunDirectory(tmp_path / "run")
    run.write_config(toy_config(tmp_path, model={"hidden": 8}))
    before = run.config_path.read_text().partition("\n")[2]
    monkeypatch.chdir(tmp_path)
    next(case for case in bombs.cases() if case.what == what).prepare()
    text = run.config_path.read_text()
    assert text.partition("\n")[2] != before
    assert text == sealed(text.partition("\n")[2])


@pytest.mark.parametrize("kind", COUNTS)
def test_a_case_is_its_number_and_seed(kind: str) -> None:
    one, two = (case_of(kind, 3, seed=1) for _ in range(2))
    assert (one.what, one.command, one.expected) == (two.what, two.command, two.expected)


def test_every_listed_case_is_tried_before_one_is_again() -> None:
    whats = [(case.what, case.command) for case in links.cases()]
    assert len(set(whats)) == len(whats)
    assert len(bombs.cases()) == COUNTS["bombs"]
    n_doors = len(escapes.DOORS)
    assert len({case.what for case in escapes.cases()[:n_doors]}) == n_doors <= COUNTS["escapes"]


def test_a_command_in_a_child(tmp_path: Path) -> None:
    """Streams, exit code and terminal; this process stays as it is."""
    folder = tmp_path / "x"
    folder.mkdir()
    said = run(("config", "check", "no.yaml"), folder, {})
    assert (said.code, said.stdout, said.stderr) == (2, "", "error: no.yaml: no such file\n")
    shown = run(("--version",), folder, {"TERM": "xterm"}, terminal=True)
    assert shown.code == 0
    assert shown.stdout.startswith("nmt ")
