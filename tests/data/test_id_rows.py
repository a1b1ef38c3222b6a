"""Rows in a file are the rows that were written, wherever one looks."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data import id_rows
from nmt.data.id_rows import IdRows, IdWriter

ROWS = st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=5).map(tuple), max_size=200)


def written(rows: list[tuple[int, ...]], *dtypes: str) -> tuple[bytes, bytes]:
    ids, lengths = io.BytesIO(), io.BytesIO()
    writer = IdWriter(ids.write, lengths.write, (dtypes[0], dtypes[1]))
    writer.write(rows[: len(rows) // 2])
    writer.write(rows[len(rows) // 2 :])
    return ids.getvalue(), lengths.getvalue()


@given(rows=ROWS)
@settings(max_examples=100, deadline=None)
def test_rows_come_back(rows: list[tuple[int, ...]]) -> None:
    ids, lengths = written(rows, "<u2", "<u2")
    found = IdRows(np.frombuffer(ids, "<u2"), np.frombuffer(lengths, "<u2"))
    assert len(found) == len(rows)
    assert list(found) == rows
    assert [found[i] for i in range(len(rows))] == rows
    assert found[3:7] == rows[3:7]
    assert found.lengths_with_eos().tolist() == [len(row) + 1 for row in rows]
    if rows:
        assert found[-1] == rows[-1]
    for outside in (len(rows), -len(rows) - 1):
        with pytest.raises(IndexError):
            found[outside]


@pytest.mark.parametrize("n_rows", [0, 1, 300])
def test_from_a_file_too_and_after_its_pages_were_given_back(
    tmp_path: Path, n_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_rows, "_RELEASE_EVERY", 7)
    rows = [tuple(range(i % 5)) for i in range(n_rows)]
    ids, lengths = written(rows, "<u4", "<u2")
    (tmp_path / "x.ids").write_bytes(ids)
    found = IdRows.mapped(tmp_path / "x.ids", "<u4", np.frombuffer(lengths, "<u2"))
    assert list(found) == rows
    assert [found[i] for i in reversed(range(n_rows))] == rows[::-1]


def test_what_does_not_fit_its_type_is_no_other_number() -> None:
    with pytest.raises(OverflowError):
        written([(2**16,), (1,)], "<u2", "<u2")
