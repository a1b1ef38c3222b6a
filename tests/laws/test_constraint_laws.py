"""Laws of a search with given prefixes and given attention, for every architecture.

Those that share their decoder and attention with one of USUAL run with the slow tests only.
"""

import numpy as np
import pytest
import torch
from laws.family import MODELS, SRC_VOCAB

from nmt.data.batching import pad_ids
from nmt.decoding.constraints import Constraint
from nmt.decoding.forced import force_decode
from nmt.decoding.search import search
from nmt.decoding.search_config import SearchConfig
from nmt.errors import ConfigError
from nmt.models.attention.fixed import FixedContext
from nmt.models.base import Seq2Seq
from nmt.models.ensemble import Ensemble
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.types import Hypothesis

LENGTHS = (7, 3, 5)
CONFIG = SearchConfig(beam=3, n_best=2, max_length=5, length_penalty=0.7)
USUAL = {
    "rnn",
    "rnn-fixed-context",
    "rnn-luong-two-layers-local",
    "rnn-conditional-two-layers-gate",
    "rnn-multi-head",
    "rnn-hard",
    "rnn-sparse-coverage",
    "lstm-luong-local-two-layers",
    "lstm-copy-coverage-two-layers",
    "transformer",
    "transformer-post",
    "transformer-relative",
}
pytestmark = pytest.mark.parametrize(
    "model",
    [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in MODELS],
    indirect=True,
)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    rows = [
        [*torch.randint(4, SRC_VOCAB, (n - 1,), generator=generator).tolist(), EOS_ID]
        for n in LENGTHS
    ]
    return pad_ids(rows), torch.tensor(LENGTHS)


def found(model: Seq2Seq, constraints: list[Constraint] | None = None) -> list[list[Hypothesis]]:
    return search(model, *batch(), CONFIG, constraints=constraints or ())


def forced(model: Seq2Seq, ids: list[tuple[int, ...]]) -> list[Hypothesis]:
    return force_decode(model, *batch(), ids, CONFIG.length_penalty, with_heads=True)


def pieces(hypothesis: Hypothesis) -> tuple[int, ...]:
    return hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids


def assert_same(one: Hypothesis, other: Hypothesis) -> None:
    assert one.ids == other.ids
    assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
    assert one.score == pytest.approx(other.score, abs=1e-4)
    np.testing.assert_allclose(one.attention, other.attention, atol=1e-4)


def test_what_begins_with_a_prefix_has_the_score_of_forced_decoding(model: Seq2Seq) -> None:
    free = found(model)
    for n in (0, 1, CONFIG.max_length - 1):
        prefixes = [pieces(hypotheses[-1])[:n] for hypotheses in free]
        given = found(model, [Constraint(prefix) for prefix in prefixes])
        for rank in range(CONFIG.n_best):
            chosen = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in given]
            for prefix, hypothesis in zip(prefixes, chosen, strict=True):
                assert hypothesis.ids[: len(prefix)] == prefix
            for one, other in zip(chosen, forced(model, [h.ids for h in chosen]), strict=True):
                assert_same(one, other)


def test_no_prefix_is_no_constraint(model: Seq2Seq) -> None:
    for ours, theirs in zip(found(model), found(model, [Constraint()] * 3), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)


def test_the_prefix_of_the_best_gives_the_best(model: Seq2Seq) -> None:
    free = found(model)
    for n in (1, CONFIG.max_length - 2):
        prefixes = [Constraint(pieces(hypotheses[0])[:n]) for hypotheses in free]
        for ours, theirs in zip(free, found(model, prefixes), strict=True):
            if ours[0].finished:  # a prefix moves the bound on length
                assert theirs[0].score >= ours[0].score - 1e-4


def test_a_prefix_may_be_what_a_search_never_gives(model: Seq2Seq) -> None:
    """Beyond the bound on length, and repeated more often than is allowed."""
    prefix = (5,) * 11
    for [hypothesis, *_] in found(model, [Constraint(prefix)] * 3):
        assert hypothesis.ids[:11] == prefix
        assert len(hypothesis.ids) == 12


def test_the_model_s_own_rows_change_nothing(model: Seq2Seq) -> None:
    free = [hypotheses[0] for hypotheses in found(model)]
    heads = [each.heads for each in forced(model, [each.ids for each in free])]
    n = min(len(pieces(each)) for each in free)
    prefixes = [pieces(each)[:n] for each in free]
    own = [
        Constraint(prefix, {t: each[:, t] for t in range(n + 1) if t < each.shape[1]})
        for prefix, each in zip(prefixes, heads, strict=True)
        if each is not None
    ]
    plain = found(model, [Constraint(prefix) for prefix in prefixes])
    for ours, theirs in zip(plain, found(model, own), strict=True):
        assert_same(ours[0], theirs[0])


def test_given_rows_are_what_the_model_uses(model: Seq2Seq) -> None:
    """All the weight on the first place, for one sentence of the batch, at steps 0 and 1."""
    prefix = (5,)
    row = np.zeros((len(model.head_names), LENGTHS[0]), np.float32)
    row[:, 0] = 1
    plain = found(model, [Constraint(prefix)] * 3)
    given = found(model, [Constraint(prefix, {0: row, 1: row}), *[Constraint(prefix)] * 2])
    for ours, theirs in zip(plain[1:], given[1:], strict=True):
        assert_same(ours[0], theirs[0])
    for hypothesis in given[0]:
        np.testing.assert_array_equal(hypothesis.attention[:2], row[:1].repeat(2, axis=0))
    same_weights = np.allclose(plain[0][0].attention[:2], given[0][0].attention[:2], atol=1e-3)
    if not same_weights and not _has_fixed_context(model):
        assert abs(plain[0][0].log_probs[0] - given[0][0].log_probs[0]) > 1e-6


def test_an_ensemble_takes_prefixes_but_no_weights(model: Seq2Seq) -> None:
    n_pieces = model.step(torch.full((3,), BOS_ID), _state(model)).logits.shape[1]
    both = Ensemble([model, model], n_pieces).eval()
    assert all(h[0].ids[0] == 5 for h in found(both, [Constraint((5,))] * 3))
    row = np.full((2, LENGTHS[0]), 1 / LENGTHS[0], np.float32)
    with pytest.raises(ConfigError, match="takes no weights from outside"):
        found(both, [Constraint((), {0: row}), Constraint(), Constraint()])


def _has_fixed_context(model: Seq2Seq) -> bool:
    return any(isinstance(module, FixedContext) for module in model.modules())


def _state(model: Seq2Seq):  # type: ignore[no-untyped-def]
    src_ids, _ = batch()
    return model.init_state(model.encode(src_ids, src_ids != PAD_ID))
