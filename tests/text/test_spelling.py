"""Misspelt words become known words; known words, names and everything else remain."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.normalisation import compose_unicode
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.spelling import SpellingCorrector
from nmt.text.tokenizer import word_hash
from nmt.text.vocabulary import UNK_ID, Vocab
from nmt.text.word_tokenizer import letter_words
from nmt.types import Encoded

IDS = {
    **{"friend": (4,), "the": (5,), "there": (6,), "three": (7,), "believe": (8,), "école": (9, 9)},
    **{"message": (10,), "school": (11,), "élèves": (9, 9), "wait": (12,), "waiting": (13, 14)},
    **{"cup": (90,), "brain": (91,), "letters": (4, 92), "metal": (5, 6), "waitress": (15,)},
    **{"mère": (5, 6, 7), "zebra": (UNK_ID,)},
}


class StubTokenizer:
    """Has 100 pieces. Words that are not in IDS have three pieces, or two if they begin with m."""

    vocab = Vocab.of(["abcdefghijklmnopqrstuvwxyzéè", *map(str, range(95))])

    def encode(self, word: str) -> Encoded:
        return Encoded((), IDS.get(word, (50,) * (2 if word[0] == "m" else 3)), (), ())


STUB = SpellingCorrector(StubTokenizer(), {word_hash(word) for word in IDS})

CORRECTED = {
    "1: no more pieces": "ecole>école l'ecole>l'école Les_eleves.>Les_élèves. ECOLE>ÉCOLE mere",
    "1: a text with accents": "été_ecole été_eleves",
    "2: fewer pieces": "a_freind,>a_friend, (wiat)>(wait) waitign>waiting mteal zebar",
    "2: the most frequent": "therre>there threre>there",
    "2: short and rare": "hte>the cpu brian>brain",
    "3: a single piece": "belive>believe belieeve>believe beliebve>believe schoil>school leters",
    "3: three pieces": "mesage nessage>nessage",
    "3: ends, other keys, inflections": "messag friendx schobl scbhool waitess",
    "capitals": "Teh>The hTe>the “Teh”>“The” a_Teh an_oWrd THE_FREIND>THE_FRIEND Brian Belive",
    "exempt": "exmept Exmept",
    "no running text": "teh.org a@teh a@b-teh <teh> teh=x 2teh %(teh)s teh-x.txt --teh teh'@x",
}


@pytest.mark.parametrize("cases", CORRECTED.values(), ids=CORRECTED.keys())
def test_a_slip_is_corrected_and_other_words_remain(cases: str) -> None:
    for case in cases.split():
        text, _, expected = case.replace("_", " ").partition(">")
        assert STUB.correct(text, {"exmept"}) == (expected or text)


LINES = ["my friends are at the school with a message", "les élèves sont fatigués", "teh"]
CONFIG = SentencePieceConfig(model_type="bpe", case="markup")
KNOWN = {word_hash(word) for line in LINES for word in letter_words(line)}
LEARNED = SpellingCorrector(CONFIG.build(CONFIG.train(LINES, "en", 1), "en"), KNOWN)
WORDS = st.sampled_from(["freidns", "eleves", "Les", "TEH", "é", "e\u0301", "shcool", "fatigues"])


@given(st.lists(WORDS | st.sampled_from(LINES) | st.text(max_size=5), max_size=6).map(" ".join))
def test_all_but_words_remains_and_a_correction_is_final(text: str) -> None:
    for corrector in (STUB, LEARNED):
        corrected = corrector.correct(text)
        assert corrector.correct(corrected) == corrected
        assert re.sub(r"\w+", "", corrected) == re.sub(r"\w+", "", compose_unicode(text))
    if all(word_hash(word) in KNOWN for word in letter_words(text)):
        assert corrected == compose_unicode(text)
    assert LEARNED.correct("a shcool") == "a school"
