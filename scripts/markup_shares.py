"""Measure how a run's translations keep placeholders, and where they get the tags of a sentence.

    python scripts/markup_shares.py RUN

Of the placeholders, addresses, tags and accelerators in tests/documents/software_strings.txt, those
are kept that a translation has exactly as often as its source. The pairs of tags in
tests/documents/tagged_captions.tsv are placed by forced decoding of the reference; right are those
that enclose the words that they enclose in the reference.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from nmt import Translator
from nmt.documents.markup import extract_markup
from nmt.documents.placement import restore
from nmt.text.placeholders import copied_tokens

DATA = Path(__file__).resolve().parents[1] / "tests" / "documents"
SAME = str.maketrans({"\u202f": " ", "\xa0": " ", "’": "'"})


def tokens(text: str) -> Counter[str]:
    """Count the tokens of a software string that a translation should keep."""
    return copied_tokens(text) + Counter("&" * text.count("&"))


def share_kept(sources: list[str], translations: list[str]) -> tuple[int, int]:
    """Return how many tokens of the sources the translations have as often, and how many of all."""
    counts = [(tokens(src), tokens(tgt)) for src, tgt in zip(sources, translations, strict=True)]
    n_kept = sum(n for src, tgt in counts for token, n in src.items() if tgt[token] == n)
    return n_kept, sum(src.total() for src, _ in counts)


def pairs(text: str) -> set[tuple[str, str]]:
    """Return the name and the words of each pair of tags, without the tags inside."""
    tags = {"b": r"</?i>", "i": r"</?b>"}
    return {
        (name, re.sub(tags[name], "", words).translate(SAME))
        for name in "bi"
        for words in re.findall(rf"<{name}>(.*?)</{name}>", text)
    }


def share_right(translator: Translator) -> tuple[int, int]:
    """Return how many tags enclose the expected words, and how many there are."""
    lines = (DATA / "tagged_captions.tsv").read_text(encoding="utf-8").splitlines()
    captions = [line.split("\t") for line in lines]
    sources = [extract_markup(src, "html") for src, _ in captions]
    targets = [extract_markup(tgt, "html").text for _, tgt in captions]
    forced = translator.force([marked.text for marked in sources], targets)
    right = total = 0
    for marked, translation, (_, expected) in zip(sources, forced, captions, strict=True):
        result = restore(marked, translation, translator.tokenizers)
        right += len(pairs(expected) & pairs(result))
        total += len(pairs(expected))
    return right, total


def main() -> None:
    """Print the shares of the run that the command line names."""
    translator = Translator.load(sys.argv[1])
    strings = (DATA / "software_strings.txt").read_text(encoding="utf-8").splitlines()
    plain = [translation.text for translation in translator.translate(strings)]
    sources = [extract_markup(text) for text in strings]
    translations = translator.translate([marked.text for marked in sources])
    restored = [
        restore(marked, translation, translator.tokenizers)
        for marked, translation in zip(sources, translations, strict=True)
    ]
    for name, (part, total) in {
        "placeholders kept, translated as text": share_kept(strings, plain),
        "placeholders kept, taken out and put back": share_kept(strings, restored),
        "tags around the expected words": share_right(translator),
    }.items():
        print(f"{name}: {part} of {total} ({part / total:.1%})")


if __name__ == "__main__":
    main()
