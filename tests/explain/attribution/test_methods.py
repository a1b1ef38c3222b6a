"""Attributor over translators of small models: which method is for whom, and what it returns."""

import numpy as np
import pytest
import torch
from explain.attribution.pairs import RECURRENT, pair_of
from laws.family import model_of

from nmt.errors import ConfigError
from nmt.explain.attribution.layers import value_zeroing
from nmt.explain.attribution.methods import METHODS, Attributor
from nmt.models.ensemble import Ensemble
from nmt.models.recurrent.rnn import RNNSeq2Seq
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.translation.translator import Translator
from nmt.types import SentencePair

TEXTS = ["a b c", "", "d", "e f a b"]
TARGETS = ["c b a", "a", "d d", "b"]
OF_ALL = ("input-x-gradient", "integrated-gradients", "erasure")
NOT_RECURRENT = ("rollout", "alti")


@pytest.fixture(scope="module")
def translators() -> dict[str, Translator]:
    pairs = [SentencePair(text, text) for text in ("a b c d e f", "c b a d f e")]
    tokenizers = train_tokenizers(WordConfig(min_freq=1), pairs, "en", "fr", seed=1)
    models = {name: model_of(name).cpu() for name in ("rnn-multi-head", "transformer")}
    models["ensemble"] = Ensemble(list(models.values()), 29)
    cpu = torch.device("cpu")
    return {name: Translator(model, tokenizers, cpu) for name, model in models.items()}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_for_the_models_of_its_definition(method: str, translators) -> None:
    for name, translator in translators.items():
        lacks = {"rnn-multi-head": NOT_RECURRENT, "ensemble": {*METHODS} - {*OF_ALL}}
        if method in lacks.get(name, ()):
            with pytest.raises(ConfigError, match=f"`method`: got {method}, allowed for a"):
                Attributor(translator, method)
            continue
        attributed = Attributor(translator, method).attribute(translator.force(TEXTS, TARGETS))
        assert [len(translation.hypotheses) for translation in attributed] == [1, 0, 1, 1]
        for translation in attributed:
            for output in translation.hypotheses:
                result, n_rows = output.hypothesis.attribution, len(output.hypothesis.ids)
                assert result.scores.shape == (n_rows, len(translation.source.ids) + 1)
                has_prefix = method in OF_ALL or (name == "transformer" and method != "norms")
                assert result.prefix_scores.shape == (n_rows, n_rows if has_prefix else 0)
                np.testing.assert_allclose(output.hypothesis.attention.sum(axis=1), 1, rtol=1e-5)


def test_a_pair_is_the_same_alone_and_cut(translators) -> None:
    translator = translators["transformer"]
    attributor = Attributor(translator, "erasure", contrast="e")
    forced = translator.force(TEXTS, TARGETS)
    together = attributor.attribute(forced)
    for translation, alone in zip(together, map(attributor.attribute, zip(forced)), strict=True):
        assert alone == [translation]
    src_ids, lengths = torch.tensor([[4, 5, 3]]), torch.tensor([3])
    [cut] = attributor.read((src_ids, lengths), [[6, 4]])
    assert cut.prefix_scores.shape == (2, 3)
    assert not cut.prefix_scores[:, 2].any()


def test_what_a_method_cannot_explain_is_refused(translators) -> None:
    model = translators["transformer"]
    recurrent = translators["rnn-multi-head"]
    quantized = Translator(recurrent.model, recurrent.tokenizers, recurrent.device, int8=True)
    for translator, method, contrast, message in (
        (model, "erasure", "", "`contrast`: got ''"),
        (model, "erasure", "zebra", "`contrast`: got 'zebra'"),
        (model, "erasure", "a zebra", "`contrast`: got 'a zebra'"),
        (model, "alti", "a", "`contrast`: got method alti, allowed: input"),
        (quantized, "erasure", None, "got erasure, allowed for int8: attention, norms"),
    ):
        with pytest.raises(ConfigError, match=message):
            Attributor(translator, method, contrast)


@torch.no_grad()
@pytest.mark.parametrize("name", [*RECURRENT, "rnn-hard", "rnn-monotonic-location-sensitive"])
def test_zeroed_values_count_where_attention_looks(name: str) -> None:
    """At each step a position without weight changes nothing; every other one does."""
    model = model_of(name).eval()
    assert isinstance(model, RNNSeq2Seq)
    pair = pair_of()
    source, prefix = value_zeroing(model, pair)
    inputs = pair.src_ids[None], pair.src_keep, pair.tgt_in[None]
    weights = model(*inputs, with_weights=True).weights[0]
    assert prefix.shape == (len(source), 0)
    assert (source[weights == 0] < 1e-6).all()
    assert (source[weights > 1e-2] > 0).all()
