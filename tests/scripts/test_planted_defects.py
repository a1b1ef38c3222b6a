"""scripts/planted_defects.py: each defect of its list still fits the code, and is counted right."""

from pathlib import Path

import planted_defects
import pytest
from planted_defects import Defect


def test_every_defect_fits_the_code_and_changes_it() -> None:
    listed = planted_defects.defects()
    assert planted_defects.misfits(listed) == []
    assert [defect.name for defect in listed if defect.old == defect.new] == []


def test_no_two_defects_have_one_name_or_one_place() -> None:
    listed = planted_defects.defects()
    assert len({defect.name for defect in listed}) == len(listed)
    assert len({defect.old for defect in listed}) == len(listed)


def test_a_defect_that_does_not_fit_is_named() -> None:
    lines = planted_defects.misfits([Defect("gone", "import nowhere", "", ["tests/none"])])
    assert lines[0] == "gone: `old` occurs 0 times, allowed: once"
    assert lines[1:] == ["gone: tests/none: no such folder"]


def test_a_defect_is_planted_for_its_tests_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "nmt" / "part.py"
    path.parent.mkdir()
    path.write_text("a = 1\n")
    runs: list[tuple[str, ...]] = []

    def failures(copy: Path, *arguments: str) -> list[str]:
        assert (copy / "nmt" / "part.py").read_text() == "a = 2\n"
        runs.append(arguments)
        return ["test"] if "auto" in arguments else []

    monkeypatch.setattr(planted_defects, "failures", failures)
    line = planted_defects.outcome(Defect("a part", "a = 1", "a = 2", ["tests/part"]), tmp_path)
    assert (line["found"], line["tests"]) == (True, ["test"])
    assert ["tests/part" in run for run in runs] == [True, False]
    assert path.read_text() == "a = 1\n"
