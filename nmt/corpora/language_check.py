"""Checks of the language of texts, from frequent words and scripts."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from nmt.corpora.languages import find_sides, language_code

_WORD = re.compile(r"[^\W\d_]+")

_WORDS = {
    "cs": "že jsem už jsou když mě jen nebo byl bude jsme které je být také",
    "da": "og til jeg ikke skal ved vil også være hvor hvis hvad noget meget af",
    "de": "und ist nicht zu ein auf für eine sich auch dass bei aber wir nie was",
    "en": "the and you that this they what how hello with your his she would is was of it",
    "es": "pero cuando yo hay fue muy también eso qué así años les está los ella",
    "fi": "että oli mutta ole niin myös hän ovat kuin tai olla sitä mitä vain minä",
    "fr": "est une pour dans vous elle sont nous cette bonjour merci je les pas qu bu",
    "hu": "és hogy egy csak volt ez vagy már még kell azt akkor mint minden is",
    "it": "di che è della sono più dei anche gli questo essere io nella tutto questa",
    "nl": "het een ik voor niet zijn maar aan hij ook naar uit is was of je pas",
    "no": "og til jeg ikke skal ved vil også være hvor hvis hva noe mye av",
    "pl": "się jest że dla czy przez tego są tylko już może bardzo je nie oraz",
    "pt": "em não uma foi ao você seu tem são muito isso também ela pela está",
    "ro": "în și să pe cu că pentru sunt sau dacă după poate prin fost despre",
    "sv": "är att och jag inte för ska när vad från här då hur vill av",
    "tr": "bir bu için çok daha gibi kadar olan ama sonra iyi değil büyük olarak sadece",
}
"""Frequent words of each language. A word that is frequent in several of these languages must be in
the list of each. If both languages of a comparison have a word, it counts for neither. On Tatoeba
and Multi30k, fewer than 1 in 1,000 English or French sentences are taken for another language."""

_SCRIPTS = {
    **dict.fromkeys(("ru", "uk", "bg", "sr", "be", "mk"), ("CYRILLIC",)),
    **dict.fromkeys(("ar", "fa", "ur"), ("ARABIC",)),
    **{"zh": ("CJK",), "ja": ("HIRAGANA", "KATAKANA"), "ko": ("HANGUL",), "el": ("GREEK",)},
    **{"he": ("HEBREW",), "hi": ("DEVANAGARI",), "th": ("THAI",), "ka": ("GEORGIAN",)},
}

_SAMPLED = 2000  # number of texts of a side that are checked, evenly spaced
_LEAST_SHARE = 0.1  # least share of texts with a word or letter of the other language


def scripts_of(lang: str) -> tuple[str, ...]:
    """Return the prefixes of the Unicode names of a language's letters, or () if unknown."""
    code = language_code(lang)
    if code in ("zh", "ja"):  # Japanese has Chinese characters, and both have Latin letters
        return ("CJK", "HIRAGANA", "KATAKANA", "LATIN")
    return _SCRIPTS.get(code, ("LATIN",) if code in _WORDS else ())


def language_notes(
    src_texts: Sequence[str], tgt_texts: Sequence[str], src_lang: str, tgt_lang: str
) -> Iterator[str]:
    """Yield a message for each sign of a header line, swapped sides or a wrong language."""
    first = (*src_texts[:1], *tgt_texts[:1])
    if len(first) == 2 and find_sides(first, (src_lang, tgt_lang)) is not None:
        yield f"the first pair looks like a header: {first[0]}, {first[1]}; delete this line"
    if are_swapped(src_texts, tgt_texts, src_lang, tgt_lang):
        yield f"the sides look swapped: {tgt_lang} in the source, {src_lang} in the target"
        return
    for side, texts, lang, other in (
        ("source", src_texts, src_lang, tgt_lang),
        ("target", tgt_texts, tgt_lang, src_lang),
    ):
        if (language := other_language(texts, lang, other)) is not None:
            yield f"the {side} looks like {language}, not {lang}"


def are_swapped(
    src_texts: Sequence[str], tgt_texts: Sequence[str], src_lang: str, tgt_lang: str
) -> bool:
    """Return whether each side looks like the other side's language."""
    src, tgt = language_code(src_lang), language_code(tgt_lang)
    return other_language(src_texts, src, tgt) == tgt and other_language(tgt_texts, tgt, src) == src


def other_language(texts: Sequence[str], lang: str, other: str) -> str | None:
    """Return the language of `texts` if it appears not to be `lang`, otherwise None.

    A text counts for a language if it has a frequent word of the language, or a letter of its
    script. A language is returned only if more than a tenth of the texts count for it, and more
    than three times as many as for `lang`. The candidates are `other` and the languages with a list
    of frequent words. For a single text, `other` is the only candidate. The result is None if
    `lang` is unknown.
    """
    lang, other = language_code(lang), language_code(other)
    texts = texts[:: -(-len(texts) // _SAMPLED) or 1]
    if lang not in _WORDS and lang not in _SCRIPTS:
        return None
    words = [set(_WORD.findall(text.lower())) for text in texts]
    counts = {}
    for candidate in dict.fromkeys((other, *_WORDS)):
        if candidate == lang:
            continue
        n_marked = _n_marked(texts, words, candidate, lang)
        minimum = max(_LEAST_SHARE * len(texts), int(len(texts) > 1 or candidate != other))
        if n_marked > minimum and n_marked > 3 * _n_marked(texts, words, lang, candidate):
            counts[candidate] = n_marked
    return max(counts, key=lambda code: counts[code], default=None)


def _n_marked(
    texts: Sequence[str], words_of_texts: Sequence[set[str]], lang: str, other: str
) -> int:
    """Return the number of texts with a letter or a word of `lang` that `other` lacks."""
    if lang in _SCRIPTS:
        scripts = _SCRIPTS[lang]
        return sum(any(unicodedata.name(c, "").startswith(scripts) for c in t) for t in texts)
    marks = set(_WORDS.get(lang, "").split()) - set(_WORDS.get(other, "").split())
    return sum(not marks.isdisjoint(words) for words in words_of_texts)
