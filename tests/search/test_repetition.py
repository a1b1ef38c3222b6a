"""The bound on repetitions: what is blocked, by its definition, and that no search exceeds it."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from search.table_model import ROWS, TableModel
from search.test_search import (
    SOURCES,
    ConstantModel,
    assert_all_same,
    assert_best,
    batch,
    every_sequence,
    run,
    short,
)

from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.search.repetition import Repetitions, n_repetitions
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

IDS = st.lists(st.sampled_from([UNK_ID, 4, 5, 6]), max_size=24)


def most_repeats(ids: Sequence[int]) -> int:
    """How often the same pieces come in a row, a last repetition that has only begun included."""
    most = 1
    for period in range(1, len(ids)):
        equal = [a == b for a, b in zip(ids, ids[period:], strict=False)]
        for same, group in itertools.groupby(equal):
            if same:
                most = max(most, -(-len(list(group)) // period) + 1)
    return most


@settings(max_examples=100, deadline=None)
@given(ids=IDS, allowed=st.integers(2, 4))
def test_blocked_is_what_would_repeat_too_often(ids: list[int], allowed: int) -> None:
    """Step by step, for the part of the ids that is allowed."""
    repetitions = Repetitions.initial(np.array([allowed]))
    for n, id_ in enumerate(ids):
        rows, blocked = repetitions.blocked()
        assert rows == [0] * len(blocked)
        expected = {x for x in range(7) if most_repeats([*ids[:n], x]) > allowed}
        assert set(blocked) == expected
        if id_ in expected:
            return
        repetitions = repetitions.after(None, torch.tensor([id_]))


@settings(max_examples=100, deadline=None)
@given(sources=st.lists(IDS, min_size=1, max_size=4), at_least=st.integers(2, 4))
def test_a_source_allows_its_own_repetitions(sources: list[list[int]], at_least: int) -> None:
    src_ids, lengths = batch([[*source, EOS_ID] for source in sources])
    keep = keep_from_lengths(lengths, src_ids.shape[1])
    expected = []
    for source in sources:
        different = [id_ if id_ != UNK_ID else -place for place, id_ in enumerate(source)]
        expected.append(max(at_least, most_repeats(different)))
    assert n_repetitions(src_ids, keep, at_least).tolist() == expected


class Cycle(TableModel):
    """Repeats the pieces `cycle` forever, with little left for any other piece."""

    def __init__(self, cycle: Sequence[int], seed: int = 0) -> None:
        super().__init__(ROWS, seed=seed)
        for piece, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            self.table[:, :, piece, after] += 12
        self.table[..., [PAD_ID, BOS_ID]] = -1e4


LOOPING = pytest.mark.parametrize(
    "model",
    [ConstantModel({4: 0.97, 5: 0.02, 6: 0.01}), Cycle([4, 6]), Cycle([4, 5, 6, 7, 8, 9])],
    ids=["one piece", "two pieces", "six pieces"],
)


@LOOPING
@pytest.mark.parametrize(("beam", "max_repeats"), [(1, 2), (4, 3), (4, 5)])
def test_a_loop_ends(model: Seq2Seq, beam: int, max_repeats: int) -> None:
    long = {"max_length_factor": 0, "max_length_extra": 60}
    free = SearchConfig(beam=beam, max_repeats=None).model_copy(update=long)
    assert most_repeats(run(model, free, [[5, 3]])[0][0].ids) > 5
    bound = free.model_copy(update={"max_repeats": max_repeats, "n_best": beam})
    for hypotheses in run(model, bound):
        assert max(most_repeats(h.ids) for h in hypotheses) <= max_repeats


def test_a_source_that_repeats_may_be_followed() -> None:
    model = ConstantModel({4: 0.97, 5: 0.02, EOS_ID: 0.01})
    config = SearchConfig(beam=1, max_length_factor=0, max_length_extra=12)
    [[plain]] = run(model, config, [[5, 3]])
    [[laughing]] = run(model, config, [[9, 8, 8, 8, 8, 8, 3]])
    assert most_repeats(plain.ids) == 3
    assert laughing.ids[:6] == (4, 4, 4, 4, 4, 5)
    [[unknown]] = run(model, config, [[9, UNK_ID, UNK_ID, UNK_ID, UNK_ID, UNK_ID, 3]])
    assert unknown.ids == plain.ids


@pytest.mark.parametrize("model", [TableModel(), ConstantModel({4: 0.9, 5: 0.06, EOS_ID: 0.04})])
def test_a_wide_beam_is_brute_force_over_what_is_allowed(model: Seq2Seq) -> None:
    sequences = [ids for ids in every_sequence(bound=4) if most_repeats(ids) <= 2]
    config = short(4, 400, 5, alpha=1.0).model_copy(update={"max_repeats": 2})
    sources = SOURCES[:2]
    assert_best(model, config, sources, run(model, config, sources), sequences)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_batch_is_its_sentences_with_repetitions_blocked(beam: int) -> None:
    model = Cycle([4, 6, 5])
    sources = [*SOURCES, [9, 8, 8, 8, 8, 8, 3]]
    config = SearchConfig(beam=beam, n_best=beam, max_repeats=2)
    for source, hypotheses in zip(sources, run(model, config, sources), strict=True):
        [alone] = run(model, config, [source])
        assert_all_same(hypotheses, alone)
