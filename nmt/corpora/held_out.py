"""Evaluation sets held out from a corpus by source sentence, whatever the order of its pairs."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nmt.corpora.entries import HashSplit
from nmt.corpora.sources import HeldOutConfig
from nmt.errors import DataError
from nmt.text.normalisation import sentence_key
from nmt.types import SplitName


@dataclass(frozen=True)
class HeldOut:
    """The held-out source sentences: those whose checksum is at most `test_bound`.

    Those with a checksum of at most `valid_bound` are for validation.
    """

    seed: int
    valid_bound: int
    test_bound: int

    @classmethod
    def choose(cls, sources: Iterable[str], config: HeldOutConfig, name: str) -> "HeldOut":
        """Hold out the sentences with the lowest checksums, in 8 bytes of memory per sentence.

        Raises DataError if no sentence of the corpus, called `name`, would be left for training.
        """
        n_wanted = config.valid + config.test
        checksums = (_checksum(f"{config.seed} {sentence_key(source)}") for source in sources)
        ranked = np.unique(np.fromiter(checksums, np.uint64))
        if n_wanted >= len(ranked):
            raise DataError(
                f"data.held_out: got {n_wanted:,} sentences, allowed: fewer than the "
                f"{len(ranked):,} different ones that {name} has"
            )
        bounds = [int(ranked[n - 1]) if n else -1 for n in (config.valid, n_wanted)]
        return cls(config.seed, bounds[0], bounds[1])

    def part_of(self, source: str) -> SplitName:
        """Return the split of a source sentence."""
        u = _checksum(f"{self.seed} {sentence_key(source)}")
        if u <= self.valid_bound:
            return "valid"
        return "test" if u <= self.test_bound else "train"


def part_of(src_text: str, hash_split: HashSplit) -> SplitName:
    """Return the split of a source sentence by a checksum of its text.

    u = first 8 bytes of sha256(sentence_key) / 2^64 is uniform in [0, 1). The split is test if
    u < `test`, valid if u < `test` + `valid`, and train otherwise. A sentence stays in its split
    when the file grows or is reordered. Sentences that differ in case or punctuation share a split.
    """
    u = _checksum(sentence_key(src_text)) / 2**64
    if u < hash_split.test:
        return "test"
    return "valid" if u < hash_split.test + hash_split.valid else "train"


def _checksum(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
