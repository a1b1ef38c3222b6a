"""The alignment error rate of links against those that people made."""

from collections.abc import Iterable
from dataclasses import dataclass

from nmt.data.alignments import Gold, Links


@dataclass(frozen=True)
class AlignmentScore:
    """The counts over a corpus, and the rates that follow from them.

    `n_links` is |A|, `n_sure` |S|, `n_sure_found` |A and S|, `n_possible_found` |A and P|, of which
    the possible links P contain the sure ones S.
    """

    n_links: int
    n_sure: int
    n_sure_found: int
    n_possible_found: int

    @property
    def precision(self) -> float:
        """|A and P| / |A|; 1 without links, none of which is wrong."""
        return self.n_possible_found / self.n_links if self.n_links else 1.0

    @property
    def recall(self) -> float:
        """|A and S| / |S|; 1 without sure links."""
        return self.n_sure_found / self.n_sure if self.n_sure else 1.0

    @property
    def aer(self) -> float:
        """1 - (|A and S| + |A and P|) / (|A| + |S|): 0 is best, 1 worst."""
        total = self.n_links + self.n_sure
        return 1 - (self.n_sure_found + self.n_possible_found) / total if total else 0.0

    def describe(self) -> str:
        """The rates in a line."""
        return (
            f"AER {self.aer:.3f}  precision {self.precision:.3f}  recall {self.recall:.3f}  "
            f"({self.n_links:,} links, {self.n_sure:,} sure ones)"
        )

    def as_json(self) -> dict[str, float | int]:
        """The rates and the number of links by name."""
        return {
            "aer": self.aer,
            "precision": self.precision,
            "recall": self.recall,
            "links": self.n_links,
            "sure": self.n_sure,
        }


def alignment_score(found: Iterable[Links], gold: Iterable[Gold]) -> AlignmentScore:
    """The score of the links of all sentence pairs together (Och & Ney 2003, section 6).

    Raises ValueError unless there are as many pairs on both sides.
    """
    pairs = list(zip(found, gold, strict=True))
    return AlignmentScore(
        n_links=sum(len(links) for links, _ in pairs),
        n_sure=sum(len(true.sure) for _, true in pairs),
        n_sure_found=sum(len(links & true.sure) for links, true in pairs),
        n_possible_found=sum(len(links & true.possible) for links, true in pairs),
    )
