"""Guided alignment: word alignments of the training pairs, converted to links between pieces."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from nmt.batches.batching import EncodedCorpus, PieceLinks, reason_to_drop
from nmt.corpora.alignments import Link, check_links, stream_gold
from nmt.errors import DataError, format_count
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.text.word_pieces import WordPieces, word_pieces, words_between_spaces
from nmt.types import Encoded, Ids, SentencePair


def encode_aligned_pairs(
    pairs: Sequence[SentencePair],
    path: Path,
    tokenizers: Tokenizers,
    max_pieces: int,
    is_cut: bool = False,
) -> EncodedCorpus:
    """Encode pairs as in `encode_pairs`, and add the links in the file `path`.

    The file has one line per pair. If `is_cut`, `pairs` is the start of a longer corpus, and the
    file may have more lines. Raises DataError if the number of lines is wrong, or if a link names a
    word that does not exist; this message names the line.
    """
    lines = (gold.possible for gold in stream_gold(path))
    word_links = list(islice(lines, len(pairs)))
    is_short = len(word_links) < len(pairs)
    if is_short or (not is_cut and next(lines, None) is not None):
        n_lines = format_count(len(word_links), "line") if is_short else "too many lines"
        raise DataError(f"{path}: {n_lines} for {format_count(len(pairs), 'sentence pair')}")
    dropped: Counter[str] = Counter()
    src_ids: list[Ids] = []
    tgt_ids: list[Ids] = []
    links: list[PieceLinks] = []
    for number, (pair, pair_links) in enumerate(zip(pairs, word_links, strict=True), start=1):
        src, src_words = _encode(pair.src_text, tokenizers.src)
        tgt, tgt_words = _encode(pair.tgt_text, tokenizers.tgt)
        n_words = len(src_words.shares), len(tgt_words.shares)
        check_links(sorted(pair_links), n_words, f"{path}:{number}")
        reason = reason_to_drop(src.ids, tgt.ids, max_pieces)
        if reason is not None:
            dropped[reason] += 1
            continue
        src_ids.append(src.ids)
        tgt_ids.append(tgt.ids)
        links.append(piece_links(pair_links, src_words, tgt_words))
    return EncodedCorpus(tuple(src_ids), tuple(tgt_ids), dict(dropped), links=tuple(links))


def piece_links(links: Iterable[Link], src: WordPieces, tgt: WordPieces) -> PieceLinks:
    """Convert links between words to sorted links between all their pieces."""
    pairs = {(s, t) for i, j in links for s in src.pieces_of(i) for t in tgt.pieces_of(j)}
    return np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)


def _encode(text: str, tokenizer: Tokenizer) -> tuple[Encoded, WordPieces]:
    encoded = tokenizer.encode(text)
    return encoded, word_pieces(words_between_spaces(text), encoded, tokenizer)
