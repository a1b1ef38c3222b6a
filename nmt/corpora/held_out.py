"""Evaluation sets held out from a corpus by source sentence, independent of the pairs' order."""

import hashlib
from collections.abc import Callable, Iterable

import numpy as np

from nmt.corpora.entries import HashSplit
from nmt.corpora.sources import HeldOutConfig
from nmt.errors import DataError
from nmt.text.normalisation import sentence_key
from nmt.types import SplitName


def hold_out(
    sources: Iterable[str], config: HeldOutConfig, name: str
) -> Callable[[str], SplitName]:
    """Hold out the sentences with the lowest checksums for `valid` and `test`.

    Returns a function from a source sentence to its split. Takes 8 bytes of memory per sentence of
    `sources`. Raises DataError, which mentions `name`, if no sentence would be left for training.
    """

    def checksum(source: str) -> int:
        return _checksum(f"{config.seed} {sentence_key(source)}")

    n_wanted = config.valid + config.test
    ranked = np.unique(np.fromiter(map(checksum, sources), np.uint64))
    if n_wanted >= len(ranked):
        raise DataError(
            f"data.held_out: got {n_wanted:,} sentences, allowed: fewer than the "
            f"{len(ranked):,} different ones that {name} has"
        )
    valid_bound = int(ranked[config.valid - 1]) if config.valid else -1
    test_bound = int(ranked[n_wanted - 1]) if n_wanted else -1

    def split_of(source: str) -> SplitName:
        u = checksum(source)
        if u <= valid_bound:
            return "valid"
        return "test" if u <= test_bound else "train"

    return split_of


def part_of(src_text: str, hash_split: HashSplit) -> SplitName:
    """Return the split of a source sentence in `hash_split`, by a checksum of the sentence.

    u = first 8 bytes of sha256(sentence_key) / 2^64 is uniform in [0, 1). The split is test if
    u < `test`, valid if u < `test` + `valid`, and train otherwise. A sentence stays in its split
    when the file grows or is reordered. Sentences that differ only in case, spacing or punctuation
    share a split.
    """
    u = _checksum(sentence_key(src_text)) / 2**64
    if u < hash_split.test:
        return "test"
    return "valid" if u < hash_split.test + hash_split.valid else "train"


def _checksum(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
