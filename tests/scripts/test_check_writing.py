"""The script that lists what plain technical writing avoids."""

import ast

import check_writing

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
