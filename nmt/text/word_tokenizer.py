"""Word-level tokenizer, which splits text at spaces and separates punctuation from words."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from nmt.errors import ConfigError, DataError
from nmt.text import normalisation
from nmt.text.subword_sampling import Sampler, SubwordSamplingConfig
from nmt.text.tokenizer_config import BaseTokenizerConfig
from nmt.text.vocabulary import MAX_SIZE, RESERVED, UNK_ID, Vocab
from nmt.types import Encoded

# Marks are split only off the ends of a chunk between spaces: 10:30, 3.2, U.S.A and http://x.org
# are one word each. Apostrophes and hyphens belong to their word.
_OPENING = '"([{«“„¿¡'
_CLOSING = '"!?‽.,;:…)]}»”'
_MARKS = re.compile(r"\.\.+|.")  # an ellipsis in full stops is one mark

LETTER = r"[^\W\d_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
"""A letter of a script that separates words: not Thai, Lao, Burmese, Khmer, Japanese, Chinese."""

_WORD = re.compile(f"{LETTER}+")

_NO_SPACE_AFTER = frozenset("([{“„¿¡")
_NO_SPACE_BEFORE = frozenset(".,…)]}”!?‽;:")
# French has a space before these, which `restore` makes a no-break space.
_SPACED_IN = {"fr": frozenset("!?‽;:")}


def mark_sets(lang: str) -> dict[str, str]:
    """Return the punctuation marks that `split` and `join` treat specially, by their role."""
    return {
        "opening": _OPENING,
        "closing": _CLOSING,
        "no_space_after": "".join(sorted(_NO_SPACE_AFTER)),
        "no_space_before": "".join(sorted(_NO_SPACE_BEFORE)),
        "spaced": "".join(sorted(_SPACED_IN.get(lang, ()))),
    }


class WordConfig(BaseTokenizerConfig):
    """Word-level tokenizers with a vocabulary of the frequent words of the training text."""

    suffix = ".vocab.txt"
    unknown_cure = "lower tokenizer.min_freq, or take tokenizer.kind: sentencepiece"

    kind: Literal["word"] = Field(default="word", description="whole words and punctuation marks")
    lower: bool = Field(default=False, description="lower-case all text")
    min_freq: int = Field(default=2, ge=1, description="minimum count of a word with an id")
    max_size: int | None = Field(
        default=None,
        gt=4,
        le=MAX_SIZE,
        description="maximum number of words per side, including the four reserved ones; null: a "
        "million",
    )

    @property
    def lowers_case(self) -> bool:
        return self.lower

    @property
    def size_limit(self) -> tuple[str, int] | None:
        return None if self.max_size is None else ("max_size", self.max_size)

    def train(self, texts: Sequence[str], name: str, seed: int) -> bytes:
        """Return the vocabulary file of normalised `texts`, the most frequent word first.

        Words of equal count are sorted by code point, so the order of the texts and `seed` do not
        matter. Raises DataError without text, and ConfigError if no word is frequent enough.
        """
        if not any(texts):
            raise DataError(f"cannot learn a vocabulary: there is no {name} text")
        counts = Counter(self.apply_case(word) for text in texts for word in split(text))
        for reserved in RESERVED:
            del counts[reserved]
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        words = [word for word, count in ranked if count >= self.min_freq]
        if not words:
            most = f"at most {ranked[0][1]}" if ranked else "a text with words"
            raise ConfigError(
                f"tokenizer.min_freq: got {self.min_freq}, but no word of the {name} text occurs "
                f"that often, so the vocabulary would be empty; allowed: {most}, or "
                "tokenizer.kind: sentencepiece"
            )
        words = words[: (self.max_size or MAX_SIZE) - len(RESERVED)]
        return "".join(f"{word}\n" for word in Vocab.of(words).pieces).encode()

    def apply_case(self, word: str) -> str:
        return word.lower() if self.lower else word

    def build(self, model_bytes: bytes, lang: str) -> "WordTokenizer":
        return WordTokenizer(self, model_bytes, lang)


class WordTokenizer:
    """Tokenizer (tokenizer.py) of words and punctuation marks for texts in `lang`.

    `decode` spaces the words by the rules of `lang`. Without unknown words and without `lower`, the
    result is the normalised text, except for unusual spacing: "." or "..." after a space, unpaired
    quotation marks, marks within a word.
    """

    def __init__(self, config: WordConfig, model_bytes: bytes, lang: str) -> None:
        self.config = config
        self.model_bytes = model_bytes
        self.lang = lang
        if model_bytes.count(b"\n") > MAX_SIZE:
            raise DataError(f"more than the {MAX_SIZE:,} words that a vocabulary may have")
        try:
            lines = model_bytes.decode().split("\n")
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 at byte {error.start}") from error
        if lines.pop():
            raise DataError("the last line has no line end: the file is cut short")
        self.vocab = Vocab(tuple(lines))
        # Without the reserved pieces: "<s>" in a text is an ordinary word.
        first = len(RESERVED)
        self._ids = {word: i for i, word in enumerate(lines[first:], start=first)}

    def encode(self, text: str) -> Encoded:
        words = self._words(text)
        pieces = tuple(map(self.config.apply_case, words))
        spans = tuple((i, i + 1) for i in range(len(words)))
        return Encoded(pieces, self._ids_of(pieces), words, spans)

    def encode_batch(self, texts: Iterable[str]) -> list[tuple[int, ...]]:
        return [self._ids_of(map(self.config.apply_case, self._words(text))) for text in texts]

    def piece_bytes(self, piece: str) -> bytes:
        return f"\u2581{piece}".encode()

    def sampler(self, config: SubwordSamplingConfig, rate: float) -> Sampler | None:
        return None

    def encoded_from_ids(self, ids: Sequence[int]) -> Encoded:
        real_ids = tuple(self.vocab.real_ids(ids))
        words = tuple(self.vocab.pieces[i] for i in real_ids)
        return Encoded(words, real_ids, words, tuple((i, i + 1) for i in range(len(words))))

    def decode(
        self, ids: Sequence[int], restore: bool = True, surfaces: Mapping[int, str] | None = None
    ) -> str:
        words = self.encoded_from_ids(ids).words
        outputs = ((surfaces or {}).get(position, word) for position, word in enumerate(words))
        text = join(list(filter(None, outputs)), self.lang)
        return normalisation.restore(text, self.lang) if restore else text

    def _ids_of(self, words: Iterable[str]) -> tuple[int, ...]:
        return tuple(self._ids.get(word, UNK_ID) for word in words)

    def _words(self, text: str) -> tuple[str, ...]:
        return tuple(split(normalisation.normalise(text, self.lang)))


def letter_words(text: str) -> list[str]:
    """Return the runs of letters of a text in NFC, in scripts with spaces between words."""
    return _WORD.findall(normalisation.compose_unicode(text))


def strip_punctuation(word: str) -> str:
    """Return `word` without the punctuation around it, or unchanged if it has only marks."""
    return word.lstrip(_OPENING).rstrip(_CLOSING) or word


def split(text: str) -> list[str]:
    """Split a normalised text into words and punctuation marks."""
    words: list[str] = []
    for chunk in text.split():
        rest = chunk.lstrip(_OPENING)
        word = rest.rstrip(_CLOSING)
        words += chunk[: len(chunk) - len(rest)]
        words += [word] if word else []
        words += _MARKS.findall(rest[len(word) :])
    return words


def join(words: Sequence[str], lang: str) -> str:
    """Join words and marks with the spaces of `lang`. Straight quotes open and close in turn."""
    spaced_marks = _SPACED_IN.get(lang, frozenset())
    text = ""
    glue = True  # no space before the next word
    in_quotes = False
    previous = ""
    for i, word in enumerate(words):
        closes = word == '"' and (in_quotes or i == len(words) - 1)
        if word in spaced_marks:
            is_tight = previous in spaced_marks and previous not in ";:"
        else:
            is_tight = closes or word in _NO_SPACE_BEFORE or word.startswith("..")
        text += word if glue or is_tight else f" {word}"
        glue = word in _NO_SPACE_AFTER or (word == '"' and not closes)
        in_quotes = in_quotes != (word == '"')
        previous = word
    return text


# An elided word joins the next word (l' + eau), a clitic the previous word (-il; 's, n't).
_TAKES_NEXT = {"fr": re.compile(r"[^\W\d_]+['’]")}
_FOLLOWS = {"fr": re.compile(r"-[^\W\d_]+"), "en": re.compile(r"['’][^\W\d_]+|n['’]t", re.I)}


def detokenise(tokens: Sequence[str], lang: str) -> str:
    """Join tokens like `join`, but also attach clitics and elided words (n't, l') to their words.

    Letters are unchanged. Clitics and elided words are known in English and French only.
    """
    takes_next, follows = _TAKES_NEXT.get(lang), _FOLLOWS.get(lang)
    words: list[str] = []
    is_open = False
    for token in tokens:
        if words and (is_open or (follows is not None and follows.fullmatch(token))):
            words[-1] += token
        else:
            words.append(token)
        is_open = takes_next is not None and takes_next.fullmatch(token) is not None
    return join(words, lang)
