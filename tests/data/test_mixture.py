"""Mixtures: exact shares, every row once a pass, the same for any order of asking."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt.data.batching import Batcher, EncodedCorpus
from nmt.data.mixture import Mixture, mixture_of
from nmt.data.sources import DataConfig, SplitConfig

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=4)


def rows_of(mixture: Mixture, epoch: int) -> list[int]:
    found: list[int] = mixture.rows(np.arange(sum(mixture.sizes)), epoch).tolist()
    return found


@given(sizes=SIZES, data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_row_comes_once_in_each_pass(sizes: list[int], data: st.DataObject) -> None:
    """After any number of epochs the rows of a corpus have come equally often, but for one."""
    n = len(sizes)
    weights = data.draw(st.lists(st.floats(0.01, 100), min_size=n, max_size=n))
    mixture = mixture_of(sizes, weights, None, seed=1)
    if mixture is None:
        return
    assert sum(mixture.quotas) == sum(sizes)
    shares = np.array(weights) / sum(weights) * sum(sizes)
    assert np.abs(np.array(mixture.quotas) - shares).max() < 1
    counts: Counter[int] = Counter()
    bounds = np.cumsum([0, *sizes])
    for epoch in range(4):
        found = rows_of(mixture, epoch)
        counts.update(found)
        for i, quota in enumerate(mixture.quotas):
            of_corpus = [counts[row] for row in range(bounds[i], bounds[i + 1])]
            assert sum(of_corpus) == (epoch + 1) * quota
            assert max(of_corpus) - min(of_corpus) <= 1


def test_the_temperature_flattens_the_shares() -> None:
    sizes = [10_000, 100]
    assert mixture_of(sizes, None, None, 1) is mixture_of(sizes, None, 1.0, 1) is None
    assert mixture_of(sizes, [1e4, 100.0], None, 1) is None  # each pair once an epoch
    warm = mixture_of(sizes, None, 2.0, 1)
    assert warm is not None
    assert warm.quotas == (9182, 918)  # 100 to 10
    hot = mixture_of(sizes, None, 1e9, 1)
    assert hot is not None
    assert hot.quotas == (5050, 5050)


def test_draws_can_be_asked_one_by_one() -> None:
    mixture = mixture_of([50, 7, 3], [1.0, 1.0, 1.0], None, seed=3)
    assert mixture is not None
    whole = rows_of(mixture, 5)
    assert [int(mixture.rows(np.array([i]), 5)[0]) for i in (59, 0, 33)] == [
        whole[i] for i in (59, 0, 33)
    ]
    other = mixture_of([50, 7, 3], [1.0, 1.0, 1.0], None, seed=4)
    assert other is not None
    assert rows_of(other, 5) != whole


def test_batches_hold_the_rows_that_were_drawn() -> None:
    """Lengths, which the plan goes by, are those of the rows in the batch."""
    ids = [(5,) * (1 + n % 7) for n in range(40)] + [(6,) * 9] * 4
    mixture = mixture_of([40, 4], [1.0, 1.0], None, seed=1)
    corpus = EncodedCorpus(ids, ids, mixture=mixture)
    batcher = Batcher(corpus, 5, "sentences", seed=1)
    for epoch in (0, 1):
        second = 0
        for rows in batcher.plan(epoch):
            batch = corpus.batch(rows, epoch)
            assert batch.n_positions == batcher.n_positions(rows, epoch)
            second += int((batch.src_ids == 6).any(dim=1).sum())
        assert second == 22


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"mix": [{"tsv": "a"}], "tsv": "b"}, "exactly one of: .*, mix"),
        ({"mix": [{"tsv": "a", "weight": 1}, {"tsv": "b"}]}, "a weight for each corpus, or for"),
        ({"mix": [{"tsv": "a", "weight": 1}], "temperature": 2}, "exclude each other"),
        ({"mix": [{"tsv": "a"}], "first": 3}, "first goes into the corpora"),
        ({"tsv": "a", "temperature": 2}, "temperature needs mix"),
        ({"tsv": "a", "columns": ["x", "y"]}, "columns needs parquet"),
        ({"mix": []}, "at least 1 item"),
        ({"mix": [{"tsv": "a", "mix": []}]}, "Extra inputs"),
    ],
)
def test_settings_that_contradict_each_other(keys: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        SplitConfig.model_validate(keys)


def test_only_the_training_set_is_mixed() -> None:
    mixed = SplitConfig.model_validate({"mix": [{"tsv": Path("a")}]})
    DataConfig(train=mixed)
    with pytest.raises(ValidationError, match=r"only data\.train may be a mixture"):
        DataConfig(train=mixed, valid=mixed)
