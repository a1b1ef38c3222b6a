"""The bound on repetitions: what is blocked, by its definition, and that no search exceeds it."""

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from decoding.table_model import ROWS, TableModel
from decoding.test_search import (
    SOURCES,
    ConstantModel,
    assert_same,
    batch,
    every_sequence,
    rnn_model,
    run,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.forced import force_decode
from nmt.decoding.repetition import Repetitions, n_repetitions
from nmt.decoding.search_config import SearchConfig
from nmt.inference.translator import Translator
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.ops.masks import keep_from_lengths
from nmt.text.tokenizer import SentencePieceConfig, train_tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.types import SentencePair

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


def test_what_is_counted() -> None:
    assert most_repeats([4, 5, 6, 4]) == 2
    assert [most_repeats([7] * n) for n in (1, 2, 3, 9)] == [1, 2, 3, 9]
    assert most_repeats([9, 4, 5, 4, 5, 4, 5, 8]) == 3
    assert most_repeats([9, 4, 5, 4, 5, 4, 5, 4, 8]) == 4


@settings(max_examples=200, deadline=None)
@given(ids=IDS, allowed=st.integers(2, 4))
def test_blocked_is_what_would_repeat_too_often(ids: list[int], allowed: int) -> None:
    """Step by step, for the part of the ids that is allowed."""
    found = Repetitions.none_yet(np.array([allowed]))
    for n, id_ in enumerate(ids):
        rows, blocked = found.blocked()
        assert rows == [0] * len(blocked)
        expected = {x for x in range(7) if most_repeats([*ids[:n], x]) > allowed}
        assert set(blocked) == expected
        if id_ in expected:
            return
        found = found.after(None, torch.tensor([id_]))


@settings(max_examples=200, deadline=None)
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
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("max_repeats", [2, 3, 5])
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
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_wide_beam_is_brute_force_over_what_is_allowed(model: Seq2Seq, alpha: float) -> None:
    sequences = [ids for ids in every_sequence(bound=4) if most_repeats(ids) <= 2]
    config = SearchConfig(
        beam=400,
        n_best=5,
        length_penalty=alpha,
        max_length_factor=0,
        max_length_extra=4,
        max_repeats=2,
    )
    for source, hypotheses in zip(SOURCES[:3], run(model, config, SOURCES[:3]), strict=True):
        forced = force_decode(model, *batch([source] * len(sequences)), sequences, alpha)
        best = sorted(forced, key=lambda h: (not h.finished, -h.score))[:5]
        for hypothesis, expected in zip(hypotheses, best, strict=True):
            assert_same(hypothesis, expected)


@pytest.mark.parametrize("model", [Cycle([4, 6]), rnn_model()], ids=["cycle", "rnn"])
@torch.no_grad()
def test_beam_1_is_greedy_among_what_is_allowed(model: Seq2Seq) -> None:
    config = SearchConfig(beam=1, max_repeats=2, max_length=15)
    for source, [found] in zip(SOURCES, run(model, config), strict=True):
        src_ids, lengths = batch([source])
        keep = keep_from_lengths(lengths, len(source))
        allowed = max(2, most_repeats(source))
        state = model.init_state(model.encode(src_ids, keep))
        ids: list[int] = []
        while len(ids) < config.length_bound(len(source)) and ids[-1:] != [EOS_ID]:
            out = model.step(torch.tensor(ids[-1:] or [BOS_ID]), state)
            state = out.state
            order = out.logits[0].argsort(descending=True, stable=True).tolist()
            ids.append(
                next(
                    id_
                    for id_ in order
                    if id_ not in (PAD_ID, BOS_ID) and most_repeats([*ids, id_]) <= allowed
                )
            )
        assert found.ids == tuple(ids)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_batch_is_its_sentences_with_repetitions_blocked(beam: int) -> None:
    model = Cycle([4, 6, 5])
    sources = [*SOURCES, [9, 8, 8, 8, 8, 8, 3]]
    config = SearchConfig(beam=beam, n_best=beam, max_repeats=2)
    for source, found in zip(sources, run(model, config, sources), strict=True):
        [alone] = run(model, config, [source])
        for one, expected in zip(found, alone, strict=True):
            assert_same(one, expected)


def odd_texts(n: int, seed: int = 7) -> list[str]:
    """Texts unlike any training data, of ten kinds in turn."""
    draw = random.Random(seed)
    words = [
        "the",
        "cat",
        "sees",
        "two",
        "dogs",
        "in",
        "a",
        "garden",
        "where",
        "children",
        "are",
        "playing",
        "football",
    ]

    def some(low: int, high: int) -> list[str]:
        return draw.choices(words, k=draw.randint(low, high))

    kinds = [
        lambda: bytes(draw.choices(range(256), k=draw.randint(1, 40))).decode("latin-1"),
        lambda: " ".join(some(3, 12)).upper(),
        lambda: " ".join(some(1, 2) * draw.randint(2, 15)),
        lambda: str(draw.randrange(10 ** draw.randint(1, 30))),
        lambda: "".join(draw.choices("😀🙈🎉🏳️‍🌈", k=draw.randint(1, 20))),
        lambda: "".join(draw.choices("猫はどこですかのあЖдиשלוםกข", k=draw.randint(1, 30))),
        lambda: f"https://{'.'.join(some(2, 4))}/{'/'.join(some(0, 5))}?q={draw.random()}",
        lambda: draw.choice("abcdefghijklmnopqrstuvwxyz.,!?"),
        lambda: " ".join(some(25, 30)),
        lambda: draw.choice(["ha", "!", ".", "-", "=", "0", "aA", "!?"]) * draw.randint(2, 40),
    ]
    return [kinds[i % len(kinds)]() for i in range(n)]


def test_no_odd_text_makes_a_translation_loop() -> None:
    """2,000 texts; a random model loops on about half of them where nothing keeps it from that."""
    pairs = [SentencePair(text, text[::-1]) for text in odd_texts(200, seed=1)]
    tokenizers = train_tokenizers(SentencePieceConfig(vocab_size=300), pairs, "en", "fr", seed=1)
    torch.manual_seed(5)
    sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
    model = build_model(RNNConfig(embedding=11, hidden=13), *sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    search = SearchConfig(beam=2, max_length=25, batch_size=500)
    translator = Translator(model, tokenizers, torch.device("cpu"), search)
    texts = odd_texts(2_000)
    for translation in translator.translate(texts, n_best=2):
        src = [id_ if id_ != UNK_ID else -i for i, id_ in enumerate(translation.source.ids)]
        allowed = max(3, most_repeats(src))
        for found in translation.hypotheses:
            assert most_repeats(found.hypothesis.ids) <= allowed, translation.src_text
    free = translator.translate(texts[:100], search={"max_repeats": None})
    loops = [t for t in free if t.hypotheses and most_repeats(t.hypotheses[0].hypothesis.ids) > 5]
    assert loops
