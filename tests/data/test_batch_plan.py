"""Plans: every row once, within the size, and the order that runs have always had."""

import random
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data import epoch_plan as module
from nmt.data.batch_plan import Lengths as Array
from nmt.data.batch_plan import Rows, Unit
from nmt.data.epoch_plan import EpochPlan, Undone
from nmt.training.distributed import Ranks

Lengths = list[tuple[int, int]]


def plain_plan(
    lengths: Lengths, rows: list[int], size: int, unit: Unit, seed: str
) -> list[list[int]]:
    """The definition, with lists: what a run that was begun with it must go on with."""
    rng = random.Random(seed)
    rng.shuffle(rows)
    mean = sum(map(max, lengths)) / len(lengths) if lengths else 1.0
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


def planned(
    lengths: Lengths,
    undone: Undone | list[int] | None,
    size: int,
    unit: Unit,
    seed: str = "1/0",
) -> EpochPlan:
    columns = np.array(lengths, dtype=np.uint16).reshape(-1, 2)
    mean = int(columns.max(axis=1).sum()) / len(lengths) if lengths else 1.0
    if isinstance(undone, list):
        undone = Undone(np.array(undone, dtype=np.uint32), len(lengths))

    def at(rows: Rows) -> tuple[Array, Array]:
        return columns[rows, 0], columns[rows, 1]

    return EpochPlan(at, len(lengths), mean, (size, unit), seed, undone)


def flat(batches: Sequence[list[int]]) -> list[int]:
    return list(chain.from_iterable(batches))


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
    assert len(found) == found.about == len(expected)
    assert sorted(flat(found)) == rows
    n_done = data.draw(st.integers(0, len(expected)))
    assert found.undone_after(n_done).rows.tolist() == sorted(flat(expected[n_done:]))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Lengths:
    """A corpus that is planned in several blocks."""
    monkeypatch.setattr(module, "LARGE", 1000)
    monkeypatch.setattr(module, "_BLOCK_ROWS", 700)
    monkeypatch.setattr(module, "POOL_BATCHES", 16)
    rng = random.Random(1)
    return [(n := rng.randint(2, 30), n + rng.randint(0, 5)) for _ in range(5003)]


@pytest.mark.parametrize(("size", "unit"), [(40, "sentences"), (700, "tokens")])
def test_a_large_corpus_has_each_row_once_in_batches_of_like_lengths(
    large: Lengths, size: int, unit: Unit
) -> None:
    rows = list(range(len(large)))
    found = planned(large, None, size, unit)
    batches = list(found)
    assert sorted(flat(batches)) == rows
    assert found == planned(large, None, size, unit)
    other = planned(large, None, size, unit, "1/1")
    assert found != other
    assert flat(batches) != flat(other)
    sizes = [len(batch) * (max(max(large[r]) for r in batch) if unit == "tokens" else 1)
             for batch in batches]  # fmt: skip
    assert max(sizes) <= size
    padded = sum(len(b) * sum(max(large[r][i] for r in b) for i in (0, 1)) for b in batches)
    assert padded < 1.2 * sum(map(sum, large))
    assert len(batches) == len(found)
    assert abs(found.about - len(batches)) <= 0.05 * len(batches)
    assert found.is_counted == (unit == "sentences")
    by_place = [np.mean([max(large[r]) for r in b]) for b in batches[: len(batches) // 2]]
    assert len(set(by_place)) > 10  # batches of a block are not in order of length


@pytest.mark.parametrize(("size", "unit"), [(40, "sentences"), (700, "tokens")])
def test_any_batch_of_a_large_corpus_is_found_without_those_before(
    large: Lengths, size: int, unit: Unit
) -> None:
    """A run that goes on at a batch has the batches of the unbroken one, in groups of any size."""
    whole = list(planned(large, None, size, unit))
    for start in (0, 1, 17, 18, len(whole) // 2, len(whole) - 1, len(whole)):
        for group in (1, 3):
            rest = planned(large, None, size, unit)
            assert rest.has(start) == (start < len(whole))
            assert rest[start : start + group] == whole[start : start + group]
    assert planned(large, None, size, unit)[-2:] == whole[-2:]


@pytest.mark.parametrize("n_done", [(0, 0), (1, 1), (20, 9), (40, 3), (400, 1)])
def test_an_epoch_with_other_sizes_within_has_each_row_once(
    large: Lengths, n_done: tuple[int, int]
) -> None:
    rest, done = None, []
    for n, size, unit in zip(n_done, (40, 900), ("sentences", "tokens"), strict=True):
        plan = planned(large, rest, size, unit)  # type: ignore[arg-type]
        done += flat(plan[:n])
        rest = plan.undone_after(n)
    last = planned(large, rest, 30, "sentences")
    assert sorted(done + flat(last)) == list(range(len(large)))
    assert len(last) == len(list(last))


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_batches_of_all_ranks_are_those_of_the_plan(large: Lengths, world: int) -> None:
    """Every rank plans by itself, and takes its share of each group, in order."""
    whole = list(planned(large, None, 700, "tokens"))
    parts = []
    for rank in range(world):
        plan, batch = planned(large, None, 700, "tokens"), 0
        ranks, mine = Ranks(rank, world), []
        while group := plan[batch : batch + 2 * world]:
            shared = ranks.share([len(rows) for rows in group])
            mine += [(batch + place, group[place]) for place in shared]
            batch += len(group)
        parts += mine
    assert [rows for _, rows in sorted(parts)] == whole
    assert [place for place, _ in sorted(parts)] == list(range(len(whole)))


def test_a_large_corpus_is_planned_as_far_as_it_is_asked_for() -> None:
    asked: list[int] = []

    def at(rows: Rows) -> tuple[Array, Array]:
        asked.append(len(rows))
        return np.full(len(rows), 5), np.full(len(rows), 6)

    n_rows = 10**9
    plan = EpochPlan(at, n_rows, 6.0, (64, "sentences"), "1/0")
    assert not asked
    assert len(plan) == -(-n_rows // 64)
    assert len(plan[10**7]) == 64
    assert not plan.has(-(-n_rows // 64))
    assert sum(asked) < 2 * 10**4
    by_tokens = EpochPlan(at, n_rows, 6.0, (384, "tokens"), "1/0")
    assert by_tokens.about == -(-n_rows // 64)
    assert sum(asked) < 10**5


def test_the_order_of_a_large_corpus_is_fixed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go on with it: neither NumPy's nor Python's next version may change it."""
    for name, value in (("LARGE", 5), ("_BLOCK_ROWS", 5), ("POOL_BATCHES", 2)):
        monkeypatch.setattr(module, name, value)
    found = planned([(1, 1)] * 12, None, 3, "sentences")
    assert list(found) == LARGE_ORDER


LARGE_ORDER = [[9, 2, 6], [7, 0, 4], [5, 8, 10], [1, 11, 3]]


def test_a_plan_is_a_sequence() -> None:
    found = planned([(1, 1)] * 10, None, 3, "sentences")
    assert len(found) == 4
    assert [len(batch) for batch in found[1:3]] == [len(found[1]), len(found[2])]
    assert list(found[2:]) == list(found)[2:]
    assert found[-1] == list(found)[-1]
    assert found[:0] == []
    assert found != 3
    assert found != list(found)[1:]
    assert all(type(row) is int for row in found[0])
    with pytest.raises(IndexError):
        found[4]
