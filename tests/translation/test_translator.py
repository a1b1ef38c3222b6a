"""Text to Translation with a small random model: any text, any batch, any number of workers."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
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
from nmt.translation.batched import batch_by_size, reversed_ids
from nmt.translation.parallel import CheckCancelled, divide_threads, n_workers, parallel_map
from nmt.translation.translator import Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of()


@pytest.fixture(scope="module")
def word_translator() -> Translator:
    return translator_of(WordConfig(min_freq=1))


def test_batches_and_workers_are_invisible(translator: Translator) -> None:
    """The last bits of a score may differ with the batch."""
    search, before = {"beam": 3, "n_best": 3}, torch.get_num_threads()
    expected = [translator.translate([text], search=search)[0] for text in TEXTS]
    assert len({translation.text for translation in expected}) > 1
    batches = [translator.translate(TEXTS, search={**search, "batch_size": n}) for n in (2, 64)]
    try:
        torch.set_num_threads(3)
        divide_threads()
        assert n_workers(translator.device) == (3 if IS_CPU else 1)
        batches.append(translator.translate(TEXTS, search={**search, "batch_size": 3}))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    for translations in batches:
        for translation, alone in zip(translations, expected, strict=True):
            assert [h.text for h in translation.hypotheses] == [h.text for h in alone.hypotheses]
            for ours, theirs in zip(translation.hypotheses, alone.hypotheses, strict=True):
                assert ours.hypothesis.ids == theirs.hypothesis.ids
                assert ours.hypothesis.score == pytest.approx(theirs.hypothesis.score, abs=1e-5)


def assert_whole(translation, text: str, tokenizers: Tokenizers) -> None:
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


STRANGE = {
    "nothing": "",
    "spaces": "\u202f\t \n",
    "emoji": "😀🙈🏳️‍🌈",
    "another script": "猫はどこ",
    "no character": "\udcff",
    "one long word": "a" * 3000,
    "nul": "\x00",
    "line ends that are characters": "one\u2028two\x85three\rfour",
}


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_strange_text(translator: Translator, word_translator: Translator, text: str) -> None:
    for any_translator in (translator, word_translator):
        [translation] = any_translator.translate([text])
        assert_whole(translation, text, any_translator.tokenizers)
        if not text.strip(" \u202f\t\n\u200b\ufeff"):
            [forced] = any_translator.force([text], ["Oui."])
            assert translation.hypotheses == forced.hypotheses == ()


@settings(max_examples=12, deadline=None)
@given(texts=st.lists(st.text(max_size=40), max_size=4))
def test_any_text(translator: Translator, texts: list[str]) -> None:
    translations = translator.translate(texts, search={"beam": 2, "max_length": 5})
    for text, translation in zip(texts, translations, strict=True):
        assert_whole(translation, text, translator.tokenizers)


@pytest.mark.parametrize("reverse", [False, True])
def test_forced_numbers_are_those_of_the_steps(translator: Translator, reverse: bool) -> None:
    """A right-to-left model predicts a piece from those after it."""
    tokenizers = replace(translator.tokenizers, reverse_target=reverse)
    other = Translator(translator.model, tokenizers, HERE, SearchConfig(batch_size=2))
    texts, targets = ["He is tired.", "", *TEXTS[:3]], ["Il est fatigué.", "Oui.", "", *TEXTS[:2]]
    for translation, target in zip(other.force(iter(texts), iter(targets)), targets, strict=True):
        for output in translation.hypotheses:
            forced, ids = output.hypothesis, (*tokenizers.tgt.encode(target).ids, EOS_ID)
            assert (output.text, forced.ids, forced.finished) == (target, ids, True)
            written = reversed_ids(ids) if reverse else ids
            src_ids = torch.tensor([[*translation.source.ids, EOS_ID]]).to(HERE)
            tgt_in = torch.tensor([[BOS_ID, *written[:-1]]]).to(HERE)
            logits = translator.model(src_ids, torch.ones_like(src_ids).bool(), tgt_in).logits[0]
            steps = torch.distributions.Categorical(logits=logits)
            log_probs = steps.log_prob(torch.tensor(written).to(HERE)).tolist()
            entropies = steps.entropy().tolist()
            if reverse:  # all but the step of eos
                log_probs[:-1], entropies[:-1] = log_probs[-2::-1], entropies[-2::-1]
            assert forced.log_probs == pytest.approx(log_probs, abs=1e-5)
            assert forced.entropies == pytest.approx(entropies, abs=1e-5)
            [score] = other.score([translation.src_text], [target])
            assert score == pytest.approx(sum(forced.log_probs), abs=1e-4)
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


@pytest.fixture(scope="module")
def table_translator(translator: Translator) -> Translator:
    """Three heads that look differently, over the same vocabularies."""
    tokenizers = translator.tokenizers
    n_pieces = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
    model = TableModel(min(n_pieces), max(n_pieces))
    model.train()
    table = Translator(model.to(HERE), tokenizers, HERE, SearchConfig(max_length=17, batch_size=2))
    assert not model.training  # it translates without dropout
    return table


def test_heads_of_what_was_found(table_translator: Translator) -> None:
    """The forced pass of force_decode, sentence by sentence, is the reference."""
    forced = table_translator.force(["Is", "", "He is."], ["Oui.", "a", ""], with_heads=True)
    assert [len(translation.hypotheses) for translation in forced] == [1, 0, 1]
    translations = table_translator.translate(TEXTS, n_best=3, with_heads=True)
    for translation in (*forced, *translations):
        for hypothesis in (output.hypothesis for output in translation.hypotheses):
            src_ids = torch.tensor([[*translation.source.ids, EOS_ID]], device=HERE)
            pair = src_ids, torch.tensor([src_ids.shape[1]], device=HERE), [hypothesis.ids]
            [alone] = force_decode(table_translator.model, *pair, 0.6, with_heads=True)
            assert hypothesis.heads.shape == (3, *hypothesis.attention.shape)
            np.testing.assert_allclose(hypothesis.heads, alone.heads, atol=1e-6)
            np.testing.assert_allclose(alone.heads.mean(axis=0), hypothesis.attention, atol=1e-6)
    plain = table_translator.translate(TEXTS, n_best=3)
    assert [translation.text for translation in plain] == [t.text for t in translations]
    assert plain[0].hypotheses[0].hypothesis.heads is None
    assert plain[0] != translations[0]


def test_a_stream_is_answered_in_order_and_by_chunks(translator: Translator) -> None:
    texts = [*TEXTS, *[""] * 20, *TEXTS[::-1]]
    for batch_size, n_read in ((1, 1), (2, 32)):
        search = SearchConfig(beam=1, max_length=5, batch_size=batch_size)
        other, source = with_search(translator, search), iter(texts)
        stream = other.translate_stream(source)
        first = next(stream)
        rest = list(source)
        assert len(texts) - len(rest) == n_read
        translations = [first, *stream, *other.translate_stream(rest)]
        assert [t.text for t in translations] == [t.text for t in other.translate(texts)]
    assert list(translator.translate_stream([])) == []


def test_one_string_is_no_list_of_texts(translator: Translator) -> None:
    for method in (translator.translate, translator.translate_stream, translator.encode):
        with pytest.raises(TypeError, match=r"^texts: got one str"):
            method("He is tired.")
    with pytest.raises(TypeError, match=r"^prefixes: got one str, allowed: several, such as"):
        translator.translate(["a", "b", "c"], prefixes="Est")
    with pytest.raises(DataError, match=r"^force: got 1 translation for 2 texts$"):
        translator.force(["a", "b"], ["c"])
    # Iterators, which beartype does not look into: the words are ours.
    with pytest.raises(TypeError, match=r"^texts\[1\]: got None, allowed: a str$"):
        translator.translate(iter(["Is", None]))
    with pytest.raises(TypeError, match=r"^texts\[1\]: got b'Is', allowed: a str$"):
        list(translator.translate_stream(iter(["Is", b"Is"])))


def test_one_call_may_search_otherwise(translator: Translator) -> None:
    config = SearchConfig(max_length=17, beam=1, length_penalty=0)
    expected = with_search(translator, config).translate(TEXTS[:3])
    one = np.int64(1), torch.tensor(1)
    for search in (config, *({"beam": n, "length_penalty": 0} for n in (1, *one))):
        assert translator.translate(TEXTS[:3], search=search) == expected
    assert translator.search.beam == 5
    assert len(translator.translate(["Is"], n_best=7, search={"beam": 7})[0].hypotheses) == 7
    with pytest.raises(ConfigError, match=r"^search: .*beam: got 0, allowed: >= 1"):
        translator.translate(["Is"], search={"beam": 0})
    with pytest.raises(ConfigError, match=r"n_best: got 6, allowed: 1 to beam \(5\)$"):
        translator.translate(["Is"], n_best=6)


CPU = torch.device("cpu")


@pytest.fixture
def three_threads():
    """Three threads of torch for this thread, and one for each that begins later."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert n_workers(CPU) == 1  # nothing is divided unless a process says so
    divide_threads()
    yield
    torch.set_num_threads(before)


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.usefixtures("three_threads")
def test_results_are_in_order_and_threads_are_divided() -> None:
    together = threading.Barrier(3)

    def work(i: int, check: CheckCancelled) -> tuple[int, int, int]:
        together.wait(timeout=60)  # passes only with three at a time
        check()
        return i, torch.get_num_threads(), threads_of_a_new_thread()

    assert n_workers(CPU) == 3
    assert parallel_map(work, range(6), n_workers(CPU)) == [(i, 1, 1) for i in range(6)]
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (3, 1)


@pytest.mark.usefixtures("three_threads")
def test_one_item_has_all_threads_and_so_has_another_device() -> None:
    here = threading.current_thread()

    def work(i: int, _: CheckCancelled) -> int:
        assert threading.current_thread() is here
        return i + torch.get_num_threads()

    assert parallel_map(work, [4], n_workers(CPU)) == [7]
    assert parallel_map(work, [], n_workers(CPU)) == []
    assert parallel_map(work, [4, 5], n_workers(torch.device("cuda"))) == [7, 8]


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_or_ctrl_c_ends_what_runs_beside_it(error) -> None:
    begun: list[int] = []

    def work(i: int, check: CheckCancelled) -> None:
        begun.append(i)
        if i == 0 and error is ValueError:
            raise ValueError
        if i == 0:
            os.kill(os.getpid(), signal.SIGINT)
        while True:
            check()

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(error):
            parallel_map(work, range(50), n_workers(CPU))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert len(begun) <= 4
    assert torch.get_num_threads() == 3


def test_long_texts_are_batched_by_their_pieces() -> None:
    sizes = [3, 0, 900, 100, 101, 7, 0, 5, 1000]
    assert list(batch_by_size(sizes, 4)) == [[8], [2], [4, 3, 5], [7, 0]]
    assert [len(batch) for batch in batch_by_size([50] * 10, 4)] == [4, 4, 2]
    batches = list(batch_by_size([200] * 3, 4, by_area=True))
    assert [len(batch) for batch in batches] == [1, 1, 1]  # 4 * (100 / 200)^2


@pytest.mark.parametrize("by_area", [False, True])
@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 9), st.integers(1, 5))
def test_each_text_is_in_one_batch_of_some_worker(by_area, sizes, batch_size, n_parts) -> None:
    batches = list(batch_by_size(sizes, batch_size, n_parts, by_area))
    order = [i for batch in batches for i in batch]
    assert sorted(order) == [i for i, size in enumerate(sizes) if size]
    assert [sizes[i] for i in order] == sorted((s for s in sizes if s), reverse=True)
    assert all(0 < len(batch) <= batch_size for batch in batches)
    if n_parts <= len(order) <= n_parts * batch_size and len(order) % n_parts == 0:
        assert len(batches) >= n_parts
