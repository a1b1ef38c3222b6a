"""Plans: every row once, within the size, and the order that runs have always had."""

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data import batch_plan as module
from nmt.data.batch_plan import Plan, Unit, plan_batches

Lengths = list[tuple[int, int]]


def plain_plan(
    lengths: Lengths, rows: list[int], size: int, unit: Unit, seed: str
) -> list[list[int]]:
    """The definition, with lists: what a run that was begun with it must go on with."""
    rng = random.Random(seed)
    rng.shuffle(rows)
    mean = sum(map(max, lengths)) / len(lengths) if lengths else 1
    per_batch = size if unit == "sentences" or not lengths else max(1, round(size / mean))
    batches: list[list[int]] = []
    for start in range(0, len(rows), 256 * per_batch):
        bucket = sorted(rows[start : start + 256 * per_batch], key=lambda row: _key(*lengths[row]))
        batches.extend(plain_cut(lengths, bucket, size, unit))
    rng.shuffle(batches)
    return batches


def _key(src: int, tgt: int) -> tuple[int, int]:
    return tgt, src if tgt % 2 else -src


def plain_cut(lengths: Lengths, rows: Sequence[int], size: int, unit: Unit) -> Iterator[list[int]]:
    batch: list[int] = []
    width = 0
    for row in rows:
        wider = max(width, *lengths[row])
        cost = len(batch) + 1 if unit == "sentences" else (len(batch) + 1) * wider
        if batch and cost > size:
            yield batch
            batch, wider = [], max(lengths[row])
        batch.append(row)
        width = wider
    if batch:
        yield batch


def planned(lengths: Lengths, rows: list[int], size: int, unit: Unit, seed: str = "1/0") -> Plan:
    columns = np.array(lengths, dtype=np.uint16).reshape(-1, 2)
    chosen = np.array(rows, dtype=np.uint32)
    return plan_batches((columns[:, 0], columns[:, 1]), chosen, size, unit, seed)


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), max_size=300)
UNITS = st.sampled_from(["sentences", "tokens"])


@given(lengths=LENGTHS, size=st.integers(1, 90), unit=UNITS, data=st.data())
@settings(max_examples=150, deadline=None)
def test_the_plan_is_its_plain_definition(
    lengths: Lengths, size: int, unit: Unit, data: st.DataObject
) -> None:
    keep = data.draw(st.sets(st.integers(0, max(0, len(lengths) - 1))))
    rows = [row for row in range(len(lengths)) if row not in keep]
    seed = data.draw(st.sampled_from(["1/0", "1/1", "7/0"]))
    expected = plain_plan(lengths, list(rows), size, unit, seed)
    found = planned(lengths, rows, size, unit, seed)
    assert list(found) == expected
    assert found == expected
    assert sorted(found.all_rows().tolist()) == rows


@pytest.mark.parametrize("unit", ["sentences", "tokens"])
def test_a_large_corpus_has_each_row_once_in_batches_of_like_lengths(
    unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE", 1000)
    rng = random.Random(1)
    lengths = [(n := rng.randint(2, 30), n + rng.randint(0, 5)) for _ in range(5003)]
    rows = list(range(len(lengths)))
    found = planned(lengths, rows, 200, unit)
    assert sorted(found.all_rows().tolist()) == rows
    assert found == planned(lengths, rows, 200, unit)
    assert found != planned(lengths, rows, 200, unit, "1/1")
    assert found.all_rows().tolist() != planned(lengths, rows, 200, unit, "1/1").all_rows().tolist()
    sizes = [len(batch) * (max(max(lengths[r]) for r in batch) if unit == "tokens" else 1)
             for batch in found]  # fmt: skip
    assert max(sizes) <= 200
    padded = sum(len(b) * sum(max(lengths[r][i] for r in b) for i in (0, 1)) for b in found)
    assert padded < 1.1 * sum(map(sum, lengths))


def test_the_order_of_a_large_corpus_is_fixed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go on with it: neither NumPy's nor Python's next version may change it."""
    monkeypatch.setattr(module, "LARGE", 5)
    found = planned([(1, 1)] * 12, list(range(12)), 5, "sentences")
    assert list(found) == LARGE_ORDER


LARGE_ORDER = [[0, 8], [6, 5, 4, 2, 1], [3, 9, 7, 10, 11]]


def test_a_plan_is_a_sequence() -> None:
    found = planned([(1, 1)] * 10, list(range(10)), 3, "sentences")
    assert len(found) == 4
    assert [len(batch) for batch in found[1:3]] == [len(found[1]), len(found[2])]
    assert list(found[2:]) == list(found)[2:]
    assert found[2:] == list(found)[2:]
    assert found[:0].all_rows().tolist() == []
    assert found != 3
    assert found != list(found)[1:]
    assert all(type(row) is int for row in found[0])
