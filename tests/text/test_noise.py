import random
import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt.text.noise import KEYBOARD_NEIGHBOURS, NoiseConfig, add_noise, insert_token, random_token
from nmt.text.placeholders import copied_tokens

TEXT = 'A man\'s dog says "hello" to the children.'
ALL = NoiseConfig(lower=0.2, upper=0.2, title=0.2, punctuation=0.5, quotes=0.5, slip=0.5)


def drawn(n: int = 400, text: str = TEXT, **probabilities: float) -> Counter[str]:
    config = NoiseConfig.model_validate(probabilities)
    return Counter(add_noise(text, config, random.Random(i)) for i in range(n))


def test_casings_exclude_each_other_and_have_their_probability() -> None:
    title = 'A Man\'s Dog Says "Hello" To The Children.'
    expected = {TEXT.lower(): 0.1, TEXT.upper(): 0.25, title: 0.45, TEXT: 0.2}
    shares = {text: n / 400 for text, n in drawn(lower=0.1, upper=0.25, title=0.45).items()}
    assert shares == pytest.approx(expected, abs=0.08)  # at least 3 standard deviations
    with pytest.raises(ValidationError, match=r"exclude each other: got a sum of 1\.2"):
        NoiseConfig(lower=0.6, upper=0.6)


def test_final_punctuation_is_removed_changed_or_added() -> None:
    counts = drawn(punctuation=1.0)
    assert {text[: len(TEXT) - 1] for text in counts} == {TEXT[:-1]}
    ends = Counter({text[len(TEXT) - 1 :]: n for text, n in counts.items()})
    assert set(ends) == {"", "!", "?", "...", "…"}
    assert abs(ends[""] / 400 - 0.5) < 0.1
    assert {text.removeprefix("a") for text in drawn(text="a", punctuation=1)} == {*".!?…", "..."}


def test_a_slip_is_one_edit_of_a_word_of_three_letters() -> None:
    """Exchanged, left out, doubled, a key beside, replaced: each kind is drawn."""
    slips = Counter({text[2:-3]: n for text, n in drawn(text="a man in", slip=1.0).items()})
    assert drawn(text="a man in", slip=1.0) == {f"a {word} in": n for word, n in slips.items()}
    beside = {
        f"{'man'[:i]}{key}{'man'[i + 1 :]}"
        for i in range(3)
        for key in KEYBOARD_NEIGHBOURS["man"[i]]
    }
    for edits in ({"amn", "mna"}, {"an", "mn", "ma"}, {"mman", "maan", "mann"}, beside):
        assert sum(slips.pop(word, 0) for word in edits) > 50  # of 80 expected
    assert slips.total() > 50
    assert all(sum(a == b for a, b in zip(word, "man", strict=True)) >= 2 for word in slips)
    # A key beside is a capital where the letter is; é has no key, and becomes another letter.
    assert {*"".join(drawn(text="QQQ", slip=1.0))} == {*"QW"}
    assert {*"".join(drawn(text="ééé", slip=1.0))} == {"é"}


@settings(max_examples=60, deadline=None)
@given(text=st.text(), tgt=st.text(), seed=st.integers(0, 1000))
def test_any_text_stays_a_text_and_the_same_draw_the_same(text: str, tgt: str, seed: int) -> None:
    """A token is all that is inserted."""
    result = add_noise(text, ALL, random.Random(seed))
    assert result == add_noise(text, ALL, random.Random(seed))
    assert bool(result.strip()) or not any(unicodedata.category(c)[0] in "LN" for c in text)
    assert add_noise(text, NoiseConfig(), random.Random(seed)) == text
    new = insert_token(text, tgt, random_token(random.Random(seed)), random.Random(seed))
    added = []
    for before, after in zip((text, tgt), new, strict=True):
        old_characters, characters = (Counter("".join(x.split())) for x in (before, after))
        assert characters >= old_characters
        added.append(characters - old_characters)
    assert added[0] == added[1]


def test_a_token_is_inserted_at_the_same_place_of_both_texts() -> None:
    src, tgt = "Today, 12 dogs bark!", "Aujourd'hui, 12 chiens aboient !"
    places = Counter[tuple[str, str]]()
    tokens = set()
    for seed in range(400):
        token = random_token(random.Random(seed))
        new_src, new_tgt = insert_token(src, tgt, token, random.Random(seed))
        places[new_src.replace(token, "@"), new_tgt.replace(token, "@")] += 1
        tokens.add(token)
    assert set(places) == {
        ("@ Today, 12 dogs bark!", "@ Aujourd'hui, 12 chiens aboient !"),
        ("Today, 12 dogs bark @!", "Aujourd'hui, 12 chiens aboient @ !"),
        ("Today, @ 12 dogs bark!", "Aujourd'hui, @ 12 chiens aboient !"),
    }
    assert min(places.values()) > 50
    assert sum(bool(copied_tokens(token)) for token in tokens) > 100
