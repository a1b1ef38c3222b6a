"""Text rules: what the model reads (`normalise`) and what a reader gets (`restore`).

Corpora write one French sentence in a dozen ways: U+202F, U+00A0, U+2009, a plain space or
nothing before `?`, both apostrophes, guillemets with and without spaces. `normalise` maps them
all to one plain form, so that the model need not learn typography, and `restore` writes that
form the way French is printed. Laws for every text x and language
(tests/text/test_normalisation.py):

    normalise(normalise(x)) == normalise(x)
    normalise(restore(x)) == normalise(x)
"""

import itertools
import re
import unicodedata
from collections.abc import Callable
from typing import Literal

NNBSP = "\u202f"
NBSP = "\u00a0"
APOSTROPHE = "\u2019"

# Marks of direction, joining and breaking that have no width and carry no meaning in a
# left-to-right corpus. ZWJ and ZWNJ are kept: emoji, Persian and the Indic scripts need them.
_INVISIBLE = (
    "\u00ad\u180e\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
)
_APOSTROPHES = "\u2018\u2019\u201b\u02bc\uff07"  # U+2018 for it too: Tatoeba has "J‘aime", "I‘m"
_HYPHENS = "\u2010\u2011"


def _character_table() -> dict[int, str | None]:
    table: dict[int, str | None] = {}
    for code in range(0x3001):  # U+3000 is the last space; no control character lies beyond
        if chr(code).isspace():
            table[code] = " "
        elif unicodedata.category(chr(code)) == "Cc":
            table[code] = None
    table.update(dict.fromkeys(map(ord, _INVISIBLE)))
    table.update(dict.fromkeys(map(ord, _APOSTROPHES), "'"))
    table.update(dict.fromkeys(map(ord, _HYPHENS), "-"))
    table.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))  # lone surrogates: not UTF-8
    table[0x2581] = "_"  # SentencePiece keeps ▁ to itself, as its mark of a space
    table.update({0x21E7: "↑", 0x21EA: "↑", 0x21E9: "↓"})  # the marks of case_markup.py
    return table


_TABLE = _character_table()

# restore removes or replaces these too. Otherwise a mark would seem to end a clause that goes on
# in the normalised text, as in "a?\u200bb".
_UNREAD = {code: to for code, to in _TABLE.items() if to is None or code == 0x2581}

_SPACES = re.compile(" {2,}")

# A French mark is set apart where it ends a clause: after a letter, digit or closing mark, with
# only closing marks up to the next space. 10:30, a?b, x != y, file?.txt and :) stay as they are.
_MARKS = "?!‽;:"
_CLOSING = r""".,…"')\]»”’"""
_CLOSED = r"""(?:(?<=[\w»)\]}.…”%$€£°])|(?<=\S["']))"""
_ASKING = re.compile(f"{_CLOSED}([?!‽]++)")
_PAUSING = re.compile(f"{_CLOSED}([;:])$")
_COLON = re.compile(f"{_CLOSED}(:)$")
_GUILLEMETS = ((re.compile(r"«(?=\S)"), "« "), (re.compile(r"(?<=\S)»"), " »"))
_ATTACHED = re.compile(rf"\S[{_MARKS}]")

# Code, which no rule changes.
_CODE = "|".join(
    (
        r"<[/!?]?[\w-]+(?=\s*/?>|\s+[\w:.-]+\s*=)[^<>]*>",  # a tag with its attributes
        r"`[^`']*`",
        r"\{(?=[^{}]*[;:])[^{}]*\}",  # a block of declarations
        r"&(?:amp;)*#?\w{2,32};",  # an entity
        r"#[A-Z][A-Z/0-9]*[?!]",  # an error of a spreadsheet, such as #REF!
        r"(?<!\S)(?:[^\s:]+:){2,}+(?!\S)",  # the place in front of a message, such as file.c:12:
    )
)
# The `;` of a text with any of these ends a statement, not a clause.
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
_PRINTED = {"nnbsp": NNBSP, "nbsp": NBSP, "apostrophe": APOSTROPHE}


def _space_french(text: str) -> str:
    for pattern, replacement in _GUILLEMETS:
        text = pattern.sub(replacement, text)
    if not _ATTACHED.search(text):
        return text
    pausing = _COLON if _STATEMENTS.search(text) else _PAUSING
    return _CODE_OR_TAIL.sub(
        lambda match: (
            pausing.sub(r" \1", _ASKING.sub(r" \1", match[0]))
            if match.lastgroup == "tail"
            else match[0]
        ),
        text,
    )


def _print_french(text: str) -> str:
    return _CODE_OR_PRINTED.sub(
        lambda match: _PRINTED[match.lastgroup] if match.lastgroup else match[0], text
    )


# lang -> (a further step of normalise after the common rules, its inverse in restore).
_RULES: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = dict.fromkeys(
    ("fr", "fra", "fre"), (_space_french, _print_french)
)


# A superset of runs of combining marks: no ASCII, letters, digits or spaces.
_LONG_RUN = re.compile(r"[^\w\s\x00-\x7f]{32,}")


def composed(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """`text` in a composed form of Unicode, in time that grows with its length.

    Python sorts the marks on a letter by insertion, which takes minutes for 100,000 of them; a
    long run of them is sorted beforehand, which is the same text to Unicode.
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
    """Whether `restore` has rules for the language."""
    return lang in _RULES


def normalise(text: str, lang: str) -> str:
    """The form of `text` that models read: NFC, plain spaces, plain apostrophes.

    Every Unicode space (tabs and line separators too) becomes one space, runs are collapsed and
    the ends stripped; typographic apostrophes and hyphens become `'` and `-`; control and
    zero-width characters go; a lone surrogate becomes U+FFFD, U+2581 `_`, and the marks of
    case ⇧ ⇪ ⇩ become ↑ ↑ ↓. French also gets a space before a final `? ! ; :` and inside « » where
    it has none, except in code: entities, tags, addresses, statements. Never raises.
    """
    text = composed(text.translate(_TABLE))
    text = " ".join(text.split())
    return _RULES[lang][0](text) if lang in _RULES else text


def restore(text: str, lang: str) -> str:
    """`text` (normalised, as models write it) in the typography of `lang`.

    French: U+202F before `? ! ;`, U+00A0 before `:` and inside « », ’ for the apostrophe of an
    elision; characters that no model reads are left out, and one space is left where they stood
    between two. A language without rules is returned unchanged.
    """
    if lang not in _RULES:
        return text
    space, typeset = _RULES[lang]
    read = _SPACES.sub(" ", composed(text.translate(_UNREAD))).strip(" ")
    return typeset(space(read))


def sentence_key(text: str) -> str:
    """A key that is equal for sentences that differ only in case, spacing or punctuation.

    The text in NFKC and case-folded, with only its letters, marks and digits. A text without any
    of these is its own key.
    """
    if text.isascii():  # the same result in a fifth of the time
        return "".join(filter(str.isalnum, text.lower())) or text.lower().strip()
    folded = composed(composed(text, "NFKC").casefold(), "NFKC")
    return "".join(c for c in folded if unicodedata.category(c)[0] in "LMN") or folded.strip()
