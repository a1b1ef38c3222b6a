"""The list of planted defects fits the code, and the writing check lists what it is for."""

import ast

import check_writing
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
    assert lines[1:] == ["gone: tests/none: no such path"]


SOURCE = '''
def test_{name}(own, path):
    """Those of the path."""
    for each in path:
        paths = [found for found in each]
'''


def test_every_fault_is_listed_with_its_line() -> None:
    source = SOURCE.format(name="x" * check_writing.TEST_NAME)
    faults = list(check_writing.faults(ast.parse(source)))
    assert sorted({line for line, _ in faults}) == [2, 3, 4, 5]
    kinds = ["docstring", "parameter", "test name of 65 characters", "variable", "variable"]
    assert sorted(fault.partition(":")[0] for _, fault in faults) == kinds
