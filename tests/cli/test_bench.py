"""`nmt bench`: what it prints, what it says of the load, and one line for what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nmt.bench import load
from nmt.bench.load import Reading
from nmt.bench.perform import Request
from nmt.cli.app import app


def nmt_bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many cores others keep busy, to be set by the test; time passes with every look."""
    cores = [0.0]
    now = [0.0]

    def read() -> Reading:
        now[0] += 1
        return Reading(at=now[0], busy_seconds=now[0] * cores[0], own_seconds=0.0)

    monkeypatch.setattr(load, "read_cpu", read)
    return cores


def test_quick_json_says_everything_by_name(others: list[float]) -> None:
    result = nmt_bench("training", "latency", "--quick", "--profile", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found) == {"machine", "settings", "clean", "sections", "profile"}
    assert found["clean"] is True
    assert found["machine"]["threads"] == 1
    assert found["settings"]["hidden"] == 16
    assert [section["title"].split(",")[0] for section in found["sections"]] == [
        "training",
        "one sentence of 5 pieces to 7",
    ]
    for section in found["sections"]:
        assert set(section) == {"title", "unit", "rows", "others", "timed", "notes", "clean"}
        assert section["others"] == 0
        for row in section["rows"]:
            assert set(row) == {"what", "value", "low", "high", "ratio", "ceiling", "also"}
    assert found["profile"]["rows"][0]["share"] > 0
    assert result.stderr.splitlines() == ["training ...", "latency ...", "profile ..."]


def test_quick_keeps_the_rounds_and_the_folder_that_are_given(others: list[float]) -> None:
    def settings(*arguments: str) -> dict[str, object]:
        found = json.loads(nmt_bench("training", "--quick", "--json", *arguments).stdout)
        return found["settings"]  # type: ignore[no-any-return]

    assert settings()["rounds"] == 2
    assert settings("--rounds", "1")["rounds"] == 1
    for quick in (True, False):
        request = Request(
            ["training"], "standard", [], None, "fp32", "cpu", Path("x"), None, quick, False
        )
        plan = request.plan()
        assert (plan.data, plan.rounds) == (Path("x"), 2 if quick else 7)


def test_a_busy_machine_is_said_and_fails_only_if_asked(others: list[float]) -> None:
    others[0] = 0.4
    result = nmt_bench("training", "--quick")
    assert result.exit_code == 0
    assert "(not clean: 40 % of a core was busy elsewhere)" in result.stdout
    rows = [line for line in result.stdout.splitlines() if "of the ceiling" in line]
    assert rows
    assert all(row.endswith("not clean") for row in rows)
    assert nmt_bench("training", "--quick", "--strict").exit_code == 1
    others[0] = 0
    assert nmt_bench("training", "--quick", "--strict").exit_code == 0


def test_memory_and_decoding_in_one_call() -> None:
    result = nmt_bench("memory", "decoding", "--quick", "--json")
    assert result.exit_code == 0, result.output
    titles = [section["title"] for section in json.loads(result.stdout)["sections"]]
    assert titles[0].startswith("decoding, greedy")  # the order is ours
    assert titles[1].startswith("decoding, beam 5")
    if sys.platform == "linux":
        assert titles[2].startswith("memory of an update")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["speed"], "error: part: got 'speed', allowed: training, decoding, latency, memory"),
        (["run"], "error: part 'run': give the run directory with --run"),
        (["training", "--sizes", "huge"], "error: --sizes: got 'huge', allowed: standard"),
        (["training", "--set", "hiden=3"], "unknown key; did you mean 'hidden'?"),
        (["training", "--device", "tpu"], "error: device: got 'tpu', allowed: auto, cpu"),
        (["run", "--quick", "--run", "nowhere"], "error: nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], said: str) -> None:
    result = nmt_bench(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr.splitlines()[-1]


def test_help_and_refusals_import_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom nmt.cli.app import app\n"
        "try: app(['bench', 'speed'], standalone_mode=False)\n"
        "except BaseException: pass\n"
        "assert not {'torch', 'numpy', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], check=True, timeout=60, capture_output=True, cwd=tmp_path
    )
