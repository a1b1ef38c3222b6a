"""A bilingual dictionary from attention: pairs of words that are often linked."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from nmt.explain.aligner import WeightOptions, piece_weights
from nmt.explain.alignment import strongest_links
from nmt.text.word_pieces import pieces_by_word
from nmt.text.word_tokenizer import strip_punctuation
from nmt.translation.translator import Translator
from nmt.translation.words import merge_words, with_eos
from nmt.types import SentencePair

_CHUNK = 512  # sentence pairs aligned at a time


@dataclass(frozen=True)
class Entry:
    """A source word and a target word that were linked `count` times.

    `probability` is `count` divided by the number of links of the source word.
    """

    source: str
    target: str
    probability: float
    count: int

    def line(self) -> str:
        """Return the entry as a TSV line that `read_lexicon` reads."""
        return f"{self.source}\t{self.target}\t{self.probability:.4f}\t{self.count}"


def lexicon(
    translator: Translator,
    pairs: Iterable[SentencePair],
    options: WeightOptions | None = None,
    min_count: int = 2,
    best: int = 5,
) -> list[Entry]:
    """Return the entries of a dictionary, sorted by source word, then from frequent to rare.

    Words are the tokenizers' words without surrounding punctuation, as `replace_unknown` looks them
    up. Each target word is linked to the source word with the largest weight. A source word
    has at most `best` entries, each with at least `min_count` links.
    """
    counts: Counter[tuple[str, str]] = Counter()
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK)):
        counts.update(_linked_words(translator, chunk, options or WeightOptions()))
    ranking = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    entries = []
    for source, group in groupby(ranking, key=lambda item: item[0][0]):
        links = [(target, count) for (_, target), count in group]
        total = sum(count for _, count in links)
        best_links = [(target, count) for target, count in links[:best] if count >= min_count]
        entries += [Entry(source, target, count / total, count) for target, count in best_links]
    return entries


def _linked_words(
    translator: Translator, pairs: Sequence[SentencePair], options: WeightOptions
) -> Iterator[tuple[str, str]]:
    """Yield the two words of each link if both have a letter or digit."""
    sides = translator.tokenizers
    sources = [sides.src.encode(pair.src_text) for pair in pairs]
    targets = [sides.tgt.encode(pair.tgt_text) for pair in pairs]
    weights = piece_weights(translator, sources, targets, options)
    for source, target, matrix in zip(sources, targets, weights, strict=True):
        shares = pieces_by_word(target).shares, pieces_by_word(with_eos(source)).shares
        for i, j in strongest_links(merge_words(matrix, *shares)):
            words = strip_punctuation(source.words[i]), strip_punctuation(target.words[j])
            if all(any(map(str.isalnum, word)) for word in words):
                yield words
