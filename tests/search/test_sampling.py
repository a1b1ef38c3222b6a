"""Laws of sampling: the model's distribution, and no influence of batch, order or other samples."""

from collections import Counter

import pytest
import torch
from search.table_model import VOCAB, TableModel
from search.test_search import SOURCES, assert_all_same, batch, varied_model
from text.draws import assert_drawn_from

from nmt.models.ensemble import Ensemble
from nmt.search.forced import force_decode
from nmt.search.search import search
from nmt.search.search_config import SamplingConfig, SearchConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

CONFIG = SearchConfig(max_length=9, length_penalty=0.8)
MODELS = pytest.mark.parametrize(
    "model",
    [TableModel(), varied_model(), Ensemble([varied_model(), TableModel(seed=1)], VOCAB)],
    ids=["table", "rnn", "ensemble"],
)


def samples_of(model, sources: list[list[int]] = SOURCES, **keys: object):
    n_samples = keys.pop("n", 5)
    config = CONFIG.model_copy(
        update={"n_best": n_samples, "sampling": SamplingConfig.model_validate(keys)}
    )
    return search(model, *batch(sources), config)


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingConfig(epsilon=0.15),
        SamplingConfig(temperature=0.6, top_k=3),
        SamplingConfig(temperature=1.7, top_p=0.8),
        SamplingConfig(top_k=4, top_p=0.7),
    ],
)
def test_samples_follow_the_distribution(sampling: SamplingConfig) -> None:
    """Pearson's chi-square over all sequences of up to 3 pieces, at about 4 standard deviations."""
    model = TableModel()
    model.table /= 2
    n, bound = 4_000, 3
    config = SearchConfig(max_length=bound, max_repeats=None, sampling=sampling, n_best=n)
    [samples] = search(model, *batch([[5, 3]]), config)
    expected: dict[tuple[int, ...], float] = {(): 1.0}
    for step in range(bound):
        for ids in [ids for ids in expected if len(ids) == step and EOS_ID not in ids]:
            logits = model.table[8 % 5, step, ids[-1] if ids else BOS_ID][:VOCAB]
            probs = _expected(logits, sampling)
            mass = expected.pop(ids)
            for id_, p in enumerate((probs / probs.sum()).tolist()):
                if p:
                    expected[(*ids, id_)] = mass * p
    assert_drawn_from(Counter(sample.ids for sample in samples), expected)


def _expected(logits: torch.Tensor, sampling: SamplingConfig) -> torch.Tensor:
    """The distribution of draws: temperature, top-k, top-p and epsilon, applied in this order."""
    probs = (logits / sampling.temperature).softmax(dim=0)
    probs[[PAD_ID, BOS_ID]] = 0  # never produced
    order = probs.argsort(descending=True).tolist()
    if sampling.top_k is not None:
        probs[order[sampling.top_k :]] = 0
    mass, nucleus = 0.0, []
    for id_ in order:
        if mass < sampling.top_p * float(probs.sum()):
            nucleus.append(id_)
        mass += float(probs[id_])
    probs[[id_ for id_ in order if id_ not in nucleus]] = 0
    probs[probs < min(sampling.epsilon, float(probs.max()))] = 0
    return probs


@MODELS
def test_neither_batch_nor_order_nor_number_changes_a_sample(model) -> None:
    """Scores and attention equal the results of forced decoding."""
    together = samples_of(model, epsilon=0.1)
    backwards = samples_of(model, SOURCES[::-1], epsilon=0.1)[::-1]
    more = [samples[:5] for samples in samples_of(model, epsilon=0.1, n=8)]
    for source, *results in zip(SOURCES, together, backwards, more, strict=True):
        [alone] = samples_of(model, [source], epsilon=0.1)
        for samples in results:
            assert_all_same(samples, alone)
    assert len({sample.ids for samples in together for sample in samples}) > 1
    other = samples_of(model, seed=2, epsilon=0.1)
    assert [[h.ids for h in samples] for samples in other] != [
        [h.ids for h in samples] for samples in together
    ]
    for source, samples in zip(SOURCES, together, strict=True):
        src = batch([source] * len(samples))
        forced = force_decode(model, *src, [sample.ids for sample in samples], length_penalty=0.8)
        assert_all_same(samples, forced)
