"""Laws of the search, with tables whose best sequences can be counted out, and with a real RNN."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from devices import cpu_only
from jaxtyping import Int
from search.table_model import ROWS, VOCAB, TableModel
from torch import Tensor

from nmt.errors import NMTError
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, build_model
from nmt.models.ensemble import Ensemble
from nmt.models.recurrent.rnn import RNNConfig
from nmt.ops.masks import keep_from_lengths
from nmt.search import beam
from nmt.search.beam import SearchStart, search_from
from nmt.search.constraints import Constraint
from nmt.search.forced import force_decode
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.types import Hypothesis

SOURCES = [[5, 3], [9, 4, 6, 8, 3], [3], [7, 7, 4, 3], [12, 6, 3], [5, 4, 11, 9, 8, 6, 3]]


class ConstantModel(TableModel):
    """The given probabilities at every step, whatever came before."""

    def __init__(self, probabilities: dict[int, float], rows: int = ROWS) -> None:
        super().__init__(rows, rows)
        row = torch.full((rows,), -torch.inf)
        for id_, probability in probabilities.items():
            row[id_] = math.log(probability)
        self.table = row.expand(5, 41, rows, rows)


TWO_LAYERS = RNNConfig(embedding=13, hidden=17, layers=2)


def varied_model(config: ModelConfig = TWO_LAYERS, seed: int = 3, factor: float = 2.5) -> Seq2Seq:
    """A small model with weights large enough that its choices vary."""
    torch.manual_seed(seed)
    model = build_model(config, src_vocab=19, tgt_vocab=VOCAB)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)
    return model.eval()


MODELS = pytest.mark.parametrize("model", [TableModel(), varied_model()], ids=["table", "rnn"])


def batch(sources: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
    longest = max(map(len, sources))
    rows = [[*source, *[PAD_ID] * (longest - len(source))] for source in sources]
    return torch.tensor(rows), torch.tensor([len(source) for source in sources])


def run(
    model: Seq2Seq,
    config: SearchConfig,
    sources: Sequence[Sequence[int]] = SOURCES,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    return search(model, *batch(sources), config, constraints=constraints)


def short(bound: int, beam: int, n_best: int = 1, alpha: float = 0.6) -> SearchConfig:
    """A search in which every target has at most `bound` pieces."""
    length = {"length_penalty": alpha, "max_length_factor": 0, "max_length_extra": bound}
    return SearchConfig(beam=beam, n_best=n_best, **length)


def assert_same(hypothesis: Hypothesis, expected: Hypothesis) -> None:
    assert hypothesis.ids == expected.ids
    assert hypothesis.finished == expected.finished
    # A recurrent state carries its rounding on from step to step; in a sum it mostly cancels.
    steps = np.arange(len(hypothesis.ids))
    difference = np.subtract(hypothesis.log_probs, expected.log_probs)
    assert (np.abs(difference) <= 2e-5 + 2e-6 * steps).all()
    assert hypothesis.score == pytest.approx(expected.score, abs=2e-5 * max(1, len(steps)) ** 0.5)
    assert hypothesis.attention.shape == expected.attention.shape
    looks = np.abs(hypothesis.attention - expected.attention).max(axis=1, initial=0)
    assert (looks <= 5e-6 + 5e-7 * steps).all()


def assert_all_same(hypotheses: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    for one, other in zip(hypotheses, expected, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize(
    "model",
    [TableModel(), varied_model(), Ensemble([varied_model(), TableModel()], VOCAB, (1.0, 2.0))],
    ids=["table", "rnn", "ensemble"],
)
@torch.no_grad()
def test_beam_1_is_greedy(model: Seq2Seq) -> None:
    config = SearchConfig(beam=1, allow_unk=False, max_repeats=None)
    allowed = [id_ for id_ in range(VOCAB) if id_ not in (PAD_ID, BOS_ID, UNK_ID)]
    for source, [best] in zip(SOURCES, run(model, config), strict=True):
        src_ids, lengths = batch([source])
        state = model.init_state(model.encode(src_ids, keep_from_lengths(lengths, len(source))))
        ids: list[int] = []
        while len(ids) < 2 * len(source) + 10 and ids[-1:] != [EOS_ID]:
            out = model.step(torch.tensor(ids[-1:] or [BOS_ID]), state)
            state = out.state
            ids.append(max(allowed, key=lambda id_: float(out.logits[0, id_])))
        assert best.ids == tuple(ids)


@MODELS
@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_stopping_early_changes_nothing(model: Seq2Seq, alpha: float) -> None:
    """With all of the beam asked for, nothing is given up before the beam is full of ends."""
    config = SearchConfig(beam=5, n_best=5, length_penalty=alpha, max_length=13)
    everything = run(model, config)
    for n_best in (1, 4):
        some = run(model, config.model_copy(update={"n_best": n_best}))
        for few, all_ in zip(some, everything, strict=True):
            assert_all_same(few, all_[:n_best])


@cpu_only("a GPU looks for the end every four steps")
def test_it_does_stop_early_and_where_a_check_raises() -> None:
    n_steps = 0

    def check() -> None:
        nonlocal n_steps
        n_steps += 1
        if n_steps == 3:
            raise InterruptedError

    model = ConstantModel({EOS_ID: 0.9, 4: 0.05, 5: 0.05})
    [[best]] = search(model, *batch([[5, 3]]), short(40, beam=3), check)
    assert best.ids == (EOS_ID,)
    # 0.05^t / lp(40) has fallen below 0.9 / lp(1) at once.
    assert n_steps == 1
    with pytest.raises(InterruptedError):
        search(ConstantModel({4: 1.0}), *batch(SOURCES), short(9, beam=2), check)


@MODELS
@pytest.mark.parametrize("beam", [1, 2, 7])
def test_hypotheses_are_sorted_distinct_and_the_same_when_forced(model: Seq2Seq, beam: int) -> None:
    """No piece is padding, and neither the batch nor forced decoding changes a number."""
    for allow_unk in (True, False):
        config = SearchConfig(beam=beam, n_best=beam, length_penalty=0.8, max_length=13)
        config = config.model_copy(update={"allow_unk": allow_unk})
        results, backwards = run(model, config), run(model, config, SOURCES[::-1])[::-1]
        produced = {id_ for hypotheses in results for h in hypotheses for id_ in h.ids}
        assert produced <= set(range(VOCAB)) - {PAD_ID, BOS_ID}
        assert UNK_ID not in produced or allow_unk
        assert UNK_ID in produced or beam < 7 or not allow_unk
        for source, hypotheses, others in zip(SOURCES, results, backwards, strict=True):
            [alone] = run(model, config, [source])
            assert_all_same(hypotheses, alone)
            assert_all_same(others, alone)
            assert len(hypotheses) == len({h.ids for h in hypotheses}) == beam
            order = [(not h.finished, -h.score) for h in hypotheses]
            assert order == sorted(order)
            src = batch([source] * beam)
            forced = force_decode(model, *src, [h.ids for h in hypotheses], length_penalty=0.8)
            assert_all_same(hypotheses, forced)
            for hypothesis in hypotheses:
                assert hypothesis.finished == (hypothesis.ids[-1] == EOS_ID)
                assert EOS_ID not in hypothesis.ids[:-1]
                assert hypothesis.attention.shape == (len(hypothesis.ids), len(source))
                assert hypothesis.attention.dtype == np.float32
                np.testing.assert_allclose(hypothesis.attention.sum(axis=1), 1, atol=1e-5)
                penalty = ((5 + len(hypothesis.ids)) / 6) ** 0.8
                assert hypothesis.score == pytest.approx(sum(hypothesis.log_probs) / penalty)


@MODELS
def test_forcing_takes_any_lengths_and_heads_have_the_mean(model: Seq2Seq) -> None:
    targets = [(4, EOS_ID), (6,), (6, 5, 4), (EOS_ID,), (4,), (5, EOS_ID)]
    without = force_decode(model, *batch(SOURCES), targets, 1.0)
    assert all(forced.heads is None for forced in without)
    together = force_decode(model, *batch(SOURCES), targets, 1.0, with_heads=True)
    for source, target, plain, forced in zip(SOURCES, targets, without, together, strict=True):
        [alone] = force_decode(model, *batch([source]), [target], 1.0, with_heads=True)
        assert_same(forced, alone)
        assert_same(forced, plain)
        assert (forced.ids, forced.finished) == (target, target[-1] == EOS_ID)
        assert forced.heads.shape == (len(model.head_names), len(target), len(source))
        assert forced.heads.dtype == np.float32
        np.testing.assert_allclose(forced.heads.sum(axis=2), 1, atol=1e-5)
        np.testing.assert_allclose(forced.heads.mean(axis=0), forced.attention, atol=1e-6)
        np.testing.assert_allclose(forced.heads, alone.heads, atol=2e-6)


def test_the_length_bound_follows_each_source() -> None:
    model = ConstantModel({4: 0.6, 5: 0.4})  # never eos
    lengths = {"max_length_factor": 1.5, "max_length_extra": 2, "max_length": 9}
    results = run(model, SearchConfig(beam=2, max_repeats=None, **lengths))
    assert [len(best.ids) for [best] in results] == [5, 9, 3, 8, 6, 9]
    assert not any(best.finished for [best] in results)
    assert all(best.ids == (4,) * len(best.ids) for [best] in results)
    [[best]] = run(model, short(0, beam=2), [[3]])
    assert best.ids == (4,)


def test_ties_and_few_sequences_and_no_sentences() -> None:
    """Ties go to the lowest id; there may be fewer sequences than were asked for."""
    model = ConstantModel({4: 0.25, 5: 0.25, 6: 0.25, EOS_ID: 0.25})
    [hypotheses] = run(model, short(3, beam=3, n_best=3, alpha=0.0), [[5, 3]])
    assert [h.ids for h in hypotheses] == [(EOS_ID,), (4, EOS_ID), (4, 4, EOS_ID)]
    [hypotheses] = run(ConstantModel({EOS_ID: 1.0}), short(5, beam=4, n_best=4), [[5, 3]])
    assert [h.ids for h in hypotheses] == [(EOS_ID,)]
    empty = torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    assert search(TableModel(), *empty, SearchConfig()) == []


def test_from_another_first_piece() -> None:
    """The caller gives the ids that are read before the first piece: here another for each row."""
    model = varied_model()
    src_ids, lengths = batch(SOURCES)
    keep = keep_from_lengths(lengths, src_ids.shape[1])
    state = model.init_state(model.encode(src_ids, keep))
    first_ids = torch.arange(len(SOURCES)) + 4
    start = SearchStart(model.step, state, first_ids, lengths.tolist(), src_ids.shape[1])
    for row, [best] in enumerate(search_from(start, short(5, beam=3))):
        tgt_in = torch.tensor([[row + 4, *best.ids[:-1]]])
        logits = model(src_ids[[row]], keep[[row]], tgt_in).logits
        log_probs = logits.log_softmax(dim=-1)[0, range(len(best.ids)), list(best.ids)]
        np.testing.assert_allclose(best.log_probs, log_probs.tolist(), atol=1e-5)


def test_nan_is_said() -> None:
    model = TableModel()
    model.table[:] = math.nan
    with pytest.raises(NMTError, match=r"not numbers \(NaN\)"):
        run(model, SearchConfig())


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 5, "n_best": 3},
        {"beam": 4, "no_repeat_ngram": 2, "min_length": 3},
        {"beam": 1, "n_best": 2, "sampling": {"top_k": 5, "seed": 3}},
    ],
    ids=lambda options: "-".join(options),
)
@MODELS
def test_rows_that_are_finished_may_stay(model: Seq2Seq, options, monkeypatch) -> None:
    """As on a GPU, which would wait for the number of those that remain."""
    config = SearchConfig.model_validate({"max_length_extra": 20, **options})
    expected = run(model, config)
    monkeypatch.setattr(beam, "_keeps_all_rows", lambda device: True)
    for hypotheses, references in zip(run(model, config), expected, strict=True):
        assert_all_same(hypotheses, references)
