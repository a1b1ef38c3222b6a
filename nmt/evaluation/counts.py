"""Counts of faults that scores barely show, such as lost numbers and invented words."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from nmt.corpora.corpora import MAX_READ_BYTES, resolve_split, split_files, stream_split
from nmt.corpora.sources import DataConfig
from nmt.errors import ConfigError, DataError
from nmt.text.numbers import canonical_numbers, lost_numbers
from nmt.text.placeholders import ADDRESS, VARIABLE
from nmt.text.word_tokenizer import letter_words, strip_punctuation
from nmt.types import EvalExample

_ADDRESS, _PLACEHOLDER = re.compile(ADDRESS), re.compile(VARIABLE)
_REPETITION = re.compile(r"(?<!\S)(\S.{4,}?)(?: \1)+(?!\S)")
_MAX_SEARCHED = 2000
"""Characters of a line that are searched for repetitions, which takes quadratic time."""

_Row = tuple[int, str, tuple[str, ...]]
"""The number of a line, its translation, and its source followed by its references."""


@dataclass(frozen=True, slots=True)
class Count:
    """The faults of one kind among `total` items, each as a line number (from 1) and a text."""

    faults: tuple[tuple[int, str], ...]
    total: int


def count_faults(
    hyps: Sequence[str], examples: Sequence[EvalExample], tgt_words: Set[str] | None = None
) -> dict[str, Count]:
    """Count the faults of translations by kind.

    A number, address or placeholder of a source counts if a reference has it too. A word is
    invented if it is in neither `tgt_words`, the words of the training targets, nor the source or
    references of its line. Invented words are not counted if `tgt_words` is None.
    """
    texts = ((example.src_text, *example.ref_texts) for example in examples)
    rows = [(n, *row) for n, row in enumerate(zip(hyps, texts, strict=True), start=1)]
    loops = ((n, _repetition(hyp), texts) for n, hyp, texts in rows)
    repeats = [(n, loop) for n, loop, texts in loops if loop and not any(map(_repetition, texts))]
    gaps = [(n, texts[0]) for n, hyp, texts in rows if not hyp.strip() and "".join(texts).strip()]
    counts = {
        "lost_numbers": _lost(rows, canonical_numbers),
        "lost_addresses": _lost(rows, _ADDRESS.findall),
        "lost_placeholders": _lost(rows, _PLACEHOLDER.findall),
        "repetitions": Count(tuple(repeats), len(rows)),
        "empty_translations": Count(tuple(gaps), len(rows)),
    }
    words = [(n, word) for n, hyp, _ in rows for word in letter_words(hyp.casefold())]
    if tgt_words is not None:
        line_words = [{*letter_words(" ".join(texts).casefold())} for *_, texts in rows]
        faults = [(n, w) for n, w in words if w not in tgt_words and w not in line_words[n - 1]]
        counts["invented_words"] = Count(tuple(faults), len(words))
    return counts


def describe_counts(counts: Mapping[str, Count]) -> Iterator[str]:
    """Yield a line for each kind of fault that occurs, with its first three faults."""
    for name, count in counts.items():
        if count.faults:
            first = ", ".join(f"line {line}: {text[:40]}" for line, text in count.faults[:3])
            yield f"{name.replace('_', ' ')}: {len(count.faults):,} of {count.total:,} ({first})"


def _lost(rows: Sequence[_Row], find: Callable[[str], list[str]]) -> Count:
    """Count the source items that a reference has too, and those that the translation lacks."""
    faults, total = [], 0
    for n, hyp, (src_text, *ref_texts) in rows:
        source, output = Counter(find(src_text)), Counter(find(hyp))
        expected = source & Counter(item for ref in ref_texts for item in find(ref))
        total += expected.total()
        faults += [(n, item) for item in lost_numbers(expected, source, output)]
    return Count(tuple(faults), total)


def target_words(data: DataConfig) -> set[str] | None:
    """Return the training targets' words, or None if files are missing or above MAX_READ_BYTES."""
    try:
        split = resolve_split(data, "train")
        files = [] if split is None else split_files(split, data)
        if split is None or sum(path.stat().st_size for path in files) > MAX_READ_BYTES:
            return None
        return {w for p in stream_split(split, data) for w in letter_words(p.tgt_text.casefold())}
    except (ConfigError, DataError):
        return None


def _repetition(text: str) -> str:
    """Return a phrase, of at least five characters, that a text repeats immediately, or ""."""
    words = " ".join(map(strip_punctuation, text[:_MAX_SEARCHED].casefold().split()))
    match = _REPETITION.search(words)
    return match[1] if match else ""
