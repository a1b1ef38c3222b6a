"""Replacement of `<unk>` in translations by a source word, or by the word's entry in a lexicon.

The source word with the most attention replaces `<unk>` (Luong et al. 2015, arXiv 1410.8206, with
an alignment model; Jean et al. 2015, arXiv 1412.2007, section 3.3, with attention). The word is
copied from the source text, because the source vocabulary rarely contains it.
"""

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nmt.corpora.text_files import stream_lines
from nmt.errors import DataError
from nmt.text.normalisation import normalise
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.text.word_tokenizer import strip_punctuation
from nmt.types import Encoded, FilePath, TranslatedHypothesis, Translation

Lexicon = Mapping[str, str]  # the translation of each source word


def read_lexicon(path: FilePath, tokenizers: Tokenizers) -> dict[str, str]:
    """Read a lexicon with lines `source word<TAB>target words`, or the output of `nmt lexicon`.

    Lines of `nmt lexicon` end with `<TAB>probability<TAB>count`. Of several translations of a word,
    the first most probable one is used. Raises DataError (file:line) if a line has another form or
    several source words, or if it has no probability and contradicts an earlier line.
    """
    entries: dict[str, tuple[float, str]] = {}
    for number, line in enumerate(stream_lines(Path(path)), start=1):
        fields = line.split("\t")
        where = f"{path}:{number}"
        if len(fields) not in (2, 4):
            got = f"{len(fields)} fields"
            raise DataError(f"{where}: expected source word<TAB>target words, got {got}")
        word = normalise(fields[0], tokenizers.src.lang)
        target = normalise(fields[1], tokenizers.tgt.lang)
        if not word or not target or " " in word:
            got = f"{fields[0][:40]!r} and {fields[1][:40]!r}"
            raise DataError(f"{where}: expected one source word and its translation, got {got}")
        probability = _probability(fields[2], where) if len(fields) == 4 else 1.0
        before, known = entries.get(word, (-1.0, target))
        if len(fields) == 2 and known != target:
            raise DataError(
                f"{where}: '{word[:40]}' has a different translation in an earlier line"
            )
        if probability > before:
            entries[word] = probability, target
    return {word: target for word, (_, target) in entries.items()}


def _probability(text: str, where: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (probability := float(text)) <= 1:
            return probability
    raise DataError(f"{where}: got {text[:40]!r}, allowed: a probability, 0 to 1")


def replace_unknown(
    translation: Translation, tokenizers: Tokenizers, lexicon: Lexicon
) -> Translation:
    """Replace each `<unk>` in the texts of a translation; ids and pieces are unchanged.

    Consecutive `<unk>` pieces count as one unknown word. Its source word is the one whose pieces
    receive the most attention from these pieces in total; punctuation around it is removed. The
    unknown word is replaced by the source word's entry in `lexicon` (as written, else in lower
    case); without an entry, by the source word. `<unk>` stays if no source word has any weight
    (attention `none`).
    """
    hypotheses = []
    for output in translation.hypotheses:
        surfaces: dict[int, str] = {}
        for run in _unknown_runs(output.target.ids):
            word = _most_attended_word(output, translation.source, run)
            if word is not None:
                surfaces.update(dict.fromkeys(run, ""))
                surfaces[run[0]] = lexicon.get(word) or lexicon.get(word.lower()) or word
        if surfaces:
            text = tokenizers.tgt.decode(output.target.ids, surfaces=surfaces)
            output = replace(output, text=text)
        hypotheses.append(output)
    return replace(translation, hypotheses=tuple(hypotheses))


def _unknown_runs(ids: Sequence[int]) -> list[list[int]]:
    """Return the positions of `<unk>`, with consecutive positions in one list."""
    groups = itertools.groupby(range(len(ids)), key=lambda position: ids[position] == UNK_ID)
    return [list(positions) for is_unknown, positions in groups if is_unknown]


def _most_attended_word(
    output: TranslatedHypothesis, source: Encoded, run: Sequence[int]
) -> str | None:
    """Return the source word with the most attention in the rows `run`, without punctuation."""
    attention = output.hypothesis.attention[run].sum(axis=0)
    weights = [float(attention[start:end].sum()) for start, end in source.word_spans]
    best = int(np.argmax(weights))  # the first of equal weights
    return strip_punctuation(source.words[best]) if weights[best] > 0 else None
