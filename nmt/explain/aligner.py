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
from nmt.names import AttributionMethod
from nmt.search.forced import alignment_weights
from nmt.text.tokenizer import Tokenizer
from nmt.text.word_pieces import WordPieces, word_pieces, words_between_spaces
from nmt.text.word_tokenizer import detokenise
from nmt.translation.batched import Padded
from nmt.translation.heads import MEAN, cross_head_indices
from nmt.translation.translator import Translator
from nmt.translation.words import merge_words, row_shares
from nmt.types import Encoded

Lines = Sequence[str]
EncodedLines = tuple[list[Encoded], list[WordPieces]]


@dataclass(frozen=True)
class WeightOptions:
    """Options of `piece_weights`, which returns the weights that alignments are computed from.

    `method` is `attention` or an attribution method (explain/attribution/). The attention of piece
    t is read at step t + `shift` (`alignment_weights`). `heads` selects cross-attention heads in
    the syntax of `cross_head_indices`. Raises ConfigError if `shift` or `heads` is set and the
    method is neither `attention` nor `norms`.
    """

    shift: int = 0
    method: AttributionMethod = "attention"
    heads: str = MEAN.name

    def __post_init__(self) -> None:
        if not self.reads_attention and (self.shift, self.heads) != (0, MEAN.name):
            got = f"got shift {self.shift}, heads {self.heads}"
            raise ConfigError(f"`method`: {got}, allowed with {self.method}: shift 0, heads mean")

    @property
    def reads_attention(self) -> bool:
        """Whether the method reads attention weights, with or without the norms of values."""
        return self.method in ("attention", "norms")

    def head_indices(self, translator: Translator) -> tuple[int, ...] | None:
        """Return the indices of `heads`, or None for mean. Raises ConfigError for unknown heads."""
        return cross_head_indices(self.heads, translator.model.head_names_by_kind)


def piece_weights(
    translator: Translator,
    sources: Sequence[Encoded],
    targets: Sequence[Encoded],
    options: WeightOptions,
) -> list[Float32[np.ndarray, "_ _"]]:
    """Return the weights of each sentence pair: a row per target piece, a column per source piece.

    The last column is the source's eos. The weights of a pair with an empty source are 0.
    """
    heads = options.head_indices(translator)
    by_norm = options.method == "norms"
    attributor = None if options.reads_attention else Attributor(translator, options.method)

    def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[Float32[np.ndarray, "_ _"]]:
        if attributor is not None:
            return [row_shares(result.scores) for result in attributor.read(inputs, ids)]
        return alignment_weights(translator.model, *inputs, ids, options.shift, heads, by_norm)

    sizes = [(len(t.ids), len(s.ids) + 1) for s, t in zip(sources, targets, strict=True)]
    weights = [np.zeros(size, np.float32) for size in sizes]
    indices = [i for i, target in enumerate(targets) if target.ids]
    pairs = [sources[i] for i in indices], [targets[i].ids for i in indices]
    for k, matrix in translator.batched.map_pairs(*pairs, translator.search.batch_size, read):
        weights[indices[k]] = matrix[::-1] if translator.tokenizers.reverse_target else matrix
    return weights


@dataclass(frozen=True)
class Aligner:
    """Aligns the words of sentence pairs.

    A target word is linked to the source word with the largest weight, or to each source word with
    a weight of at least `threshold`. If `reverse`, a translator of the opposite direction, is set,
    the method `symmetrisation` (a key of SYMMETRISATIONS) merges the links of both directions.
    `align` counts differences between words and pieces in `mismatches`. Raises ConfigError if the
    languages of `reverse` do not match, or if a model lacks the selected heads.
    """

    translator: Translator
    options: WeightOptions = field(default_factory=WeightOptions)
    threshold: float | None = None
    reverse: Translator | None = None
    symmetrisation: str = "grow-diag-final-and"
    mismatches: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.options.head_indices(self.translator)
        if self.reverse is None:
            return
        self.options.head_indices(self.reverse)
        (src, tgt), reverse = self.translator.languages, self.reverse.languages
        if reverse != (tgt, src):
            got = f"got a run from {reverse[0]} to {reverse[1]}"
            raise ConfigError(f"`reverse`: {got}, allowed: one from {tgt} to {src}")

    def align(self, sources: Lines, targets: Lines, tokenised: bool = False) -> list[Links]:
        """Return the links (source word, target word) of each pair of lines.

        Words are separated by spaces and numbered from 0. If the lines are `tokenised`, the models
        read the detokenised text.
        """
        forward = self._one_way(self.translator, sources, targets, tokenised)
        if self.reverse is None:
            return forward
        backward = self._one_way(self.reverse, targets, sources, tokenised)
        merge = SYMMETRISATIONS[self.symmetrisation]
        return [
            merge(links, frozenset((i, j) for j, i in reverse))
            for links, reverse in zip(forward, backward, strict=True)
        ]

    def _one_way(
        self, translator: Translator, sources: Lines, targets: Lines, tokenised: bool
    ) -> list[Links]:
        sides = translator.tokenizers
        encoded_sources, src_words = _encode(sources, sides.src, tokenised)
        encoded_targets, tgt_words = _encode(targets, sides.tgt, tokenised)
        weights = piece_weights(translator, encoded_sources, encoded_targets, self.options)
        links = []
        for matrix, src, tgt in zip(weights, src_words, tgt_words, strict=True):
            if translator is self.translator:
                self.mismatches.update(_mismatches(src, tgt))
            columns = np.pad(src.shares, ((0, 1), (0, 1)))
            columns[-1, -1] = 1  # eos counts as a word
            words = merge_words(matrix, tgt.shares, columns)
            if self.threshold is None:
                links.append(strongest_links(words))
            else:
                links.append(links_above(words, self.threshold))
        return links


def _mismatches(src: WordPieces, tgt: WordPieces) -> dict[str, int]:
    n_inexact = int(not (src.is_exact and tgt.is_exact))
    n_without_piece = sum(int((~side.shares.any(axis=1)).sum()) for side in (src, tgt))
    return {
        "sentence pairs have letters that differ from those of their pieces": n_inexact,
        "words share a piece with another word": src.n_sharing_words + tgt.n_sharing_words,
        "words have no piece, hence no link": n_without_piece,
    }


def _encode(lines: Lines, tokenizer: Tokenizer, tokenised: bool) -> EncodedLines:
    words = [words_between_spaces(line) for line in lines]
    texts = [detokenise(line, tokenizer.lang) for line in words] if tokenised else lines
    encoded = [tokenizer.encode(text) for text in texts]
    pairs = zip(words, encoded, strict=True)
    return encoded, [word_pieces(line, pieces, tokenizer) for line, pieces in pairs]
