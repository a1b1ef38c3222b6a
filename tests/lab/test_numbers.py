"""Numbers as text."""

import json

import numpy as np
import pytest

from nmt.lab.numbers import columns, readable_json


def test_json_has_a_line_a_key_and_a_line_a_row() -> None:
    value = {
        "a": 1 / 3,
        "rows": np.eye(2),
        "list": [1, "é", None, True],
        "none": {},
        "in": {"b": 2},
    }
    text = readable_json(value)
    assert text.splitlines() == [
        "{",
        ' "a": 0.333333,',
        ' "rows": [',
        "  [1.0, 0.0],",
        "  [0.0, 1.0]",
        " ],",
        ' "list": [1, "é", null, true],',
        ' "none": {},',
        ' "in": {',
        '  "b": 2',
        " }",
        "}",
    ]
    assert json.loads(text)["in"] == {"b": 2}


def test_numbers_keep_six_digits_however_small() -> None:
    assert readable_json([1.23456789e-9, np.float32(2.5), 123456789.0, 123456789]) == (
        "[1.23457e-09, 2.5, 123457000.0, 123456789]"
    )


@pytest.mark.parametrize("value", [float("nan"), np.array([1.0, np.inf])])
def test_what_json_lacks_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        readable_json({"x": value})


def test_columns_are_aligned() -> None:
    assert columns([("", "a", "bb"), ("left", "10", "2")]) == ["       a  bb", "left  10   2"]
