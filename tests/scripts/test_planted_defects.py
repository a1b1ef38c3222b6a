"""scripts/planted_defects.py: each defect of its list still fits the code, and is counted right."""

import planted_defects
from planted_defects import Defect


def test_every_defect_fits_and_changes_the_code_in_its_own_way() -> None:
    listed = planted_defects.defects()
    assert planted_defects.misfits(listed) == []
    assert [defect.name for defect in listed if defect.old == defect.new] == []
    assert len({defect.name for defect in listed}) == len(listed)
    assert len({defect.old for defect in listed}) == len(listed)


def test_a_defect_that_does_not_fit_is_named() -> None:
    lines = planted_defects.misfits([Defect("gone", "import nowhere", "", ["tests/none"])])
    assert lines[0] == "gone: `old` occurs 0 times, allowed: once"
    assert lines[1:] == ["gone: tests/none: no such folder"]
