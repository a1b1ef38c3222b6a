"""Laws of weights as an alignment reads them: later steps, chosen heads, norms of values."""

import itertools

import pytest
import torch
from laws.family import model_of
from search.test_search import batch

from nmt.ops.masks import keep_from_lengths
from nmt.search.forced import alignment_weights, force_decode
from nmt.text.vocabulary import EOS_ID

SOURCES = [[5, 6, 7, 4, EOS_ID], [9, EOS_ID], [6, 5, 9, EOS_ID]]
TARGETS = [[4, 5], [6, 7, 8, 4], [5]]


def read(model, which: slice = slice(None), **how: object):
    rows = alignment_weights(model, *batch(SOURCES[which]), TARGETS[which], **how)  # type: ignore[arg-type]
    return [torch.tensor(weights) for weights in rows]


def first_state(model):
    src_ids, lengths = batch(SOURCES)
    return model.init_state(model.encode(src_ids, keep_from_lengths(lengths, src_ids.shape[1])))


@pytest.mark.parametrize(
    "name", ["rnn", "rnn-conditional", "rnn-luong", "rnn-multi-head", "transformer"]
)
def test_a_batch_equals_its_sentences_whatever_the_shift(name: str) -> None:
    """Neither another sentence nor padding changes a weight; rows sum to 1.

    Forced decoding has a row for each piece and one for eos: those are shifts of 0 and 1.
    """
    model = model_of(name).eval()
    for shift, by_norm in ((0, True), (2, False)):
        for i, weights in enumerate(read(model, shift=shift, by_norm=by_norm)):
            assert weights.shape == (len(TARGETS[i]), len(SOURCES[i]))
            torch.testing.assert_close(weights.sum(dim=1), torch.ones(len(weights)))
            [alone] = read(model, slice(i, i + 1), shift=shift, by_norm=by_norm)
            torch.testing.assert_close(alone, weights)
    forced = force_decode(model, *batch(SOURCES), [[*ids, EOS_ID] for ids in TARGETS], 0.0)
    for shift in (0, 1, 2):
        for weights, full in zip(read(model, shift=shift), forced, strict=True):
            rows = torch.tensor(full.attention)[shift:]
            torch.testing.assert_close(weights[: len(rows)], rows[: len(weights)])


@pytest.mark.parametrize("name", ["rnn", "rnn-multi-head"])
def test_norms_are_of_what_is_added_to_the_context(name: str) -> None:
    """With all the weight of a head on one place, the context is f(v) of the head, but for bias."""
    model = model_of(name).eval()
    state = first_state(model)
    norms = model.value_norms(state)
    mix, values = model.decoder.attention.mix, state.attention.values
    none = torch.zeros(len(SOURCES), norms.shape[1], 1, norms.shape[2])
    for n, s in itertools.product(range(norms.shape[1]), range(norms.shape[2])):
        one = none.clone()
        one[:, n, 0, s] = 1
        added = (mix(one, values) - mix(none, values)).squeeze(1).norm(dim=-1)
        torch.testing.assert_close(added, norms[:, n, s])


def test_norms_of_a_transformer_are_of_what_each_head_adds() -> None:
    model = model_of("transformer").eval()
    state = first_state(model)
    norms = model.value_norms(state)
    n_heads = norms.shape[1] // len(state.layers)
    for i, cache in enumerate(state.layers):
        attention = model.decoder.layers[i].source
        nothing = attention.join(torch.zeros_like(cache.source.values))
        for n in range(n_heads):
            one = torch.zeros_like(cache.source.values)
            one[:, n] = cache.source.values[:, n]
            added = (attention.join(one) - nothing).norm(dim=-1)
            torch.testing.assert_close(added, norms[:, i * n_heads + n])


def test_heads_are_averaged() -> None:
    model = model_of("transformer").eval()
    single = [read(model, heads=[n]) for n in (0, 3)]
    for weights, one, two in zip(read(model, heads=[0, 3]), *single, strict=True):
        torch.testing.assert_close(weights, (one + two) / 2)
    for weights, shown in zip(read(model), read(model, heads=model.averaged_heads), strict=True):
        torch.testing.assert_close(weights, shown)
