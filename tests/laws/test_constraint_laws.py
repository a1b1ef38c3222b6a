"""Laws of a search with given prefixes and given attention, for every decoder and attention."""

import numpy as np
import pytest
import torch
from laws.family import TGT_VOCAB, sources
from search.test_search import assert_all_same, assert_same

from nmt.batches.batching import pad_ids
from nmt.errors import ConfigError
from nmt.models.attention.no_attention import NoAttention
from nmt.models.base import Seq2Seq
from nmt.models.ensemble import Ensemble
from nmt.search.constraints import Constraint
from nmt.search.forced import force_decode
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.types import Hypothesis

LENGTHS = (7, 3, 5)
CONFIG = SearchConfig(beam=3, n_best=2, max_length=5, length_penalty=0.7)
SEARCHED = [
    *("rnn", "rnn-fixed-context", "rnn-luong-two-layers-local", "rnn-conditional-two-layers-gate"),
    *("rnn-multi-head", "rnn-hard", "lstm-copy-cosine-coverage-two-layers"),
    *("transformer", "transformer-relative"),
]
pytestmark = pytest.mark.parametrize("model", SEARCHED, indirect=True)

BATCH = pad_ids(sources(LENGTHS)), torch.tensor(LENGTHS)


def _search(model: Seq2Seq, constraints: list[Constraint] | None = None) -> list[list[Hypothesis]]:
    return search(model, *BATCH, CONFIG, constraints=constraints or ())


def _force(model: Seq2Seq, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    ids = [hypothesis.ids for hypothesis in hypotheses]
    return force_decode(model, *BATCH, ids, CONFIG.length_penalty, with_heads=True)


def _pieces(hypothesis: Hypothesis) -> tuple[int, ...]:
    return hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids


def test_after_a_prefix_the_score_is_that_of_forced_decoding(model: Seq2Seq) -> None:
    """An empty prefix is no constraint, and the prefix of the best gives the best."""
    free = _search(model)
    for ours, theirs in zip(free, _search(model, [Constraint(())] * 3), strict=True):
        assert_all_same(ours, theirs)
    for n in (0, 1, CONFIG.max_length - 1):
        prefixes = [_pieces(hypotheses[-1])[:n] for hypotheses in free]
        constrained = _search(model, [Constraint(prefix) for prefix in prefixes])
        for rank in range(CONFIG.n_best):
            candidates = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in constrained]
            assert_all_same(candidates, _force(model, candidates))
            for prefix, hypothesis in zip(prefixes, candidates, strict=True):
                assert hypothesis.ids[: len(prefix)] == prefix
    best = [Constraint(_pieces(hypotheses[0])[: CONFIG.max_length - 2]) for hypotheses in free]
    for ours, theirs in zip(free, _search(model, best), strict=True):
        if ours[0].finished:  # a prefix moves the bound on length
            assert theirs[0].score >= ours[0].score - 1e-4


def test_a_prefix_may_be_what_a_search_never_gives(model: Seq2Seq) -> None:
    """Beyond the bound on length, and repeated more often than is allowed."""
    prefix = (5,) * 11
    for [hypothesis, *_] in _search(model, [Constraint(prefix)] * 3):
        assert hypothesis.ids[:11] == prefix
        assert len(hypothesis.ids) == 12


def test_the_model_s_own_rows_change_nothing(model: Seq2Seq) -> None:
    free = [hypotheses[0] for hypotheses in _search(model)]
    n = min(len(_pieces(hypothesis)) for hypothesis in free)
    prefixes = [_pieces(hypothesis)[:n] for hypothesis in free]
    constraints = []
    for prefix, forced in zip(prefixes, _force(model, free), strict=True):
        rows = dict(enumerate(forced.heads.swapaxes(0, 1)[: n + 1]))
        constraints.append(Constraint(prefix, rows))
    plain = _search(model, [Constraint(prefix) for prefix in prefixes])
    for ours, theirs in zip(plain, _search(model, constraints), strict=True):
        assert_same(ours[0], theirs[0])


def test_given_rows_are_what_the_model_uses(model: Seq2Seq) -> None:
    """All the weight on the first place, for one sentence of the batch, at steps 0 and 1."""
    prefix = (5,)
    row = np.zeros((len(model.head_names), LENGTHS[0]), np.float32)
    row[:, 0] = 1
    plain = _search(model, [Constraint(prefix)] * 3)
    steered = _search(model, [Constraint(prefix, {0: row, 1: row}), *[Constraint(prefix)] * 2])
    for ours, theirs in zip(plain[1:], steered[1:], strict=True):
        assert_same(ours[0], theirs[0])
    for hypothesis in steered[0]:
        np.testing.assert_array_equal(hypothesis.attention[:2], row[:1].repeat(2, axis=0))
    same_weights = np.allclose(plain[0][0].attention[:2], steered[0][0].attention[:2], atol=1e-3)
    if not same_weights and not any(isinstance(part, NoAttention) for part in model.modules()):
        assert abs(plain[0][0].log_probs[0] - steered[0][0].log_probs[0]) > 1e-6


def test_an_ensemble_takes_prefixes_but_no_weights(model: Seq2Seq) -> None:
    both = Ensemble([model, model], TGT_VOCAB).eval()
    assert all(hypotheses[0].ids[0] == 5 for hypotheses in _search(both, [Constraint((5,))] * 3))
    row = np.full((2, LENGTHS[0]), 1 / LENGTHS[0], np.float32)
    with pytest.raises(ConfigError, match=r"^attention weights: got an ensemble"):
        _search(both, [Constraint((), {0: row})] * 3)
