"""Laws of the options of a search, each held to what it says by other means than the search."""

from collections.abc import Callable, Sequence

import pytest
from search.table_model import TableModel
from search.test_search import (
    SOURCES,
    ConstantModel,
    assert_all_same,
    assert_best,
    assert_same,
    batch,
    every_sequence,
    short,
    varied_model,
)

from nmt.errors import NMTError
from nmt.models.base import Seq2Seq
from nmt.search.constraints import Constraint
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.search.selection import select_across_banks
from nmt.search.words import SPACE, Match, Word, WordConstraints
from nmt.text.vocabulary import EOS_ID, RESERVED
from nmt.types import Hypothesis

MODELS = {"table": TableModel(), "rnn": varied_model()}
PIECES = (*RESERVED, f"{SPACE}a", "b", f"{SPACE}ab")
"""The pieces of VOCAB ids, so that `ab` may be written in two ways, and `a` begins both."""
TEXTS = ("",) * len(RESERVED) + PIECES[len(RESERVED) :]
A, B, AB = 4, 5, 6

OPTIONS: dict[str, dict[str, object]] = {
    "min_length": {"min_length": 4},
    "no_repeat_ngram": {"no_repeat_ngram": 2},
    "several": {"min_length": 3, "no_repeat_ngram": 2},
}
WORDS = {
    "must": WordConstraints(must=((Word([A, B], TEXTS),),)),
    "two": WordConstraints(must=((Word([AB], TEXTS),), (Word([A], TEXTS),))),
    "either": WordConstraints(must=((Word([B], TEXTS), Word([AB], TEXTS)), (Word([A], TEXTS),))),
    "must_not": WordConstraints(must_not=(Word([AB], TEXTS),)),
    "both": WordConstraints(must=((Word([A], TEXTS),),), must_not=(Word([AB], TEXTS),)),
}


def words_of(ids: Sequence[int]) -> list[str]:
    """The words that these pieces spell."""
    return "".join(TEXTS[id_] for id_ in ids).replace(SPACE, " ").split()


def run(
    model: Seq2Seq,
    config: SearchConfig,
    sources: Sequence[Sequence[int]] = SOURCES,
    words: WordConstraints | None = None,
) -> list[list[Hypothesis]]:
    constraints = [Constraint(words=words)] * len(sources) if words else []
    return search(model, *batch(sources), config, constraints=constraints)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *(("table", option) for option in (*OPTIONS, *WORDS)),
        *(("rnn", option) for option in ("several", "two")),
    ],
)
def test_a_batch_is_its_sentences(name: str, option: str) -> None:
    config = SearchConfig(beam=4, n_best=4, max_length=9, **OPTIONS.get(option, {}))
    words = WORDS.get(option)
    together = run(MODELS[name], config, words=words)
    for source, hypotheses in zip(SOURCES, together, strict=True):
        [alone] = run(MODELS[name], config, [source], words)
        assert_all_same(hypotheses, alone)
    plain = run(MODELS[name], SearchConfig(beam=4, n_best=4, max_length=9))
    assert [[h.ids for h in hypotheses] for hypotheses in together] != [
        [h.ids for h in hypotheses] for hypotheses in plain
    ]


def _has_twice(ids: Sequence[int], n: int) -> bool:
    ngrams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(set(ngrams)) < len(ngrams)


@pytest.mark.parametrize(
    ("options", "words", "is_allowed"),
    [
        ({"min_length": 2}, None, lambda ids: ids[-1] != EOS_ID or len(ids) > 2),
        ({"no_repeat_ngram": 2}, None, lambda ids: not _has_twice(ids, 2)),
        ({}, WORDS["must"], lambda ids: "ab" in words_of(ids)),
        ({}, WORDS["either"], lambda ids: "a" in words_of(ids) and {"b", "ab"} & {*words_of(ids)}),
    ],
    ids=["min_length", "no_repeat_ngram", "must", "either"],
)
def test_a_wide_beam_is_brute_force(
    options: dict[str, int],
    words: WordConstraints | None,
    is_allowed: Callable[[Sequence[int]], bool],
) -> None:
    """The best of all sequences that the option allows, a word spelt in either way."""
    model, sources = MODELS["table"], SOURCES[:2]
    config = short(4, 400, 3).model_copy(update={"max_repeats": None, **options})
    sequences = list(filter(is_allowed, every_sequence(bound=4)))
    assert_best(model, config, sources, run(model, config, sources, words), sequences)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_n_gram_comes_twice(n: int) -> None:
    model = ConstantModel({4: 0.6, 5: 0.25, 6: 0.1, 7: 0.04, EOS_ID: 0.01})
    bound = SearchConfig(beam=3, n_best=3, max_length=12, max_repeats=None)
    assert _has_twice(run(model, bound)[0][0].ids, n)
    for hypotheses in run(model, bound.model_copy(update={"no_repeat_ngram": n})):
        assert not any(_has_twice(hypothesis.ids, n) for hypothesis in hypotheses)


def test_where_nothing_is_left_the_error_says_so() -> None:
    config = SearchConfig(beam=2, min_length=9, no_repeat_ngram=1, max_length=10)
    with pytest.raises(NMTError, match="no_repeat_ngram"):
        run(MODELS["table"], config)


@pytest.mark.parametrize(("name", "beam"), [("table", 1), ("rnn", 2), ("table", 5)])
@pytest.mark.parametrize("option", WORDS)
def test_words_occur_or_do_not(name: str, beam: int, option: str) -> None:
    config = SearchConfig(beam=beam, n_best=beam, max_length=9, max_repeats=None)
    words = WORDS[option]
    results = run(MODELS[name], config, words=words)
    assert all(results)
    for hypothesis in (h for hypotheses in results for h in hypotheses):
        text = words_of(hypothesis.ids)
        assert all(any(word.text in text for word in forms) for forms in words.must)
        assert not any(word.text in text for word in words.must_not)


def test_words_of_each_sentence_are_its_own() -> None:
    config = SearchConfig(beam=4, max_length=9)
    constraints = [Constraint(words=list(WORDS.values())[b % 2 * 2]) for b in range(len(SOURCES))]
    together = search(MODELS["rnn"], *batch(SOURCES), config, constraints=constraints)
    for source, constraint, [best] in zip(SOURCES, constraints, together, strict=True):
        [[alone]] = search(MODELS["rnn"], *batch([source]), config, constraints=[constraint])
        assert_same(best, alone)


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


def test_banks_share_the_beam() -> None:
    assert select_across_banks([0, 0, 0, 0, 1], 2) == [0, 4]
    assert select_across_banks([0, 1, 0, 0, 2], 1) == [4]
    assert select_across_banks([0, 0, 0, 1], 4) == [0, 1, 2, 3]
    assert select_across_banks([0, 0, 0, 0, 0, 2], 5) == [0, 1, 2, 3, 5]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"min_length": 1000}, "min_length"),
        ({"sampling": {}, "mbr": {}}, "sampling"),
        ({"must": ("chat",), "sampling": {}}, "must"),
        ({"must": ("a",), "must_not": ("a",)}, "must_not"),
        ({"must_not": (" ",)}, "empty"),
        ({"n_best": 6}, "n_best"),
    ],
)
def test_options_that_contradict_each_other(keys: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SearchConfig.model_validate(keys)
