"""Word alignments of sentence pairs by trained models, in one direction or in both."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.data.alignments import Links
from nmt.errors import ConfigError
from nmt.evaluation.alignment import links_above, strongest_links
from nmt.evaluation.symmetrisation import SYMMETRISATIONS
from nmt.inference.pair_weights import Reading, piece_weights, word_weights
from nmt.inference.translator import Translator
from nmt.text.detokenisation import detokenise
from nmt.text.tokenizer import Tokenizer
from nmt.text.word_pieces import WordPieces, word_pieces, words_between_spaces
from nmt.types import Encoded


@dataclass(frozen=True)
class Line:
    """A line of text by its words, as an alignment counts them, and as a tokenizer reads it."""

    words: tuple[str, ...]
    encoded: Encoded
    pieces: WordPieces

    @classmethod
    def read(cls, line: str, tokenizer: Tokenizer, tokenised: bool = False) -> "Line":
        """The words between spaces; of a `tokenised` line the model reads the text without them."""
        words = words_between_spaces(line)
        text = detokenise(words, tokenizer.lang) if tokenised else line
        return cls.of(words, tokenizer.encode(text), tokenizer)

    @classmethod
    def of(cls, words: Sequence[str], encoded: Encoded, tokenizer: Tokenizer) -> "Line":
        """The words of a text that is encoded already."""
        return cls(tuple(words), encoded, word_pieces(words, encoded, tokenizer))


@dataclass
class Mismatches:
    """Where words and pieces disagree: sentences that were matched by likeness, words that share a
    piece with another, words that the tokenizer does not read."""

    sentences: int = 0
    shared_words: int = 0
    unread_words: int = 0

    def count(self, *lines: Line) -> None:
        """Count the disagreements of these lines, the two sides of a pair."""
        self.sentences += any(not line.pieces.is_exact for line in lines)
        self.shared_words += sum(line.pieces.n_shared for line in lines)
        self.unread_words += sum(int((~each.pieces.shares.any(axis=1)).sum()) for each in lines)

    def notes(self) -> list[str]:
        """The counts, in lines."""
        noted = {
            "sentence pairs have other letters than their pieces": self.sentences,
            "words share a piece with another word": self.shared_words,
            "words have no piece, hence no link": self.unread_words,
        }
        return [f"{count:,} {what}" for what, count in noted.items() if count]


@dataclass(frozen=True)
class Aligner:
    """Aligns the words of sentence pairs.

    A target word is linked with the source word of its greatest weight, or with each that has at
    least `threshold`. With `reverse`, a translator from the target language back, the links of both
    are made one by `symmetrisation`. Raises ConfigError for a `reverse` of other languages, a
    shift, a threshold or a head that there is not.
    """

    translator: Translator
    reading: Reading = field(default_factory=Reading)
    threshold: float | None = None
    reverse: Translator | None = None
    symmetrisation: str = "grow-diag-final-and"
    mismatches: Mismatches = field(default_factory=Mismatches)

    def __post_init__(self) -> None:
        self.reading.indices(self.translator)
        if self.reverse is None:
            return
        self.reading.indices(self.reverse)
        there, back = (
            (each.tokenizers.src.lang, each.tokenizers.tgt.lang)
            for each in (self.translator, self.reverse)
        )
        if back != there[::-1]:
            raise ConfigError(
                f"`reverse`: got a run from {back[0]} to {back[1]}, allowed: one from {there[1]} "
                f"to {there[0]}"
            )

    def align(
        self, sources: Sequence[str], targets: Sequence[str], tokenised: bool = False
    ) -> list[Links]:
        """The links of each pair of lines, of which the words between spaces are counted from 0."""
        sides = self.translator.tokenizers
        src = [Line.read(line, sides.src, tokenised) for line in sources]
        tgt = [Line.read(line, sides.tgt, tokenised) for line in targets]
        return self._links(src, tgt, (sources, targets, tokenised))

    def translate(self, sources: Sequence[str]) -> tuple[list[str], list[Links]]:
        """The translations of the lines, and the links between a line and its translation."""
        translations = self.translator.translate(sources, n_best=1)
        sides = self.translator.tokenizers
        src, tgt = [], []
        for line, translation in zip(sources, translations, strict=True):
            words = words_between_spaces(line)
            src.append(Line.of(words, translation.source, sides.src))
            text = translation.text
            found = translation.hypotheses[0].target if translation.hypotheses else _NOTHING
            tgt.append(Line.of(words_between_spaces(text), found, sides.tgt))
        texts = [translation.text for translation in translations]
        return texts, self._links(src, tgt, (sources, texts, False))

    def _links(
        self,
        src: Sequence[Line],
        tgt: Sequence[Line],
        texts: tuple[Sequence[str], Sequence[str], bool],
    ) -> list[Links]:
        for pair in zip(src, tgt, strict=True):
            self.mismatches.count(*pair)
        forward = self._one_way(self.translator, src, tgt)
        if self.reverse is None:
            return forward
        sources, targets, tokenised = texts
        sides = self.reverse.tokenizers
        back_src = [Line.read(line, sides.src, tokenised) for line in targets]
        back_tgt = [Line.read(line, sides.tgt, tokenised) for line in sources]
        backward = self._one_way(self.reverse, back_src, back_tgt)
        join = SYMMETRISATIONS[self.symmetrisation]
        return [
            join(one, frozenset((i, j) for j, i in other))
            for one, other in zip(forward, backward, strict=True)
        ]

    def _one_way(
        self, translator: Translator, src: Sequence[Line], tgt: Sequence[Line]
    ) -> list[Links]:
        weights = piece_weights(
            translator, [s.encoded for s in src], [t.encoded for t in tgt], self.reading
        )
        by_word = [
            word_weights(matrix, s.pieces, t.pieces)
            for matrix, s, t in zip(weights, src, tgt, strict=True)
        ]
        if self.threshold is None:
            return [strongest_links(matrix) for matrix in by_word]
        return [links_above(matrix, self.threshold) for matrix in by_word]


_NOTHING = Encoded((), (), (), ())
