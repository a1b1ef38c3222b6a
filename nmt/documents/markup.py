"""Inline markup of a sentence, taken out before translation (placement.py puts it back)."""

import html
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal
from unicodedata import category

from nmt.corpora.sources import DataConfig
from nmt.documents.sentences import CLOSING, OPENING
from nmt.text.normalisation import compose_unicode
from nmt.text.placeholders import PLACEHOLDERS, TAG
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.text.vocabulary import RESERVED, UNK_ID
from nmt.translation.word_alignment import UNSPACED

TextFormat = Literal["text", "html", "markdown", "srt"]
Escapes = dict[int, str]

_BLOCKS = """address article aside blockquote body br caption center col colgroup dd details dialog
div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe
legend li link main menu meta nav noscript ol optgroup option p pre script section select style
summary table tbody td template textarea tfoot th thead title tr ul"""
BLOCK_TAGS = frozenset(_BLOCKS.split())
"""HTML tags that separate sentences. All others, also unknown ones, are inline."""

OPAQUE_TAGS = frozenset({"code", "kbd", "math", "pre", "samp", "script", "style", "svg", "var"})
"""HTML tags whose content is not translated."""

_VOID_TAGS = frozenset({"area", "br", "col", "embed", "hr", "img", "input", "link", "meta"})


@dataclass(slots=True, eq=False)
class Mark:
    """A tag, Markdown delimiter or placeholder, with its place in the source and the plain text.

    `role` is `open` or `close`, even if the other mark of the pair is missing. It is `copied` for
    a placeholder that the plain text has as `name`, and otherwise `single`. `before` and `after`
    are the white space beside the mark. The open mark of a pair has the `closing` mark and the
    `children` between them.
    """

    start: int
    end: int
    role: str
    name: str = ""
    text: str = ""
    place: int = 0
    before: str = ""
    after: str = ""
    closing: "Mark | None" = None
    children: list["Mark"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A sentence without its markup.

    `text` is what a model reads, empty if the sentence has no words. `root` is a pair of marks
    around the sentence. `copies` are the placeholders in `text`. `escapes` maps characters to
    their written form.
    """

    source: str
    text: str
    root: Mark
    copies: list[str]
    escapes: Escapes


def extract_markup(
    sentence: str,
    format: TextFormat = "text",
    is_copied: Callable[[str], bool] | None = None,
    unread: Collection[str] = (),
) -> MarkedText:
    """Take the inline markup out of a sentence.

    In every format, tags, placeholders and addresses are markup. So are accelerators (`&File`) in
    plain text and subtitles, and delimiters, links and code in Markdown. A placeholder for which
    `is_copied` returns True stays in the text, for a model that copies it. The characters `unread`
    are taken out too, a letter with the rest of its word, except “ ” „, which become ".
    """
    core, plain = sentence.strip(), ""
    quotes = {ord(char): '"' for char in "“”„" if char in unread}
    unread = [char for char in unread if ord(char) not in quotes]
    escapes = {ord(char): html.escape(char) for char in "&<>" if format == "html"}
    end, copies = Mark(len(core), len(core), ""), []
    root = last = Mark(0, 0, "open", closing=end)
    stack, recent = [root], [root]
    marks = [*_paired(_lexemes(core, format)), end]
    for mark in _with_unread(marks, core, unread) if unread else marks:
        text = _unescaped(core[last.end : mark.start], format, escapes).translate(quotes)
        last.after = _space(text, last, mark is end)
        mark.before = _space(text[::-1], mark, last is root)[::-1]
        if text.strip():
            has_single = any(other.role == "single" for other in recent)
            if has_single and text[0] in ".,;:!?…)]}»”":  # "Open %s." is read as "Open."
                plain = plain.rstrip()
            elif has_single and text[0].isalnum() and plain[-1:].isalnum():
                plain += " "
            for other in recent:
                other.place = min(other.place, len(plain))
            recent.clear()
        plain += text.lstrip() if plain[-1:].isspace() or not plain else text
        recent.append(mark)
        mark.text, last = core[mark.start : mark.end], mark
        if mark.role == "placeholder":
            mark.role, text = "single", mark.text.rstrip(".,:;")
            if is_copied and is_copied(text):
                mark.role, mark.text, mark.end = "copied", text, mark.start + len(text)
                mark.name = _unescaped(text, format, escapes)
                copies.append(mark.name)
                plain += mark.name
        mark.place = len(plain)
        if mark is stack[-1].closing:
            stack.pop()
        else:
            stack[-1].children.append(mark)
        if mark.closing:
            stack.append(mark)
    plain = plain.rstrip() if any(map(str.isalpha, plain)) else ""
    return MarkedText(sentence, plain, root, copies, escapes)


def copy_predicate(tokenizers: Tokenizers, data: DataConfig) -> Callable[[str], bool] | None:
    """Return a function that tells whether a model copies a text, or None if it copies none."""
    sides, noises = {tokenizers.src, tokenizers.tgt}, [data.noise, *(s.noise for s in data.stages)]
    if not any(noise and noise.copies for noise in noises):
        return None
    return lambda text: all(s.decode(s.encode(text).ids, restore=False) == text for s in sides)


def unread_characters(text: str, tokenizer: Tokenizer) -> set[str]:
    """Return the characters of a text, entities included, that the tokenizer has no piece for."""
    text = compose_unicode(_unescaped(text, "html", {}))
    others = (char for char in set(text) if char.lower() not in _characters(tokenizer))
    return {char for char in others if UNK_ID in tokenizer.encode(char).ids}


@lru_cache(maxsize=16)
def _characters(tokenizer: Tokenizer) -> frozenset[str]:
    return frozenset("".join(tokenizer.vocab.pieces[len(RESERVED) :]).lower())


def hide_markup(text: str, format: TextFormat) -> str:
    """Return a copy of the same length, with OPENING or CLOSING for tags and X for code."""

    def hidden(match: re.Match[str]) -> str:
        char = CLOSING if match[0][:2] == "</" else _HIDDEN.get(match.lastgroup or "")
        return match[0] if char is None else char * len(match[0])

    return _LEXEMES[format].sub(hidden, text)


def between_block_tags(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a Markdown paragraph between tags that separate sentences."""
    start = 0
    for match in _LEXEMES["markdown"].finditer(text):
        if match["tag"] and _tag_name(match[0]) in BLOCK_TAGS:
            yield start, match.start()
            start = match.end()
    yield start, len(text)


def _tag_name(tag: str) -> str:
    return re.split(r"[\s/>]", tag.lstrip("</"), maxsplit=1)[0].lower()


_HIDDEN = {"tag": OPENING, "comment": OPENING, "code": "X", "link": "X"}


def _space(text: str, mark: Mark, is_edge: bool) -> str:
    """Return the white space beside a mark, or " " beside a single mark before punctuation."""
    space = text[: len(text) - len(text.lstrip())]
    is_open = not text[0].isalnum() if text else is_edge
    return " " if mark.role not in ("open", "close", "") and is_open and not space else space


def _unescaped(text: str, format: TextFormat, escapes: Escapes) -> str:
    """Return a text without escapes, and record in `escapes` how its characters are written."""

    def unescaped(match: re.Match[str]) -> str:
        char = match[0][1:] if match[0][0] == "\\" else html.unescape(match[0])
        if len(char) == 1 and not (char.isascii() and (char.isalnum() or char.isspace())):
            escapes.setdefault(ord(char), match[0])
        return char

    return _ESCAPED[format].sub(unescaped, text) if format in _ESCAPED else text


_COMMON = (
    rf"(?P<tag>{TAG})|(?P<comment><!--(?s:.*?-->|.*+)|<[!?][^<>]*+>)"
    rf"|(?P<placeholder>\A(?:{PLACEHOLDERS})[.,:;]+(?=\s)|{PLACEHOLDERS})"
)
_ESCAPE = r"\\[!-/:-@\[-`{-~]"
_CODE = r"(?P<left>\()?(?<!`)(?>(?P<fence>`++)(?:(?s:.)*?[^`])?(?P=fence)(?!`))(?(left)\))"
_DESTINATION = r"<[^<>\n]{0,2000}>|(?:[^\s()<]|\([^\s()]{0,200}\)){0,2000}"
_TITLE = r"\"[^\"]{0,500}\"|'[^']{0,500}'|\([^()]{0,500}\)"
_TARGET = (
    rf"\(\s{{0,9}}(?:{_DESTINATION})(?:\s{{1,9}}(?:{_TITLE}))?\s{{0,9}}\)|\[[^\[\]]{{0,200}}\]"
)
_TEXT = re.compile(rf"{_COMMON}|(?P<key>(?<![\w&])&(?=[^\W_])|(?<=[^\W\d_])&(?=[a-z]))")
_LEXEMES: dict[TextFormat, re.Pattern[str]] = {
    "text": _TEXT,
    "srt": _TEXT,
    "html": re.compile(_COMMON),
    "markdown": re.compile(
        rf"(?P<escape>{_ESCAPE})|(?P<code>{_CODE})"
        r"|(?P<link><(?:[A-Za-z][\w+.-]{1,31}:[^\s<>]{1,2000}|[\w.+-]{1,64}@[\w.-]{1,255})>"
        r"|\[(?:\^[^\s\[\]]{1,80}|[ xX])\](?!\())"  # footnotes and check boxes
        rf"|(?P<open>!?\[)|(?P<close>\](?:{_TARGET})?)|(?P<run>\*+|_+|~~+)|{_COMMON}"
    ),
}
_REFERENCE = r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,31})(?:;|(?!\w))"
_ENTITY = re.compile(_REFERENCE)
_ESCAPED = {"html": _ENTITY, "markdown": re.compile(f"{_REFERENCE}|{_ESCAPE}")}

_LETTER = rf"[^\W_{UNSPACED}]"


def _with_unread(marks: list[Mark], core: str, characters: Collection[str]) -> Iterator[Mark]:
    """Yield the marks of a sentence, and between them words and runs of unread characters."""
    letters = "".join(char for char in characters if char.isalnum())
    others = "".join(re.escape(char) for char in characters if not char.isalnum())
    accents = "".join(char for char in characters if category(char)[0] == "M")
    word = rf"(?<!{_LETTER}){_LETTER}*?[{letters}](?:{_LETTER}|[{letters}{accents}])*"
    other = rf"(?:(?<!\S)[:;=]-?)?[{others}]+"  # also the : of :)
    patterns = [_REFERENCE, *[word] * bool(letters), *[other] * bool(others)]
    unread = re.compile("|".join(patterns))
    start = 0
    for mark in marks:
        for match in unread.finditer(core, start, mark.start):
            if not _ENTITY.match(match[0]) or html.unescape(match[0]) in characters:
                yield Mark(*match.span(), "single")
        yield mark
        start = mark.end


def _lexemes(core: str, format: TextFormat) -> Iterator[Mark]:
    """Yield the marks of a sentence, in order, with the role `either` for some runs of Markdown."""
    for match in _LEXEMES[format].finditer(core):
        (start, end), text, role, name = match.span(), match[0], match.lastgroup, "["
        if role == "tag":
            name = _tag_name(text)
            is_single = text.endswith("/>") or name in _VOID_TAGS
            role = "close" if text[1] == "/" else "single" if is_single else "open"
        elif role == "run":
            name, before, after = text, core[start - 1 : start], core[end : end + 1]
            opens = after.strip() and (after.isalnum() or not before.isalnum())
            closes = before.strip() and (before.isalnum() or not after.isalnum())
            role = "either" if opens and closes else "open" if opens else "close" if closes else ""
            role = "" if text[0] == "_" and before.isalnum() and after.isalnum() else role
        elif role == "key":
            role, name = "open", "&"
        elif role in ("comment", "code", "link"):
            role = "single"
        if role and role != "escape":
            yield Mark(start, end, role, name)


def _paired(lexemes: Iterator[Mark]) -> list[Mark]:
    """Pair opening and closing marks. A pair whose content is not translated becomes one mark."""
    marks: list[Mark] = []
    stack: list[int] = []
    counts: Counter[str] = Counter()
    for mark in lexemes:
        if mark.role in ("close", "either") and counts[mark.name]:
            opening = mark
            while opening is mark or opening.name != mark.name:
                index = stack.pop()
                opening = marks[index]
                counts[opening.name] -= 1
            if mark.name in OPAQUE_TAGS:
                del marks[index:]
                mark = Mark(opening.start, mark.end, "single")
            else:
                mark.role, opening.closing = "close", mark
        elif mark.role in ("open", "either"):
            mark.role = "open"
            stack.append(len(marks))
            counts[mark.name] += 1
        marks.append(mark)
    return marks
