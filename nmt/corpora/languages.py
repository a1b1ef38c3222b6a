"""ISO 639 codes and English names of languages, and the languages in names of files and columns."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from operator import eq
from pathlib import Path

_LANGUAGES = """
ar:ara:Arabic bg:bul:Bulgarian ca:cat:Catalan cs:ces,cze:Czech da:dan:Danish de:deu,ger:German
el:ell,gre:Greek en:eng:English es:spa:Spanish et:est:Estonian eu:eus,baq:Basque fa:fas,per:Persian
fi:fin:Finnish fr:fra,fre:French ga:gle:Irish gl:glg:Galician he:heb:Hebrew hi:hin:Hindi
hr:hrv:Croatian hu:hun:Hungarian id:ind:Indonesian is:isl,ice:Icelandic it:ita:Italian
ja:jpn:Japanese ko:kor:Korean lt:lit:Lithuanian lv:lav:Latvian mk:mkd,mac:Macedonian mt:mlt:Maltese
nl:nld,dut:Dutch no:nor,nob:Norwegian pl:pol:Polish pt:por:Portuguese ro:ron,rum:Romanian
ru:rus:Russian sk:slk,slo:Slovak sl:slv:Slovenian sq:sqi,alb:Albanian sr:srp:Serbian sv:swe:Swedish
sw:swa:Swahili th:tha:Thai tr:tur:Turkish uk:ukr:Ukrainian ur:urd:Urdu vi:vie:Vietnamese
zh:zho,chi,cmn:Chinese
"""
_TABLE = [entry.split(":") for entry in _LANGUAGES.split()]

NAMES = {code: name for code, _, name in _TABLE}  # English names by ISO 639-1 code

_CODES = {word: row[0] for row in _TABLE for word in (row[0], *row[1].split(","), row[2].lower())}
"""ISO 639-1 codes by the words that may mean a language in a file name: `en`, `eng`, `english`."""

_ENDING = re.compile(r"(\.(gz|zip|txt|tsv|parquet|tmx|csv|json|jsonl|ndjson|po))+$", re.IGNORECASE)


def language_code(lang: str) -> str:
    """Return the ISO 639 code of a language tag: `fr` for `FR`, `fr-CA` and `fra`.

    A code of three letters that is not in the table of this module is kept, in lower case.
    """
    code = lang.lower().replace("_", "-").partition("-")[0]
    return _CODES.get(code, code) if len(code) == 3 else code


def check_language(lang: str) -> str:
    """Return `lang`. Raises ValueError, with the code, if it is a language's English name."""
    if len(lang) > 3 and (code := _CODES.get(lang.lower())) is not None:
        raise ValueError(f"got {lang!r}, allowed: an ISO 639 code; did you mean {code!r}?")
    return lang


def find_language(tags: Iterable[str], lang: str) -> str | None:
    """Return the tag that means `lang`, preferably an equal tag, or None if there is none.

    `eng`, `English` and `en-US` mean `en`. Tags with different regions do not mean each other.
    """
    matches = [tag for tag in tags if all(map(eq, _tag_parts(tag[:40]), _tag_parts(lang)))]
    return min(matches, key=lambda tag: tag.lower() != lang.lower(), default=None)


def _tag_parts(tag: str) -> list[str]:
    first, *others = re.split("[-_]", tag.strip().lower())
    return [_CODES.get(first, first), *others]


@lru_cache(maxsize=4)  # many records have the same names
def find_sides(names: tuple[str, ...], languages: tuple[str, str]) -> tuple[str, str] | None:
    """Return the names of the source and target columns, or None if `names` has no such names.

    They are language tags (`en` or `translation.en`), or else source and target, or src and tgt.
    """
    tags = {name.removeprefix("translation."): name for name in names}
    src, tgt = (find_language(tags, lang) for lang in languages)
    for pair in (src, tgt), ("source", "target"), ("src", "tgt"):
        if pair[0] in tags and pair[1] in tags and pair[0] != pair[1]:
            return tags[pair[0]], tags[pair[1]]
    return None


def language_of(path: Path) -> str:
    """Return the language code at the end of a file name (a.fr.gz, news_fr.txt, fr), or ""."""
    code = _stem(path).rpartition(".")[2]
    if len(code) == 2 and code.isascii() and code.islower():
        return code
    return _CODES.get(re.split(r"[_.-]", code)[-1].lower(), "")


def language_pair_of(path: Path) -> tuple[str, str] | None:
    """Return the codes of two languages in a file name (fra-eng.zip, news.de-en.tsv), or None.

    Their order does not tell which language is in the first column, since both orders are common.
    """
    words = [_CODES.get(word) for word in re.split(r"[\W_]+", _stem(path).lower())]
    for first, second in pairwise(words):
        if first and second and first != second:
            return first, second
    return None


def _stem(path: Path) -> str:
    """Return the name of a file without the endings of archives and formats."""
    return _ENDING.split(path.name, maxsplit=1)[0]
