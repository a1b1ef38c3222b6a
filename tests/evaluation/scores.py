"""Scores of lists of texts, by nmt and by the sacrebleu command."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.evaluation.metric import DEFAULT_BOOTSTRAP, MetricResult, Scoring
from nmt.evaluation.metrics import METRICS
from nmt.types import EvalExample


def score(
    metric: str,
    hyps: Sequence[str],
    refs: Sequence[tuple[str, ...]],
    tgt_lang: str,
    n_bootstrap: int = DEFAULT_BOOTSTRAP,
) -> MetricResult:
    """Score `hyps[i]` against the references `refs[i]`; see Metric.score."""
    examples = [EvalExample("", line_refs) for line_refs in refs]
    return METRICS[metric].score(hyps, examples, Scoring(tgt_lang, (metric,), n_bootstrap))


def sacrebleu_command(folder: Path, texts: Mapping[str, Sequence[str]], flags: list[str]) -> str:
    """Return the answer of `sacrebleu` to texts by name, the first of which are references."""
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    ref, *systems = texts
    command = [sys.executable, "-m", "sacrebleu", ref, "-i", *systems, *flags]
    return subprocess.check_output(command, cwd=folder, text=True, encoding="utf-8")
