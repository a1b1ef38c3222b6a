"""Word alignments of sentence pairs by trained models, in one direction or in both."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32

from nmt.corpora.alignments import Links
from nmt.errors import ConfigError
from nmt.explain.alignment import SYMMETRISATIONS, links_above, strongest_links
from nmt.explain.attribution.methods import Attributor
from nmt.search.forced import read_weights
from nmt.text.tokenizer import Tokenizer
from nmt.text.word_pieces import WordPieces, word_pieces, words_between_spaces
from nmt.text.word_tokenizer import detokenise
from nmt.translation.batched import Padded
from nmt.translation.heads import MEAN, source_heads
from nmt.translation.translator import Translator
from nmt.translation.words import merge_words, row_shares
from nmt.types import AttributionMethod, Encoded


@dataclass(frozen=True)
class Reading:
    """How weights are read from a forced pass.

    `shift` is the number of steps by which the reading is late (search/forced.py). `method` is
    `attention`, or what takes its place (explain/attribution/). `heads` names those of the
    attention over the source, as `choose_heads` takes them. Raises ConfigError for a shift or for
    heads with a method other than `attention` and `norms`, since only weights have these.
    """

    shift: int = 0
    method: AttributionMethod = "attention"
    heads: str = MEAN.name

    def __post_init__(self) -> None:
        if not self.is_of_weights and (self.shift, self.heads) != (0, MEAN.name):
            got = f"got shift {self.shift}, heads {self.heads}"
            raise ConfigError(f"`method`: {got}, allowed with {self.method}: shift 0, heads mean")

    @property
    def is_of_weights(self) -> bool:
        """Whether the method reads attention weights, with or without the norms of values."""
        return self.method in ("attention", "norms")

    def indices(self, translator: Translator) -> tuple[int, ...] | None:
        """Return these heads of the model; None for the mean that it shows. Raises ConfigError."""
        return source_heads(self.heads, translator.model.names_by_attention)


def piece_weights(
    translator: Translator,
    sources: Sequence[Encoded],
    targets: Sequence[Encoded],
    reading: Reading,
) -> list[Float32[np.ndarray, "_ _"]]:
    """Return a row for each target piece and a column for each source piece, the last for eos.

    A pair of which a side has no piece has no weight.
    """
    heads = reading.indices(translator)

    by_norm = reading.method == "norms"
    attributor = None if reading.is_of_weights else Attributor(translator, reading.method)

    def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[Float32[np.ndarray, "_ _"]]:
        if attributor is not None:
            return [row_shares(result.scores) for result in attributor.read(inputs, ids)]
        return read_weights(translator.model, *inputs, ids, reading.shift, heads, by_norm)

    weights = [
        np.zeros((len(target.ids), len(source.ids) + 1), np.float32)
        for source, target in zip(sources, targets, strict=True)
    ]
    places = [i for i, target in enumerate(targets) if target.ids]
    pairs = [sources[i] for i in places], [targets[i].ids for i in places]
    batch_size = translator.search.batch_size
    for k, matrix in translator.batched.read_pairs(*pairs, batch_size, read):
        weights[places[k]] = matrix
    return weights


@dataclass(frozen=True)
class Aligner:
    """Aligns the words of sentence pairs.

    A target word is linked with the source word of its greatest weight, or with each that has at
    least `threshold`. With `reverse`, a translator from the target language back, the links of both
    are made one by `symmetrisation`. `mismatches` counts where words and pieces disagree. Raises
    ConfigError for a `reverse` of other languages, or heads that a model lacks.
    """

    translator: Translator
    reading: Reading = field(default_factory=Reading)
    threshold: float | None = None
    reverse: Translator | None = None
    symmetrisation: str = "grow-diag-final-and"
    mismatches: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.reading.indices(self.translator)
        if self.reverse is None:
            return
        self.reading.indices(self.reverse)
        (src, tgt), back = self.translator.languages, self.reverse.languages
        if back != (tgt, src):
            got = f"got a run from {back[0]} to {back[1]}"
            raise ConfigError(f"`reverse`: {got}, allowed: one from {tgt} to {src}")

    def align(
        self, sources: Sequence[str], targets: Sequence[str], tokenised: bool = False
    ) -> list[Links]:
        """Return the links of each pair of lines, whose words between spaces count from 0.

        Of `tokenised` lines the models read the text without the spaces.
        """
        forward = self._one_way(self.translator, sources, targets, tokenised)
        if self.reverse is None:
            return forward
        backward = self._one_way(self.reverse, targets, sources, tokenised)
        join = SYMMETRISATIONS[self.symmetrisation]
        return [
            join(links, frozenset((i, j) for j, i in reverse))
            for links, reverse in zip(forward, backward, strict=True)
        ]

    def _one_way(
        self,
        translator: Translator,
        sources: Sequence[str],
        targets: Sequence[str],
        tokenised: bool,
    ) -> list[Links]:
        sides = translator.tokenizers
        encoded_sources, src_pieces = _read(sources, sides.src, tokenised)
        encoded_targets, tgt_pieces = _read(targets, sides.tgt, tokenised)
        weights = piece_weights(translator, encoded_sources, encoded_targets, self.reading)
        links = []
        for matrix, src, tgt in zip(weights, src_pieces, tgt_pieces, strict=True):
            if translator is self.translator:
                self._count_mismatches(src, tgt)
            columns = np.pad(src.shares, ((0, 1), (0, 1)))
            columns[-1, -1] = 1  # eos is a word of its own
            words = merge_words(matrix, tgt.shares, columns)
            if self.threshold is None:
                links.append(strongest_links(words))
            else:
                links.append(links_above(words, self.threshold))
        return links

    def _count_mismatches(self, src: WordPieces, tgt: WordPieces) -> None:
        n_inexact = int(not (src.is_exact and tgt.is_exact))
        n_unread = sum(int((~side.shares.any(axis=1)).sum()) for side in (src, tgt))
        self.mismatches.update(
            {
                "sentence pairs have other letters than their pieces": n_inexact,
                "words share a piece with another word": src.n_shared + tgt.n_shared,
                "words have no piece, hence no link": n_unread,
            }
        )


def _read(
    lines: Sequence[str], tokenizer: Tokenizer, tokenised: bool
) -> tuple[list[Encoded], list[WordPieces]]:
    """Encode lines, and return the pieces of their words too.

    A `tokenised` line has spaces that its text has not.
    """
    words = [words_between_spaces(line) for line in lines]
    texts = [detokenise(line, tokenizer.lang) for line in words] if tokenised else lines
    encoded = [tokenizer.encode(text) for text in texts]
    pairs = zip(words, encoded, strict=True)
    return encoded, [word_pieces(line, pieces, tokenizer) for line, pieces in pairs]
