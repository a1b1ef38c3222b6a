"""Tokens as text again: what a model reads, from a corpus that someone else has tokenised."""

import re
from collections.abc import Sequence

from nmt.text.word_tokenizer import join

# Elided words take the next one (l' + eau), clitics follow the one before (-il; 's, n't).
_TAKES_NEXT = {"fr": re.compile(r"[^\W\d_]+['’]")}
_FOLLOWS = {"fr": re.compile(r"-[^\W\d_]+"), "en": re.compile(r"['’][^\W\d_]+|n['’]t", re.I)}


def detokenise(tokens: Sequence[str], lang: str) -> str:
    """The text of tokens: clitics joined to their word, marks spaced as `lang` is written.

    The letters and their order stay. A language without rules here has its marks spaced only.
    """
    takes_next, follows = _TAKES_NEXT.get(lang), _FOLLOWS.get(lang)
    words: list[str] = []
    is_open = False
    for token in tokens:
        if words and (is_open or (follows is not None and follows.fullmatch(token))):
            words[-1] += token
        else:
            words.append(token)
        is_open = takes_next is not None and takes_next.fullmatch(token) is not None
    return join(words, lang)
