"""Calibration error and AUC of confidence by the features it reads.

    .venv/bin/python scripts/confidence_features.py --run runs/multi30k --split test

Each row is a logistic regression on some of the features. It is measured on the validation set by
held-out folds and, with --split, on another split, where the fit is to the whole validation set.
--set changes the search of the other split only.

    ECE      expected calibration error of the probability that chrF2 is at least --threshold
    AUC      area under the ROC curve for a chrF2 of at least --threshold
    better   area under the ROC curve for a chrF2 above the median of the split

A note on stderr says which ECE a perfectly calibrated probability has on as many sentences.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from measuring import markdown_table

from nmt.corpora.corpora import read_examples
from nmt.errors import NMTError
from nmt.evaluation import confidence
from nmt.evaluation.examples import split_named
from nmt.runs.trained_run import TrainedRun
from nmt.translation.translator import Translator

SETS: dict[str, tuple[int, ...]] = {
    "mean log-probability": (4,),
    "its root": (0,),
    "root, mean probability": (0, 1),
    "entropy": (2,),
    "coverage": (3,),
    "entropy, coverage": (2, 3),
    "all four": (0, 1, 2, 3),
}
"""Columns of `features`; column 4 is minus the square of column 0, the mean log-probability."""

Scored = tuple[confidence.Features, confidence.Values]


def features_of(run: TrainedRun, split: str, checkpoint: str) -> Scored:
    """Return features and chrF2 of the translations of a split."""
    translator, data = Translator.load(run, checkpoint=checkpoint), run.config.data
    return confidence.scored_features(translator, read_examples(split_named(data, split), data))


def with_mean(x: confidence.Features) -> confidence.Features:
    return np.column_stack([x, -(x[:, 0] ** 2)])


def measures(p: confidence.Values, scores: confidence.Values, threshold: float) -> list[str]:
    """Return ECE, AUC and `better` of the probabilities `p`."""
    y, is_better = scores >= threshold, scores > np.median(scores)
    ece = confidence.calibration_error(p, y)
    return [f"{ece:.3f}", *(f"{confidence.area_under_curve(p, z):.3f}" for z in (y, is_better))]


def rows(valid: Scored, others: Sequence[Scored], threshold: float) -> Iterator[list[str]]:
    """Yield each set of features with its measures on the validation set and the other splits."""
    x, scores = with_mean(valid[0]), valid[1]
    y = scores >= threshold
    for name, numbers in SETS.items():
        columns = list(numbers)
        weights = confidence.fit(x[:, columns], y)
        cells = measures(confidence.held_out(x[:, columns], y), scores, threshold)
        for other, other_scores in others:
            p = confidence.probabilities(with_mean(other)[:, columns], weights)
            cells += measures(p, other_scores, threshold)
        yield [name, *cells]


def perfect_error(p: Float64[np.ndarray, " N"]) -> float:
    """Return the mean ECE of outcomes that are drawn with the probabilities `p`."""
    rng = np.random.default_rng(1)
    draws = [confidence.calibration_error(p, rng.random(len(p)) < p) for _ in range(200)]
    return float(np.mean(draws))


def main() -> int:
    """Print the table; return 2 where the user's input was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="a run directory")
    parser.add_argument("--checkpoint", default="best", help="best, last or step-N")
    parser.add_argument("--split", help="a split of the run's corpus besides the validation set")
    parser.add_argument("--set", action="append", default=[], help="such as search.beam=1")
    parser.add_argument("--threshold", type=float, default=60.0)
    options = parser.parse_args()
    try:
        run = TrainedRun.open(options.run)
        scored = [features_of(run, "valid", options.checkpoint)]
        if options.split:
            changed = run.with_config(options.set)
            scored.append(features_of(changed, options.split, options.checkpoint))
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    valid, *others = scored
    header = ["features", *["ECE", "AUC", "better"] * len(scored)]
    print(markdown_table(header, list(rows(valid, others, options.threshold))))
    p = confidence.held_out(valid[0], valid[1] >= options.threshold)
    print(f"ECE of a perfect calibration: {perfect_error(p):.3f}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
