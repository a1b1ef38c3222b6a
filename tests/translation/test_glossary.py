"""Glossaries: which terms a text has, that translations contain them, and what files may hold."""

import contextlib
import re
from collections import Counter
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from translation.small import LONGER, PIECES, TEXTS, translator_of, turned

from nmt.errors import ConfigError, DataError
from nmt.search.constraints import Constraint
from nmt.search.search_config import SamplingConfig, SearchConfig
from nmt.text.normalisation import normalise
from nmt.text.numbers import canonical_numbers, lost_numbers
from nmt.text.tokenizer import SentencePieceConfig, WordConfig, train_tokenizers
from nmt.text.vocabulary import EOS_ID
from nmt.text.word_pieces import word_pieces
from nmt.translation.glossary import MAX_CHARACTERS, Glossary, missed_terms, number_terms
from nmt.translation.term_placement import Sentence, place_terms, texts_with_terms
from nmt.translation.translator import Translator
from nmt.translation.word_alignment import words_of
from nmt.types import Hypothesis, SentencePair, TranslatedHypothesis

BEAM = SearchConfig(beam=5, max_length=40, max_length_factor=1, allow_unk=False)
TRANSLATOR = translator_of(search=BEAM)
TOKENIZERS = TRANSLATOR.tokenizers
MARKED = SentencePieceConfig(vocab_size=40, case="markup")
WORDS = WordConfig(min_freq=1)
BYTES = train_tokenizers(
    SentencePieceConfig(vocab_size=266, byte_fallback=True, case="markup"),
    [SentencePair("a b", "c d")],
    *("en", "fr"),
    seed=1,
)
TERMS = {"cats": ["chats"], "is": ["est", "noir"], "garden": ["les deux"]}


def with_terms(terms: dict[str, list[str]], translator: Translator = TRANSLATOR) -> Translator:
    other = copy(translator)
    other.use_glossary(terms)
    return other


def missed(translator: Translator, text: str) -> tuple[str, int, list[str]]:
    """Translate a text; return also the number of its terms, and the sources of those it lacks."""
    [translation], glossary = translator.translate([text]), translator.glossary
    terms = glossary.terms_of(text)
    lacking = missed_terms(terms, translation.hypotheses[0].hypothesis, translator.tokenizers)
    return translation.text, len(terms), [term.source for term in lacking]


@pytest.mark.parametrize(
    ("terms", "text", "sources"),
    [
        ({"cat": "un"}, "A Cat, a CAT; concatenate cats", ["Cat"]),
        ({"NATO": "un", "Cat": "deux"}, "nato cat NATO", ["cat", "NATO"]),
        ({"a": "un", "a b": "deux", "b c d": "est"}, "a b c d", ["b c d", "a"]),
        ({"fire truck": "un", "truck stop": "deux"}, "fire truck stop", ["fire truck"]),
        ({"l'été": "un"}, "L\u2019e\u0301te\u0301\u200b", ["L'été"]),
        ({"fire": "un", "blaze": "un"}, "blaze fire", ["blaze"]),  # one word for both
        ({"fire truck": "un"}, "fire  truck fire-truck", ["fire truck"]),
    ],
)
def test_terms_of_a_text(terms: dict[str, str], text: str, sources: list[str]) -> None:
    assert [term.source for term in Glossary(terms, TOKENIZERS).terms_of(text)] == sources


WORD = st.text("aEt", min_size=1, max_size=2)
TERM = st.lists(WORD, min_size=1, max_size=3).map(" ".join)


@settings(max_examples=100, deadline=None)
@given(st.lists(TERM, min_size=1, max_size=4, unique_by=str.casefold), TERM, st.lists(WORD))
def test_terms_are_whole_words_and_none_is_left_out(terms, more, words):
    rest = text = " ".join([more, *words])
    for term in Glossary(dict.fromkeys(terms, ""), TOKENIZERS).terms_of(text):  # longest first
        assert term.source.casefold() in map(str.casefold, terms)
        rest = re.sub(rf"(?<!\S){term.source}(?!\S)", "|", rest)
    for form in terms:
        flags = re.IGNORECASE if form[1:] == form[1:].lower() else re.NOFLAG
        assert not re.search(rf"(?<!\S){form}(?!\S)", rest, flags)


@pytest.mark.parametrize(
    ("config", "is_reversed"), [(PIECES, False), (PIECES, True), (MARKED, False), (WORDS, True)]
)
def test_every_term_is_met_and_other_texts_stay(config, is_reversed: bool) -> None:
    """Each text of a batch has terms of its own."""
    plain = translator_of(config, BEAM.model_copy(update={"batch_size": 3}))
    plain = turned(plain) if is_reversed else plain
    translator = with_terms(TERMS, plain)
    texts = [TEXTS[0], TEXTS[1], LONGER, ""]
    before = [translation.text for translation in plain.translate(texts)]
    after = translator.translate(texts, n_best=2)
    boundary = "" if config is MARKED else r"\b"  # a mark of case may end a word
    for text, translation, unforced in zip(texts, after, before, strict=True):
        sources = {*re.findall(r"\w+", text.lower())} & {*TERMS}
        [alone] = translator.translate([text], n_best=2)
        for hypothesis, other in zip(translation.hypotheses, alone.hypotheses, strict=True):
            assert hypothesis.hypothesis.ids == other.hypothesis.ids
            output = normalise(hypothesis.text, "fr").lower()
            for source in sources:
                patterns = [rf"{boundary}{form}{boundary}" for form in TERMS[source]]
                assert any(re.search(pattern, output) for pattern in patterns)
        assert sources or translation.text == unforced
    assert missed(translator, LONGER) == (after[2].text, 3, [])


def linked(text: str, translation: str, links: str, tokenizers=None) -> TranslatedHypothesis:
    """A translation that attends by word: link 21 is from its word 2 to source word 1."""
    src, tgt = (tokenizers or BYTES).src, (tokenizers or BYTES).tgt
    source, target = src.encode(text), tgt.encode(translation)
    sources, targets = ([w[0] for w in words_of(t, "fr")] for t in (text, translation))
    columns, rows = (
        word_pieces(sources, source, src).shares,
        word_pieces(targets, target, tgt).shares,
    )
    attention = np.zeros((len(target.ids) + 1, len(source.ids) + 1), np.float32)
    for j, i in (map(int, link) for link in links.split()):
        attention[:-1, :-1] += np.outer(rows[j], columns[i] / columns[i].sum())
    attention /= attention.sum(axis=1, keepdims=True).clip(1)
    hypothesis = Hypothesis((*target.ids, EOS_ID), (), 0.0, attention, True)
    return TranslatedHypothesis(translation, target, hypothesis)


@pytest.mark.parametrize(
    ("terms", "text", "translation", "links", "expected"),
    [
        ({"cat": "minou"}, "a cat, a", "un chat, un", "11", ["un minou, un", "une minou, un"]),
        ({"cat": "A|b"}, "my cat", "ton chat", "11", ["ton A", "ton b", "ta b"]),
        ({"way": "avenue"}, "The way", "La  rue.", "00 11", ["La  avenue."]),
        ({"way": "avenue"}, "The way", "La rue.", "00 11", ["L’avenue."]),
        ({"way": "b"}, "the way", "l’allée", "00 11", ["le b", "la b"]),
        ({"cat": "B"}, "cat + Cat", "a + 7", "00 22", ["B + 7"]),  # numbers stay
        ({"cat": "B", "d": "C"}, "cat cat d", "a e u", "01 12 20", ["B C B"]),
        ({"cat": "B"}, "cat or cat", "a e", "00 11 11 12", ["B e"]),  # the second is left out
        ({"cat": "B", "d": "C"}, "cat d", "e", "00 01", []),  # one word for both
        ({"cat": "B"}, "a cat", "a chat", "00", []),  # no word attends to the term
        ({"fire cat": "b"}, "fire cat d", "A de e", "01 10 22", ["B e"]),
        ({"an": "iB"}, "an", "A", "00", ["iB"]),  # a capital would be a different word
        ({"eau": "b"}, "eau", "L’eau", "00 10", ["Le b", "La b"]),  # the article stays
        ({"want": "b"}, "I want", "Je le veux", "00 21", ["Je le b"]),  # a pronoun
        ({"US": "B"}, "us US", "u v", "00 11", ["u B"]),  # as terms_of finds it
        ({"law": "B"}, "in-law x", "beau y", "00 11", []),  # a part of a word
    ],
)
def test_a_term_replaces_what_attends_to_it(terms, text, translation, links, expected) -> None:
    glossary = Glossary({source: forms.split("|") for source, forms in terms.items()}, BYTES)
    output, source = linked(text, translation, links), BYTES.src.encode(text)
    assert texts_with_terms(text, source, output, glossary.terms_of(text), BYTES) == expected


def test_a_capital_after_an_apostrophe_counts() -> None:
    terms = Glossary({"cat": "Ab", "dog": "B"}, BYTES).terms_of("cat dog")
    output = linked("cat", "qu’Ab, qu’Bc", "")
    assert [term.source for term in missed_terms(terms, output.hypothesis, BYTES)] == ["dog"]


@pytest.mark.parametrize("finished", [True, False])
def test_a_placed_term_has_the_score_of_the_model(finished: bool) -> None:
    translator = with_terms({"cats": "chats"})
    hypothesis = linked("cats", "chiens", "00", TOKENIZERS).hypothesis
    n = len(hypothesis.ids) - (not finished)
    ids, attention = hypothesis.ids[:n], hypothesis.attention[:n]
    aligned = replace(hypothesis, ids=ids, attention=attention, finished=finished)
    beams = [[aligned, bare := replace(aligned, attention=0 * attention)], [bare, aligned]]
    sentences = [Sentence("cats", TOKENIZERS.src.encode("cats"), Constraint())] * 2
    place_terms(translator.batched, sentences, beams, translator.glossary, BEAM)
    [placed] = beams[0]  # a second hypothesis without a place is left out
    assert beams[1] == [bare, aligned]
    [forced] = translator.force(["cats"], ["chats"])
    assert placed.ids == forced.hypotheses[0].hypothesis.ids[: None if finished else -1]
    assert placed.finished == finished
    assert not finished or placed.score == pytest.approx(forced.hypotheses[0].hypothesis.score)


def test_an_empty_target_copies_the_source() -> None:
    translator = with_terms({"is Les Iles": [], "ant": [""]})
    text, *terms = missed(translator, "Go to is Les Iles, ANT and ant")
    assert re.search(r"\bis Les Iles\b.*\b[Aa]nt\b|\b[Aa]nt\b.*\bis Les Iles\b", text)
    assert terms == [3, ["ANT"]]  # the vocabulary has no N


def test_terms_beside_other_constraints() -> None:
    translator = with_terms({"cats": ["chats", "chiens"], "garden": ["jardin"]})
    texts, prefixes = ["the cats", "a garden"], ["Il est", "Elle"]
    keys = {"must": ("noir",), "must_not": ("chats",)}
    both = translator.translate(texts, search=keys, prefixes=prefixes)
    for translation, prefix, target in zip(both, prefixes, ("chiens", "jardin"), strict=True):
        words = re.findall(r"[^\W\d]+", translation.text)
        assert translation.text.startswith(prefix)
        assert {target, "noir"} <= {word.lower() for word in words}
        assert "chats" not in words
    with pytest.raises(ConfigError, match="glossary"):
        translator.translate(texts, search={"sampling": {}})


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("cat chat\n", 1),
        ("cats\tchats\n\ncat\tchat\t\n", 3),
        ("cat||kitty\tchats\n", 1),
        ("чай\t\n", 1),
        ("cats\tchats\nCats|dogs\tchiens\n", 2),
        ("cats\t" + "a" * (MAX_CHARACTERS + 1), 1),
        ("cats\tchats\n\x00\x01\t\x00", 2),
    ],
)
def test_bad_lines_are_named(content: str, line: int, tmp_path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        Glossary(path, TOKENIZERS)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_file_says_what_a_dict_says(tmp_path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("\ufeffcat|cats\tchats|chiens\r\n\r\nhere\t\r\ncats\tchats|chiens\r\n", "utf-8")
    forms = ["chats", "chiens"]
    from_dict = Glossary({"cat": forms, "cats": forms, "here": ""}, TOKENIZERS)
    for text in ("Cats here", "cat cats", "Here."):
        assert Glossary(path, TOKENIZERS).terms_of(text) == from_dict.terms_of(text) != []


@settings(max_examples=100, deadline=None)
@given(st.text("acE\t|\n\x00\ud800'’ ", max_size=30))
def test_any_text_is_a_glossary_or_refused(text):
    terms = dict(re.findall(r"(.*)\t(.*)", text))
    with contextlib.suppress(DataError):
        Glossary(terms, TOKENIZERS).terms_of(text)


def test_a_long_text_takes_linear_time() -> None:
    terms = {" ".join(["a"] * n): "chats" for n in (99, 1)}
    assert len(Glossary(terms, TOKENIZERS).terms_of("a " * 20_000)) == 1


def test_lost_numbers_come_back_and_other_texts_stay() -> None:
    more = SentencePair("He is 3 or 47.", "Il a 3 ou 47 ans.")
    translator = translator_of(SentencePieceConfig(vocab_size=46), BEAM, more=[more])
    texts = ["He is 47.", "7347 or 3,774, in 44:33.", TEXTS[0], "Is this 77?", ""]
    plain = translator.translate(texts)
    required = translator.translate(texts, n_best=2, search={"keep_numbers": True})
    alone = translator.translate(texts, search={"keep_numbers": True})
    assert [t.hypotheses[:1] for t in required] == [t.hypotheses[:1] for t in alone]
    sampling = {"sampling": SamplingConfig(), "keep_numbers": True}  # does not constrain samples
    assert len(translator.translate(texts, search=sampling)) == len(texts)
    n_lost = 0
    for text, before, after in zip(texts, plain, required, strict=True):
        numbers = Counter(canonical_numbers(text))
        hypotheses = [*before.hypotheses, *after.hypotheses[:1]]
        outputs = [Counter(canonical_numbers(hypothesis.text)) for hypothesis in hypotheses]
        lost, *others = [lost_numbers(numbers, numbers, output) for output in outputs] or [[]]
        assert not any(others)
        assert numbers or before.text == after.text
        n_lost += len(lost)
    assert n_lost > 0
    assert len(number_terms("47 or 47", translator.tokenizers)) == 1
