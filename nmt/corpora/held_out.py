"""Evaluation sets taken out of the training set, by distinct source sentence."""

import hashlib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.text.normalisation import sentence_key
from nmt.types import SplitName


class HeldOutConfig(Config):
    """Sentences of the training set that are kept for evaluation, with all their translations.

    A sentence is chosen by a checksum of its letters and digits and of the seed, so that the order
    of the file does not matter and sentences that differ in case or punctuation stay together.
    """

    valid: int = Field(default=0, ge=0, description="distinct source sentences for validation")
    test: int = Field(default=0, ge=0, description="distinct source sentences for the test")
    seed: int = Field(default=1, ge=0, description="another seed takes other sentences")


@dataclass(frozen=True)
class HeldOut:
    """The source sentences that are held out: those with a checksum up to a bound."""

    seed: int
    valid_bound: int
    test_bound: int

    @classmethod
    def choose(cls, sources: Iterable[str], config: HeldOutConfig, shown: str) -> "HeldOut":
        """The sentences of lowest checksum, those for validation first; memory holds these alone.

        Raises DataError, which names the corpus as `shown`, where no sentence would be left.
        """
        n_wanted = config.valid + config.test
        lowest: list[int] = []  # a heap of negative numbers: the greatest of the lowest on top
        known: set[int] = set()
        n_others = 0
        for source in sources:
            u = _checksum(source, config.seed)
            if u in known:
                continue
            if len(lowest) < n_wanted:
                heapq.heappush(lowest, -u)
                known.add(u)
            elif n_wanted and u < -lowest[0]:
                known.add(u)
                known.remove(-heapq.heapreplace(lowest, -u))
                n_others += 1
            else:
                n_others += 1
        if not n_others:
            raise DataError(
                f"data.held_out: got {n_wanted:,} sentences, allowed: fewer than the "
                f"{len(lowest):,} different ones that {shown} has"
            )
        ranked = sorted(-u for u in lowest)
        bounds = [ranked[n - 1] if n else -1 for n in (config.valid, n_wanted)]
        return cls(config.seed, bounds[0], bounds[1])

    def part_of(self, source: str) -> SplitName:
        """The split that a source sentence is in."""
        u = _checksum(source, self.seed)
        if u <= self.valid_bound:
            return "valid"
        return "test" if u <= self.test_bound else "train"


def _checksum(source: str, seed: int) -> int:
    digest = hashlib.sha256(f"{seed} {sentence_key(source)}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
