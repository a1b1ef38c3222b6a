"""One result for each kind, from the measures of all its runs."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from comparison.differences import Difference, difference
from comparison.measures import Looks, Measured
from nmt.errors import DataError
from nmt.evaluation.evaluate import Bucket, bleu_by_length
from nmt.types import EvalExample

EDGES = (7, 9, 11, 13, 16, 20)
"""The longest source, in words, of each bucket but the last: about equally many captions."""


@dataclass(frozen=True)
class Result:
    """One kind over its runs, whose seeds are the keys of `bleus`.

    Numbers are means over the runs. `length` is the ratio of the words of the translations to the
    words of the first references. `difference` compares BLEU with the baseline over the seeds that
    both have; None for the baseline itself, and if it was not measured beside it.
    """

    name: str
    n_parameters: int
    bleus: dict[int, float]
    signature: str
    length: float
    loss: float
    looks: Looks
    by_length: tuple[Bucket, ...]
    difference: Difference | None

    @property
    def bleu(self) -> float:
        return statistics.mean(self.bleus.values())

    @property
    def spread(self) -> float | None:
        """The standard deviation over the runs; None for a single one."""
        return statistics.stdev(self.bleus.values()) if len(self.bleus) > 1 else None

    def as_json(self) -> dict[str, object]:
        """Return all its numbers, unrounded, fit for json.dumps."""
        means = {"bleu": self.bleu, "spread": self.spread, "perplexity": math.exp(self.loss)}
        return asdict(self) | means


def results_of(
    measured: Mapping[str, Mapping[int, Measured]],
    examples: Sequence[EvalExample],
    baseline: str,
    tgt_lang: str,
) -> list[Result]:
    """A result for each kind, the baseline first, then by BLEU, the best first.

    `measured` has the runs of each kind by seed; a kind that shares no seed with the baseline is
    compared to all runs of it.
    """
    results, base = [], measured[baseline]
    ref_texts = [example.ref_texts for example in examples]
    for name, runs in measured.items():
        shared = [seed for seed in runs if seed in base]
        old, new = ([side[seed].hyp_texts for seed in shared or side] for side in (base, runs))
        against = None if name == baseline else difference("bleu", old, new, ref_texts, tgt_lang)
        results.append(_result(name, runs, examples, against))
    return sorted(results, key=lambda result: (result.name != baseline, -result.bleu))


def kept_results(out: Path) -> list[Result]:
    """The results in `out`/family.json. Raises DataError where it is missing."""
    path = out / "family.json"
    if not path.is_file():
        raise DataError(f"{path} is missing; compare all kinds first")
    kinds = json.loads(path.read_text(encoding="utf-8"))["kinds"]
    return TypeAdapter(list[Result]).validate_python(list(kinds.values()))


def _result(
    name: str,
    runs: Mapping[int, Measured],
    examples: Sequence[EvalExample],
    against: Difference | None,
) -> Result:
    some = next(iter(runs.values()))
    means = {
        name: statistics.mean(getattr(run.looks, name) for run in runs.values())
        for name in ("entropy", "share", "largest", "head_entropy")
    }
    by_length = [bleu_by_length(run.hyp_texts, examples, EDGES) for run in runs.values()]
    return Result(
        name=name,
        n_parameters=some.n_parameters,
        bleus={seed: run.bleu for seed, run in runs.items()},
        signature=some.signature,
        length=statistics.mean(_length_ratio(run.hyp_texts, examples) for run in runs.values()),
        loss=statistics.mean(run.loss for run in runs.values()),
        looks=replace(some.looks, **means),
        by_length=tuple(
            replace(same[0], bleu=statistics.mean(bucket.bleu for bucket in same))
            for same in zip(*by_length, strict=True)
        ),
        difference=against,
    )


def _length_ratio(hyp_texts: Sequence[str], examples: Sequence[EvalExample]) -> float:
    n_words = sum(len(text.split()) for text in hyp_texts)
    return n_words / sum(len(example.ref_texts[0].split()) for example in examples)
