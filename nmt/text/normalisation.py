"""Normalisation of texts for the model (`normalise`), and typography for readers (`restore`).

Corpora write a French sentence in many ways: with U+202F, U+00A0, U+2009, a plain space or no
space before `?`, with either apostrophe, with or without spaces inside guillemets. `normalise`
maps all of them to one plain form, so that the model need not learn typography. `restore` converts
the plain form to printed French. For every text x and language (tests/text/test_normalisation.py):

    normalise(normalise(x)) == normalise(x)
    normalise(restore(x)) == normalise(x)
"""

import itertools
import re
import unicodedata
from typing import Literal

NNBSP = "\u202f"
NBSP = "\u00a0"
APOSTROPHE = "\u2019"

# Zero-width marks of direction, joining and breaking, which mean nothing in a left-to-right
# corpus. ZWJ and ZWNJ are kept, because emoji, Persian and the Indic scripts need them.
_INVISIBLE = (
    "\u00ad\u180e\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
)
_APOSTROPHES = "\u2018\u2019\u201b\u02bc\uff07"  # with U+2018: Tatoeba has "J‘aime", "I‘m"
_HYPHENS = "\u2010\u2011"


_TABLE: dict[int, str | None] = {
    **{
        code: " " if chr(code).isspace() else None
        for code in range(0x3001)  # U+3000 is the last space; no control character lies beyond
        if chr(code).isspace() or unicodedata.category(chr(code)) == "Cc"
    },
    **dict.fromkeys(map(ord, _INVISIBLE)),
    **dict.fromkeys(map(ord, _APOSTROPHES), "'"),
    **dict.fromkeys(map(ord, _HYPHENS), "-"),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # lone surrogates: not UTF-8
    0x2581: "_",  # SentencePiece reserves ▁ as its mark of a space
    **{0x21E7: "↑", 0x21EA: "↑", 0x21E9: "↓"},  # the marks of case_markup.py
}

# `restore` removes or replaces these too. Otherwise it would read the `?` in "a?\u200bb" as the end
# of a clause, although the normalised text is "a?b".
_UNREAD = {code: to for code, to in _TABLE.items() if to is None or code == 0x2581}

_SPACES = re.compile(" {2,}")

# A French mark gets a space before it if it ends a clause: if it follows a letter, digit or closing
# mark, and only closing marks precede the next space. 10:30, a?b, x != y, file?.txt and :) do not.
_MARKS = "?!‽;:"
_CLOSING = r""".,…"')\]»”’"""
_CLOSED = r"""(?:(?<=[\w»)\]}.…”%$€£°])|(?<=\S["']))"""
_ASKING = re.compile(f"{_CLOSED}([?!‽]++)")
_PAUSING = re.compile(f"{_CLOSED}([;:])$")
_COLON = re.compile(f"{_CLOSED}(:)$")
_GUILLEMETS = ((re.compile(r"«(?=\S)"), "« "), (re.compile(r"(?<=\S)»"), " »"))
_ATTACHED = re.compile(rf"\S[{_MARKS}]")

# Patterns of code, which no rule changes.
_CODE = "|".join(
    (
        r"<[/!?]?[\w-]+(?=\s*/?>|\s+[\w:.-]+\s*=)[^<>]*>",  # a tag with its attributes
        r"`[^`']*`",
        r"\{(?=[^{}]*[;:])[^{}]*\}",  # a block of declarations
        r"&(?:amp;)*#?\w{2,32};",  # an entity
        r"#[A-Z][A-Z/0-9]*[?!]",  # an error value in a spreadsheet, such as #REF!
        r"(?<!\S)(?:[^\s:]+:){2,}+(?!\S)",  # the location before a message, such as file.c:12:
    )
)
# In a text with any of these, `;` ends a statement of code, not a clause.
_STATEMENTS = re.compile(r"[=|\\]|\{(?!\w*\})|\S\(|[^\s\d][:;][^\s)]|\$[^\W\d]")

_CODE_OR_TAIL = re.compile(  # the tail of a word is its last character and the marks after it
    rf"{_CODE}|(?P<tail>(?:(?<!\S)|[^\s{_MARKS}{_CLOSING}])(?=[{_CLOSING}]*+[{_MARKS}])"
    rf"[{_MARKS}{_CLOSING}]++(?!\S))"
)
_CODE_OR_PRINTED = re.compile(
    rf"{_CODE}|(?P<nnbsp> (?=[?!‽]++(?![\w/=&#*({{|\\$+-]|<(?!/)|[.;]\w|:)|;(?!\S)))"
    r"|(?P<nbsp> (?=:(?!\S))|(?<=«) | (?=»))"
    # Elision only: the quotes in 'maison' and b'abc', and the feet in 5' stay straight.
    r"|(?P<apostrophe>(?<=[^\W\d_])(?<!\b[bfruBFRU])'(?=[^\W_]|«))"
)
FRENCH_PRINTED = {"nnbsp": NNBSP, "nbsp": NBSP, "apostrophe": APOSTROPHE}
"""The replacement of each named group of the pattern `code_or_printed`."""


def _space_french(text: str) -> str:
    for pattern, replacement in _GUILLEMETS:
        text = pattern.sub(replacement, text)
    if not _ATTACHED.search(text):
        return text
    pausing = _COLON if _STATEMENTS.search(text) else _PAUSING

    def spaced(match: re.Match[str]) -> str:
        tail = match["tail"]
        return match[0] if tail is None else pausing.sub(r" \1", _ASKING.sub(r" \1", tail))

    return _CODE_OR_TAIL.sub(spaced, text)


def _print_french(text: str) -> str:
    return _CODE_OR_PRINTED.sub(
        lambda match: FRENCH_PRINTED[match.lastgroup] if match.lastgroup else match[0], text
    )


REPLACEMENTS = {chr(code): to or "" for code, to in _TABLE.items() if not 0xD800 <= code < 0xE000}
"""The replacement of each character that `normalise` replaces or removes, except surrogates."""

FRENCH_PATTERNS: dict[str, str] = {
    "opening": _GUILLEMETS[0][0].pattern,
    "closing": _GUILLEMETS[1][0].pattern,
    "attached": _ATTACHED.pattern,
    "statements": _STATEMENTS.pattern,
    "colon": _COLON.pattern,
    "pausing": _PAUSING.pattern,
    "asking": _ASKING.pattern,
    "code_or_tail": _CODE_OR_TAIL.pattern,
    "code_or_printed": _CODE_OR_PRINTED.pattern,
}
"""The patterns of the French rules, for an implementation in another programming language."""

# A superset of runs of combining marks: no ASCII, letters, digits or spaces.
_LONG_RUN = re.compile(r"[^\w\s\x00-\x7f]{32,}")


def compose_unicode(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """Return `unicodedata.normalize(form, text)`, in about linear time.

    Python sorts the combining marks on a letter by insertion, which takes minutes for 100,000 of
    them. Long runs are sorted here first, which is equivalent in Unicode.
    """
    return unicodedata.normalize(form, text if text.isascii() else _LONG_RUN.sub(_sorted, text))


def _sorted(match: re.Match[str]) -> str:
    parts = (unicodedata.normalize("NFD", char) for char in match[0])
    runs = itertools.groupby("".join(parts), key=lambda char: unicodedata.combining(char) > 0)
    return "".join(
        "".join(sorted(run, key=unicodedata.combining) if are_marks else run)
        for are_marks, run in runs
    )


def has_typography(lang: str) -> bool:
    """Return whether `restore` has rules for the language."""
    return lang in ("fr", "fra", "fre")


def normalise(text: str, lang: str) -> str:
    """Return the form of `text` that models read: NFC, plain spaces, plain apostrophes.

    Runs of Unicode white space become one space, and the ends are stripped. Typographic apostrophes
    and hyphens become `'` and `-`. Control and zero-width characters are removed. Lone surrogates
    become U+FFFD, U+2581 becomes `_`, and the marks of case ⇧ ⇪ ⇩ become ↑ ↑ ↓. French text also
    gets missing spaces before a final `? ! ; :` and inside « », except in code (entities, tags,
    addresses, statements). Never raises.
    """
    text = compose_unicode(text.translate(_TABLE))
    text = " ".join(text.split())
    return _space_french(text) if has_typography(lang) else text


def restore(text: str, lang: str) -> str:
    """Return a normalised `text`, such as a model's output, in the typography of `lang`.

    French gets U+202F before `? ! ;`, U+00A0 before `:` and inside « », and ’ as the apostrophe of
    an elision. Characters that `normalise` removes are removed, and double spaces merged. Text in a
    language without rules is returned unchanged.
    """
    if not has_typography(lang):
        return text
    plain = _SPACES.sub(" ", compose_unicode(text.translate(_UNREAD))).strip(" ")
    return _print_french(_space_french(plain))


def sentence_key(text: str) -> str:
    """Return a key that is equal for sentences that differ only in case, spacing or punctuation.

    The key has the letters, combining marks and numbers of the text in NFKC, case-folded. For a
    text without these characters, the key is the stripped, case-folded text.
    """
    if text.isascii():  # the same result in a fifth of the time
        return "".join(filter(str.isalnum, text.lower())) or text.lower().strip()
    key = compose_unicode(compose_unicode(text, "NFKC").casefold(), "NFKC")
    return "".join(c for c in key if unicodedata.category(c)[0] in "LMN") or key.strip()
