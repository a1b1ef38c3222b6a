"""Laws of the options of a search, each checked by other means than the search, and of samples."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from search.table_model import ROWS, VOCAB, TableModel
from search.test_search import (
    SOURCES,
    ConstantModel,
    assert_all_same,
    batch,
    run,
    short,
    varied_model,
)
from text.draws import assert_drawn_from

from nmt.errors import NMTError
from nmt.models.ensemble import Ensemble
from nmt.ops.masks import keep_from_lengths
from nmt.search.constraints import Constraint
from nmt.search.forced import force_decode
from nmt.search.repetition import Repetitions, n_repetitions
from nmt.search.search import search
from nmt.search.search_config import MBRConfig, SamplingConfig, SearchConfig
from nmt.search.words import NO_WORDS, SPACE, Match, Word, WordConstraints
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, RESERVED, UNK_ID

CONSTANT = ConstantModel({4: 0.9, 5: 0.06, EOS_ID: 0.04})
MODELS = {"table": TableModel(), "rnn": varied_model(), "constant": CONSTANT}
PIECES = (*RESERVED, f"{SPACE}a", "b", f"{SPACE}ab")
"""The pieces of VOCAB ids, so that `ab` may be written in two ways, and `a` begins both."""
TEXTS = ("",) * len(RESERVED) + PIECES[len(RESERVED) :]
A, B, AB = 4, 5, 6

WORDS = {
    "must": WordConstraints(must=((Word([A, B], TEXTS),),)),
    "two": WordConstraints(must=((Word([AB], TEXTS),), (Word([A], TEXTS),))),
    "either": WordConstraints(must=((Word([B], TEXTS), Word([AB], TEXTS)), (Word([A], TEXTS),))),
    "must_not": WordConstraints(must_not=(Word([AB], TEXTS),)),
    "both": WordConstraints(must=((Word([A], TEXTS),),), must_not=(Word([AB], TEXTS),)),
}
EACH = [*WORDS.values(), NO_WORDS, NO_WORDS]


def has_words(ids, words: WordConstraints) -> bool:
    """Whether the words that the pieces spell are those that must and may occur."""
    text = "".join(TEXTS[id_] for id_ in ids).replace(SPACE, " ").split()
    has_all = all(any(word.text in text for word in forms) for forms in words.must)
    return has_all and not any(word.text in text for word in words.must_not)


def most_repeats(ids) -> int:
    """How often the same pieces come in a row, a last repetition that has only begun included."""
    most = 1
    for period in range(1, len(ids)):
        equal = [a == b for a, b in zip(ids, ids[period:], strict=False)]
        for same, group in itertools.groupby(equal):
            if same:
                most = max(most, -(-len(list(group)) // period) + 1)
    return most


class Cycle(TableModel):
    """Repeats the pieces `cycle` forever, with little left for any other piece."""

    def __init__(self, cycle) -> None:
        super().__init__(ROWS)
        for piece, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            self.table[:, :, piece, after] += 12
        self.table[..., [PAD_ID, BOS_ID]] = -1e4


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (MODELS["table"], {}, EACH),
        (MODELS["rnn"], {"min_length": 3, "no_repeat_ngram": 2}, EACH),
        (Cycle([4, 6, 5]), {"max_repeats": 2}, []),
    ],
)
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_batch_is_its_sentences(model, options, words, beam: int) -> None:
    """Each sentence has words of its own, which all its hypotheses have."""
    config = SearchConfig(beam=beam, n_best=beam, max_length=13, **options)
    constraints = [Constraint(words=sentence) for sentence in words]
    sources = [*SOURCES, [9, 8, 8, 8, 8, 8, 3]]
    for i, hypotheses in enumerate(run(model, config, sources, constraints)):
        [alone] = run(model, config, sources[i : i + 1], constraints[i : i + 1])
        assert_all_same(hypotheses, alone)
        assert hypotheses
        assert not words or all(has_words(h.ids, words[i]) for h in hypotheses)


def _has_twice(ids, n: int) -> bool:
    ngrams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(set(ngrams)) < len(ngrams)


@pytest.mark.parametrize(
    ("model", "options", "words", "is_allowed"),
    [
        ("table", {"length_penalty": 0.0, "n_best": 5}, NO_WORDS, lambda ids: True),
        ("table", {"length_penalty": 3.0, "n_best": 5}, NO_WORDS, lambda ids: True),
        ("rnn", {"length_penalty": 0.0, "n_best": 5}, NO_WORDS, lambda ids: True),
        ("rnn", {"length_penalty": 3.0, "n_best": 5}, NO_WORDS, lambda ids: True),
        ("table", {"min_length": 2}, NO_WORDS, lambda ids: ids[-1] != EOS_ID or len(ids) > 2),
        ("table", {"no_repeat_ngram": 1}, NO_WORDS, lambda ids: not _has_twice(ids, 1)),
        ("table", {"no_repeat_ngram": 2}, NO_WORDS, lambda ids: not _has_twice(ids, 2)),
        ("constant", {"no_repeat_ngram": 3}, NO_WORDS, lambda ids: not _has_twice(ids, 3)),
        ("table", {"max_repeats": 2}, NO_WORDS, lambda ids: most_repeats(ids) <= 2),
        ("constant", {"max_repeats": 2}, NO_WORDS, lambda ids: most_repeats(ids) <= 2),
        ("table", {}, WORDS["must"], lambda ids: has_words(ids, WORDS["must"])),
        ("table", {}, WORDS["either"], lambda ids: has_words(ids, WORDS["either"])),
    ],
)
def test_a_wide_beam_is_brute_force(model: str, options, words, is_allowed) -> None:
    """The best of all sequences that the option allows, by forced decoding of every one.

    Finished sequences have up to 4 pieces, unfinished ones 4.
    """
    config = short(4, 400, 4).model_copy(update={"max_repeats": None, **options})
    inner = [id_ for id_ in range(VOCAB) if id_ not in (PAD_ID, BOS_ID, EOS_ID)]
    sequences = [(*ids, EOS_ID) for n in range(4) for ids in itertools.product(inner, repeat=n)]
    sequences = list(filter(is_allowed, [*sequences, *itertools.product(inner, repeat=4)]))
    sources, constraints = SOURCES[:2], [Constraint(words=words)] * 2
    outputs = run(MODELS[model], config, sources, constraints)
    for source, best in zip(sources, outputs, strict=True):
        src = batch([source] * len(sequences))
        forced = force_decode(MODELS[model], *src, sequences, config.length_penalty)
        expected = sorted(forced, key=lambda h: (not h.finished, -h.score))[: config.n_best]
        assert_all_same(best, expected)


def test_a_word_is_found_however_it_is_cut() -> None:
    pieces = [*RESERVED, "▁chat", "on", "▁ch", "at", "▁l'", "chat", "s", ".", SPACE]
    word = Word([4], ["" if piece in RESERVED else piece for piece in pieces])

    def is_met(written: str) -> bool:
        match = first
        for piece in written.split():
            match = word.after(match, pieces.index(piece))
        return word.is_met(match)

    first = Match()
    for written in ("▁chat", "▁ch at", "▁l' chat", "▁ chat .", "▁chat ▁ch on"):
        assert is_met(written), written
    for written in ("▁chat on", "▁ch on chat", "s chat"):
        assert not is_met(written), written
    assert {pieces[i] for i in word.completing(first)} == {"▁chat", "chat"}
    after_ch = word.after(first, pieces.index("▁ch"))
    assert {pieces[i] for i in word.completing(after_ch)} == {"▁chat", "at"}


def test_options_that_contradict_each_other() -> None:
    for says, keys in {
        "min_length": {"min_length": 1000},
        "sampling": {"sampling": {}, "mbr": {}},
        "must": {"must": ("chat",), "sampling": {}},
        "must_not": {"must": ("a",), "must_not": ("a",)},
        "got ' '": {"must_not": (" ",)},
        "n_best": {"n_best": 6},
        r"mbr.samples \(2\)": {"n_best": 3, "mbr": {"samples": 2}},
    }.items():
        with pytest.raises(ValueError, match=says):
            SearchConfig.model_validate(keys)
    assert SearchConfig(n_best=7, mbr=MBRConfig(samples=7)).candidate_search().n_best == 7
    config = SearchConfig(beam=2, min_length=9, no_repeat_ngram=1, max_length=10)
    with pytest.raises(NMTError, match="no_repeat_ngram"):  # nothing is left
        run(MODELS["table"], config)


SOME = settings(max_examples=50, deadline=None)
IDS = st.lists(st.sampled_from([UNK_ID, 4, 5, 6]), max_size=40)


@SOME
@given(ids=IDS, allowed=st.integers(2, 4))
def test_blocked_is_what_would_repeat_too_often(ids: list[int], allowed: int) -> None:
    """Step by step, for the part of the ids that is allowed."""
    repetitions = Repetitions.initial(np.array([allowed]))
    for n, id_ in enumerate(ids):
        rows, blocked = repetitions.blocked_pieces()
        assert rows == [0] * len(blocked)
        expected = {x for x in range(7) if most_repeats([*ids[:n], x]) > allowed}
        assert set(blocked) == expected
        if id_ in expected:
            return
        repetitions = repetitions.after(None, torch.tensor([id_]))


@SOME
@given(sources=st.lists(IDS, min_size=1, max_size=4), at_least=st.integers(2, 4))
def test_a_source_allows_its_own_repetitions(sources: list[list[int]], at_least: int) -> None:
    src_ids, lengths = batch([[*source, EOS_ID] for source in sources])
    keep = keep_from_lengths(lengths, src_ids.shape[1])
    expected = []
    for source in sources:
        different = [id_ if id_ != UNK_ID else -place for place, id_ in enumerate(source)]
        expected.append(max(at_least, most_repeats(different)))
    assert n_repetitions(src_ids, keep, at_least).tolist() == expected


def test_a_source_that_repeats_may_be_followed() -> None:
    model = ConstantModel({4: 0.97, 5: 0.02, EOS_ID: 0.01})
    config = SearchConfig(beam=1, max_length_factor=0, max_length_extra=12)
    [[plain]] = run(model, config, [[5, 3]])
    [[laughing]] = run(model, config, [[9, 8, 8, 8, 8, 8, 3]])
    assert most_repeats(plain.ids) == 3
    assert laughing.ids[:6] == (4, 4, 4, 4, 4, 5)
    [[unknown]] = run(model, config, [[9, UNK_ID, UNK_ID, UNK_ID, UNK_ID, UNK_ID, 3]])
    assert unknown.ids == plain.ids


def samples_of(model, sources: list[list[int]] = SOURCES, n: int = 5, **keys: object):
    config = SearchConfig(max_length=9, length_penalty=0.8, n_best=n, sampling=keys)
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


@pytest.mark.parametrize(
    "model",
    [TableModel(), varied_model(), Ensemble([varied_model(), TableModel(seed=1)], VOCAB)],
    ids=["table", "rnn", "ensemble"],
)
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
