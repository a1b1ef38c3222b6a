"""What the target vocabulary cannot say: the source's own word, or a lexicon's, in its place.

Where a translation has `<unk>`, the source word that the model looked at most is written instead
(Luong et al. 2015, arXiv 1410.8206; with attention in place of their alignment Jean et al. 2015,
arXiv 1412.2007, section 3.3): the word as the text has it, which is mostly unknown to the source
vocabulary as well, never that vocabulary's token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nmt.data.text_files import stream_lines
from nmt.errors import DataError
from nmt.text.normalisation import normalise
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.text.word_tokenizer import core
from nmt.types import FilePath, TranslatedHypothesis, Translation

Lexicon = Mapping[str, str]
"""Source word -> what to write for it."""


def read_lexicon(path: FilePath, tokenizers: Tokenizers) -> dict[str, str]:
    """The entries of a file of lines `source word<TAB>target words`.

    Raises DataError (file:line) for a line of another form, a source side of several words or a
    word that is given two meanings.
    """
    lexicon: dict[str, str] = {}
    for number, line in enumerate(stream_lines(Path(path)), start=1):
        fields = line.split("\t")
        if len(fields) != 2:
            raise DataError(
                f"{path}:{number}: expected source word<TAB>target words, got {len(fields)} fields"
            )
        word = normalise(fields[0], tokenizers.src.lang)
        meaning = normalise(fields[1], tokenizers.tgt.lang)
        if not word or not meaning or " " in word:
            raise DataError(
                f"{path}:{number}: expected one source word and its translation, got "
                f"{fields[0][:40]!r} and {fields[1][:40]!r}"
            )
        if lexicon.setdefault(word, meaning) != meaning:
            raise DataError(f"{path}:{number}: '{word[:40]}' has another translation further up")
    return lexicon


def replace_unknown(
    translation: Translation, tokenizers: Tokenizers, lexicon: Lexicon, restore: bool = True
) -> Translation:
    """The translation with every `<unk>` of its texts replaced; ids and pieces stay.

    Pieces `<unk>` that follow each other stand for one word. Its place is taken by the source
    word of the greatest weight, summed over those pieces and over the word's pieces, without the
    marks around it: by its entry in `lexicon` (as it is written, else in lower case), or by
    itself. Where no word has any weight (kind `none` has all of it at the end) `<unk>` stays.
    `restore` as in Translator.translate.
    """
    return replace(
        translation,
        hypotheses=tuple(
            _replaced(found, translation, tokenizers, lexicon, restore)
            for found in translation.hypotheses
        ),
    )


def _replaced(
    found: TranslatedHypothesis,
    translation: Translation,
    tokenizers: Tokenizers,
    lexicon: Lexicon,
    restore: bool,
) -> TranslatedHypothesis:
    surfaces: dict[int, str] = {}
    for run in _unknown_runs(found.target.ids):
        word = _most_looked_at(found, translation, run)
        if word is not None:
            surfaces.update(dict.fromkeys(run, ""))
            surfaces[run[0]] = lexicon.get(word) or lexicon.get(word.lower()) or word
    if not surfaces:
        return found
    return replace(
        found, text=tokenizers.tgt.decode(found.target.ids, restore=restore, surfaces=surfaces)
    )


def _unknown_runs(ids: Sequence[int]) -> list[list[int]]:
    """The places of `<unk>`, those that follow each other together."""
    runs: list[list[int]] = []
    for place, id_ in enumerate(ids):
        if id_ != UNK_ID:
            continue
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _most_looked_at(
    found: TranslatedHypothesis, translation: Translation, run: Sequence[int]
) -> str | None:
    """The source word, without the marks around it, that these rows gave the most weight."""
    looks = found.hypothesis.attention[run].sum(axis=0)
    source = translation.source
    weights = [float(looks[start:end].sum()) for start, end in source.word_spans]
    best = int(np.argmax(weights))  # of equal ones the first
    return core(source.words[best]) if weights[best] > 0 else None
