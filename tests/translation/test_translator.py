"""Text to Translation with a small random model: any text, any batch, order and number kept."""

import functools
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from devices import HERE, IS_CPU
from hypothesis import given, settings
from hypothesis import strategies as st
from search.table_model import TableModel
from translation.small import TEXTS, translator_of, with_search

from nmt.batches.batching import pad_ids
from nmt.errors import ConfigError, DataError
from nmt.ops.masks import keep_from_lengths
from nmt.search.forced import force_decode
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import Tokenizers, WordConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID
from nmt.translation.parallel import divide_threads, n_workers
from nmt.translation.reading_order import reversed_ids
from nmt.translation.translator import Translator
from nmt.types import Translation


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of()


@pytest.fixture(scope="module")
def word_translator() -> Translator:
    return translator_of(WordConfig(min_freq=1))


@pytest.mark.parametrize("batch_size", [1, 2, 7, 64])
def test_batches_and_workers_are_invisible(translator: Translator, batch_size: int) -> None:
    """The last bits of a score may differ with the batch."""
    config = SearchConfig(max_length=17, beam=3, batch_size=batch_size)
    other, before = with_search(translator, config), torch.get_num_threads()
    expected = [translator.translate([text], n_best=3, search={"beam": 3})[0] for text in TEXTS]
    assert len({translation.text for translation in expected}) > 1
    batched = other.translate(TEXTS, n_best=3)
    try:
        torch.set_num_threads(3)
        divide_threads()
        assert n_workers(other.device) == (3 if IS_CPU else 1)
        parallel = other.translate(TEXTS, n_best=3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    for translations in (batched, parallel):
        for translation, alone in zip(translations, expected, strict=True):
            assert [h.text for h in translation.hypotheses] == [h.text for h in alone.hypotheses]
            for ours, theirs in zip(translation.hypotheses, alone.hypotheses, strict=True):
                assert ours.hypothesis.ids == theirs.hypothesis.ids
                assert ours.hypothesis.score == pytest.approx(theirs.hypothesis.score, abs=1e-5)


def assert_whole(translation: Translation, text: str, tokenizers: Tokenizers) -> None:
    """Check the promises of schema.py for every Translation."""
    assert translation.src_text == text
    assert translation.source == tokenizers.src.encode(text)
    assert bool(translation.hypotheses) == bool(translation.source.ids)
    for output in translation.hypotheses:
        hypothesis = output.hypothesis
        ids = hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids
        assert output.target == tokenizers.tgt.encoded_from_ids(ids)
        assert output.text == tokenizers.tgt.decode(ids)
        assert hypothesis.attention.shape == (len(hypothesis.ids), len(translation.source.ids) + 1)
        np.testing.assert_allclose(hypothesis.attention.sum(axis=1), 1, atol=1e-4)
        assert "\n" not in output.text


@pytest.mark.parametrize("text", ["", " ", "\u202f\t ", "\u200b\ufeff", "\n"])
def test_blank_text_gives_an_empty_translation(translator: Translator, text: str) -> None:
    [translation] = translator.translate([text])
    assert (translation.text, translation.hypotheses, translation.src_text) == ("", (), text)
    assert translator.force([text], ["Oui."])[0].hypotheses == ()


STRANGE = {
    "emoji": "😀🙈🏳️‍🌈",
    "another script": "猫はどこ",
    "no character": "\udcff",
    "one long word": "a" * 3000,
    "many words": "the cats see " * 334,
    "nul": "\x00",
    "line ends that are characters": "one\u2028two\x85three\rfour",
}


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_strange_text(translator: Translator, word_translator: Translator, text: str) -> None:
    for any_translator in (translator, word_translator):
        [translation] = any_translator.translate([text])
        assert_whole(translation, text, any_translator.tokenizers)


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(max_size=40), max_size=4))
def test_any_text(texts: list[str]) -> None:
    fuzzed = _fuzzed()
    for text, translation in zip(texts, fuzzed.translate(texts), strict=True):
        assert_whole(translation, text, fuzzed.tokenizers)


@functools.cache
def _fuzzed() -> Translator:
    return translator_of(search=SearchConfig(beam=2, max_length=5))


def test_forcing_a_translation_found_gives_its_numbers(translator: Translator) -> None:
    wide = with_search(translator, SearchConfig(beam=30, max_length=3))
    source, best = next(
        (translation.src_text, output)
        for translation in wide.translate(TEXTS, n_best=30)
        for output in translation.hypotheses
        if output.hypothesis.finished
        and translator.tokenizers.tgt.encode(output.text).ids == output.target.ids
    )
    texts = ["Is", source, "He is tired."]
    forced = translator.force(iter(texts), iter(["Oui.", best.text, ""]))
    assert [t.text for t in forced] == ["Oui.", best.text, ""]
    ours = forced[1].hypotheses[0]
    assert ours.target == best.target
    assert ours.hypothesis.ids == (*best.target.ids, EOS_ID)
    n_same = len(best.target.ids)
    expected = best.hypothesis.log_probs[:n_same]
    assert ours.hypothesis.log_probs[:n_same] == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(
        ours.hypothesis.attention[:n_same], best.hypothesis.attention[:n_same], atol=1e-5
    )
    assert forced[2].hypotheses[0].hypothesis.ids == (EOS_ID,)


@pytest.mark.parametrize("reverse", [False, True])
def test_entropies_are_those_of_the_steps(translator: Translator, reverse: bool) -> None:
    """A right-to-left model predicts a piece from those after it."""
    tokenizers = replace(translator.tokenizers, reverse_target=reverse)
    search = SearchConfig(batch_size=2)
    texts = ["He is tired.", "", *TEXTS[:4]]
    targets = ["Il est fatigué.", "Oui.", "", *TEXTS[:3]]
    other = Translator(translator.model, tokenizers, HERE, search)
    for translation in other.force(texts, targets):
        for output in translation.hypotheses:
            ids, entropies = output.hypothesis.ids, output.hypothesis.entropies
            written = reversed_ids(ids) if reverse else ids
            src_ids = torch.tensor([[*translation.source.ids, EOS_ID]]).to(HERE)
            tgt_in = torch.tensor([[BOS_ID, *written[:-1]]]).to(HERE)
            logits = translator.model(src_ids, torch.ones_like(src_ids).bool(), tgt_in).logits[0]
            expected = torch.distributions.Categorical(logits=logits).entropy().tolist()
            order = [*reversed(expected[:-1]), expected[-1]] if reverse else expected
            assert entropies == pytest.approx(order, abs=1e-5)
            assert other.score([translation.src_text], [output.text]) == [
                pytest.approx(sum(output.hypothesis.log_probs), abs=1e-4)
            ]
    assert other.score([""], ["Oui."]) == [None]


def test_encoder_states_are_those_of_each_text_alone(translator: Translator) -> None:
    """As of a padded batch."""
    states = translator.encode(TEXTS)
    rows = [[*translator.tokenizers.src.encode(text).ids, EOS_ID] for text in TEXTS]
    src_ids = pad_ids(rows).to(HERE)
    keep = keep_from_lengths(torch.tensor([len(row) for row in rows]).to(HERE), src_ids.shape[1])
    batch = translator.model.encode(src_ids, keep).values.detach().cpu().numpy()
    for one, padded, row in zip(states, batch, rows, strict=True):
        np.testing.assert_allclose(one, padded[: len(row)], atol=1e-5)
    with pytest.raises(TypeError, match="texts: got one str"):
        translator.encode("Is")


@pytest.fixture(scope="module")
def table_translator(translator: Translator) -> Translator:
    """Three heads that look differently, over the same vocabularies."""
    tokenizers = translator.tokenizers
    n_pieces = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
    model = TableModel(min(n_pieces), max(n_pieces))
    search = SearchConfig(max_length=17, batch_size=2)
    return Translator(model.to(HERE), tokenizers, HERE, search)


def test_heads_of_what_was_found(table_translator: Translator) -> None:
    """The forced pass of force_decode, sentence by sentence, is the reference."""
    model = table_translator.model
    plain, with_heads = (
        table_translator.translate(TEXTS, n_best=3, with_heads=wanted) for wanted in (False, True)
    )
    for without, translation in zip(plain, with_heads, strict=True):
        assert translation.text == without.text
        assert all(output.hypothesis.heads is None for output in without.hypotheses)
        assert len(translation.hypotheses) == (3 if translation.src_text else 0)
        for hypothesis in (output.hypothesis for output in translation.hypotheses):
            src_ids = torch.tensor([[*translation.source.ids, EOS_ID]], device=HERE)
            lengths = torch.tensor([src_ids.shape[1]], device=HERE)
            [alone] = force_decode(model, src_ids, lengths, [hypothesis.ids], 0.6, with_heads=True)
            assert hypothesis.heads is not None
            np.testing.assert_allclose(hypothesis.heads, alone.heads, atol=1e-6)
            mean = hypothesis.heads.mean(axis=0)
            np.testing.assert_allclose(mean, hypothesis.attention, atol=1e-6)
    forced = table_translator.force(["Is", "", "He is."], ["Oui.", "a", ""], with_heads=True)
    assert forced[1].hypotheses == ()
    for translation in (forced[0], forced[2]):
        [output] = translation.hypotheses
        assert output.hypothesis.heads is not None
        assert output.hypothesis.heads.shape == (3, *output.hypothesis.attention.shape)


def test_a_stream_is_answered_in_order_and_by_chunks(translator: Translator) -> None:
    read = 0

    def source() -> Iterator[str]:
        nonlocal read
        for text in TEXTS * 5:
            read += 1
            yield text

    for batch_size, at_first in ((1, 1), (2, 32)):
        read = 0
        search = SearchConfig(beam=1, max_length=5, batch_size=batch_size)
        other = with_search(translator, search)
        expected = [t.text for t in other.translate(TEXTS)] * 5
        stream = other.translate_stream(source())
        assert next(stream).text == expected[0]
        assert read == at_first
        assert [t.text for t in stream] == expected[1:]
    assert list(translator.translate_stream([])) == []
    endless = with_search(translator, SearchConfig(max_length=17, batch_size=2**62))
    assert len(list(endless.translate_stream(["a", "b"]))) == 2


def test_one_string_is_no_list_of_texts(translator: Translator) -> None:
    for translate in (translator.translate, translator.translate_stream):
        with pytest.raises(TypeError, match=r"^texts: got one str"):
            translate("He is tired.")
    with pytest.raises(TypeError, match=r"^target_texts: got one str"):
        translator.force(["Is"], "Est")
    with pytest.raises(TypeError, match=r"^prefixes: got one str, allowed: several, such as"):
        translator.translate(["a", "b", "c"], prefixes="Est")
    with pytest.raises(DataError, match=r"^force: got 1 translation for 2 texts$"):
        translator.force(["a", "b"], ["c"])


@pytest.mark.parametrize("wrong", [None, b"Is"])
def test_what_is_no_text_is_named_by_its_place(translator: Translator, wrong: object) -> None:
    """Iterators, which beartype does not look into: the words are ours."""
    words = rf"^texts\[1\]: got {re.escape(repr(wrong))}, allowed: a str$"
    with pytest.raises(TypeError, match=words):
        translator.translate(iter(["Is", wrong]))
    with pytest.raises(TypeError, match=words):
        list(translator.translate_stream(iter(["Is", wrong])))
    with pytest.raises(TypeError, match=f"target_{words[1:]}"):
        translator.force(iter(["Is", "a"]), iter(["a", wrong]))


def test_equal_results_are_equal_and_have_one_hash(table_translator: Translator) -> None:
    first, again = (table_translator.translate(["Is"], with_heads=True)[0] for _ in range(2))
    assert (first, hash(first)) == (again, hash(again))
    hypothesis = first.hypotheses[0].hypothesis
    assert hypothesis.heads is not None
    changes = ({"attention": hypothesis.attention[:, :-1]}, {"heads": hypothesis.heads + 1})
    for change in (*changes, {"heads": None}, {"score": hypothesis.score - 1}):
        assert replace(hypothesis, **change) != hypothesis  # type: ignore[arg-type]
    assert first != table_translator.translate(["Is"])[0]


def test_one_call_may_search_otherwise(translator: Translator) -> None:
    greedy = with_search(translator, SearchConfig(max_length=17, beam=1, length_penalty=0))
    search = {"beam": 1, "length_penalty": 0}
    assert translator.translate(TEXTS, search=search) == greedy.translate(TEXTS)
    assert translator.search.beam == 5
    assert len(translator.translate(["Is"], n_best=7, search={"beam": 7})[0].hypotheses) == 7
    expected = translator.translate(TEXTS, search={"beam": 1})
    greedy_search = translator.search.model_copy(update={"beam": 1})
    for search in (greedy_search, {"beam": np.int64(1)}, {"beam": torch.tensor(1)}):
        assert translator.translate(TEXTS, search=search) == expected
    for search, message in [
        ({"beam": 0}, "beam: got 0, allowed: >= 1"),
        ({"baem": 1}, "unknown key; did you mean 'beam'"),
        ({"beam": object()}, "got <object"),
    ]:
        with pytest.raises(ConfigError, match=f"^search: .*{message}"):
            translator.translate(["Is"], search=search)
    with pytest.raises(ConfigError, match=r"n_best: got 6, allowed: 1 to beam \(5\)$"):
        translator.translate(["Is"], n_best=6)


def test_it_translates_without_dropout(translator: Translator) -> None:
    model = translator.model.train()
    Translator(model.to(HERE), translator.tokenizers, HERE)
    assert not model.training
