"""Laws of deletion, insertion and agreement, and the experiment that measures them."""

import numpy as np
import pytest
import torch

from nmt.explain.attribution import inputs
from nmt.lab.faithfulness import agreement, area, curves, log_probs
from nmt.lab.small_language import translate
from nmt.lab.translators import train
from nmt.lab.truth import PLANTED, RANDOM, TruthOptions, attributions, encode_pair, run
from nmt.models.base import Seq2Seq
from nmt.text.vocabulary import UNK_ID

PAIR = translate("my big red car follows this cat")
ENCODED = encode_pair(PAIR)
N_WORDS, N_SRC = len(PAIR.french), len(PAIR.english) + 1
OPTIONS = TruthOptions(hidden=8, embedding=4, updates=2, batch=3, sentences=2, models=2)


@pytest.fixture(scope="module", params=OPTIONS.configs)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return train(OPTIONS.configs[request.param], frozenset([PAIR]), OPTIONS, OPTIONS.unknown)


def random_scores(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, N_WORDS, N_SRC, generator=torch.Generator().manual_seed(2))


def test_measures_of_known_attributions() -> None:
    """The planted word has all of a one-hot one; the area is a mean over the share of words."""
    sources = torch.tensor(PAIR.sources)
    for shift in (0, 1):
        hit, mass = agreement(torch.eye(N_SRC)[(sources + shift) % N_SRC], sources)
        assert hit.tolist() == [shift == 0] * N_WORDS
        assert mass.tolist() == [1.0 - shift] * N_WORDS
    assert area(torch.full((2, 6), -3.0)).tolist() == [-3.0, -3.0]
    assert area(torch.linspace(0, 1, 9)).item() == pytest.approx(0.5)


def test_curves_end_at_the_source_and_at_unknown_words(model: Seq2Seq) -> None:
    src_ids = ENCODED.src_ids.repeat(2, 1)
    src_ids[1, :-1] = UNK_ID
    logits = model(src_ids, src_ids >= 0, ENCODED.tgt_in.repeat(2, 1)).logits[:, :N_WORDS]
    ends = logits.log_softmax(dim=-1)[:, torch.arange(N_WORDS), ENCODED.tgt_out[:-1]].detach()
    deletion, insertion = curves(model, ENCODED, random_scores(3))
    assert deletion.shape == insertion.shape == (3, N_WORDS, N_SRC)
    for curve, (start, end) in ((deletion, ends), (insertion, ends.flip(0))):
        torch.testing.assert_close(curve[..., 0], start.expand(3, -1))
        torch.testing.assert_close(curve[..., -1], end.expand(3, -1))


def test_each_step_removes_or_restores_the_next_word(model: Seq2Seq) -> None:
    """The insertion is the deletion of the opposite scores, backwards."""
    scores = random_scores()
    deletion, insertion = curves(model, ENCODED, scores)
    order = scores[:, :-1].argsort(dim=-1, descending=True)
    for t, words in enumerate(order):
        for n_words in range(N_SRC):
            keep = torch.ones(1, N_SRC, dtype=torch.bool)
            keep[0, words[:n_words]] = False
            expected = log_probs(model, ENCODED, keep)[0, t]
            torch.testing.assert_close(deletion[t, n_words], expected)
    torch.testing.assert_close(insertion, curves(model, ENCODED, -scores).deletion.flip(-1))


def test_shares_sum_to_one_and_planted_words_come_first(model: Seq2Seq) -> None:
    shares = attributions(model, PAIR, torch.Generator().manual_seed(1))
    assert {PLANTED, "attention", "norms", "erasure", RANDOM} <= set(shares)
    for values in shares.values():
        assert values.shape == (N_WORDS, N_SRC)
        torch.testing.assert_close(values.sum(dim=-1), torch.ones(N_WORDS))
    assert shares[PLANTED].argmax(dim=-1).tolist() == list(PAIR.sources)
    assert shares[PLANTED][0, 3].item() == pytest.approx(1 / 3)  # "ma" agrees with "car"


def test_a_run_measures_every_method_once_per_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_POINTS", (2,))
    result = run(OPTIONS)
    for name, methods in result.scores.items():
        assert result.accuracy[name].shape == (2,)
        np.testing.assert_array_equal(methods[PLANTED].measures[:, :2], 1)
        for scored in methods.values():
            assert scored.measures.shape == (2, 5)
            assert np.all(scored.measures[:, 0] <= scored.measures[:, 1])
            ends = scored.curves[:, 0, [0, -1]], scored.curves[:, 1, [-1, 0]]
            np.testing.assert_allclose(*ends, rtol=1e-5)
    assert set(result.scores["Transformer"]) > set(result.scores["GRU, forward"])
