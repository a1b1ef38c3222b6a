"""From words as users write them to the Words of a search."""

import functools

from nmt.decoding.words import Word, Words
from nmt.errors import DataError
from nmt.text.tokenizer import Tokenizer
from nmt.text.vocabulary import RESERVED, UNK_ID


@functools.lru_cache(maxsize=32)
def words_of(tokenizer: Tokenizer, must: tuple[str, ...], must_not: tuple[str, ...]) -> Words:
    """The Words of a target vocabulary.

    A word that must not occur and that the vocabulary cannot write needs nothing. Raises DataError
    for such a word that must occur.
    """
    found: dict[str, Word | None] = {}
    texts = _piece_texts(tokenizer) if must or must_not else ()
    for text in (*must, *must_not):
        ids = tokenizer.encode(text).ids
        known = bool(ids) and UNK_ID not in ids and all(texts[id_] for id_ in ids)
        found[text] = Word(ids, texts) if known else None
    for text in must:
        if found[text] is None:
            raise DataError(
                f"search.must: got '{text}', allowed: words that the {tokenizer.lang} vocabulary "
                "can write"
            )
    return Words(
        tuple(word for text in must if (word := found[text])),
        tuple(word for text in must_not if (word := found[text])),
    )


@functools.lru_cache(maxsize=4)
def _piece_texts(tokenizer: Tokenizer) -> tuple[str, ...]:
    """The characters of each id, ▁ for a space; none for reserved ids and parts of characters."""
    contents = map(tokenizer.piece_bytes, tokenizer.vocab.pieces[len(RESERVED) :])
    # A byte beyond ASCII is a part of a character, and decodes to nothing.
    return ("",) * len(RESERVED) + tuple(content.decode(errors="ignore") for content in contents)
