"""Reports of an evaluation: lines of text, JSON, and files in a run's eval/ folder."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.errors import DataError
from nmt.evaluation.evaluate import Evaluation
from nmt.evaluation.metric import MetricResult
from nmt.evaluation.significance import RANDOMISATIONS, Comparison
from nmt.storage.atomic import encode_utf8
from nmt.storage.bounded import read_json, section
from nmt.storage.output import atomic_stream
from nmt.storage.run_files import check_tree

_FEW_SENTENCES = 10
"""BLEU of a bucket with fewer sentences is written to the JSON but not printed."""


@dataclass(frozen=True, slots=True)
class EvalReport:
    """An evaluation to be saved in a run's eval/, and the name of its file.

    `comparisons` maps each metric to its Comparison with a baseline, if there is one. `about`
    records what was scored and how it was translated.
    """

    name: str
    evaluation: Evaluation
    comparisons: dict[str, Comparison]
    about: Mapping[str, object]

    def as_json(self) -> dict[str, object]:
        evaluation = self.evaluation
        return {
            **self.about,
            "sentences": len(evaluation.hyp_texts),
            "seconds": evaluation.seconds,
            "sentences_per_second": evaluation.sentences_per_second,
            "typography": evaluation.texts.typography,
            "altered_for_scoring": evaluation.texts.notes(),
            "scores": {metric: asdict(result) for metric, result in evaluation.scores.items()},
            "bleu_by_source_words": [asdict(bucket) for bucket in evaluation.by_length],
            "counts": {kind: asdict(count) for kind, count in evaluation.counts.items()},
            "against_baseline": {k: asdict(result) for k, result in self.comparisons.items()},
        }

    def save(self, run: Path) -> list[str]:
        """Write eval/NAME.json in the run, and the model's translations, if any, to NAME.txt.

        Scores by other metrics in an earlier NAME.json are kept if translations, references and
        target language are the same. Otherwise they are dropped. Returns the names of the dropped
        metrics. Each file is written atomically. Raises DataError if writing fails, and
        CheckpointError if eval/ contains a link.
        """
        check_tree(run, ("eval",))
        path = report_path(run, self.name)
        content, before = self.as_json(), _read(path)
        dropped = [key for key in section(before, "scores") if key not in self.evaluation.scores]
        if before and _texts_of(before) == _texts_of(content):
            content, dropped = _merged(content, before), []
        if self.evaluation.seconds is not None:
            _write(self.evaluation.hyp_texts, path.with_suffix(".txt"))
        _write([json.dumps(content, indent=1, ensure_ascii=False)], path)
        return dropped


def report_path(run: Path, name: str) -> Path:
    """Return the path of the report `name` in a run. Its translations have the suffix .txt."""
    return run / "eval" / f"{name}.json"


def checksum(texts: object) -> str:
    """Return the SHA-256 of `texts` as JSON, which identifies them in a report."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def report_name(test_set: str, choices: Iterable[str]) -> str:
    """Return a report name such as `test-last-beam1`: the test set and the non-default options."""
    return "-".join([test_set, *(re.sub(r"[^\w.,+-]+", "_", part).strip("_") for part in choices)])


def _write(lines: Iterable[str], path: Path) -> None:
    with atomic_stream(path) as stream:
        stream.writelines(encode_utf8(f"{line}\n") for line in lines)


def _read(path: Path) -> dict[str, object]:
    """Read the earlier report at `path`. Return {} if it is missing or damaged."""
    try:
        value = read_json(path, DataError)
    except (FileNotFoundError, DataError):
        return {}
    return value if isinstance(value, dict) else {}


def _texts_of(report: Mapping[str, object]) -> tuple[object, ...]:
    """Return a key that identifies the translations, references and language of a report."""
    sums = section(report, "sha256")
    return sums.get("hypotheses"), sums.get("references"), report.get("tgt_lang")


def _merged(content: dict[str, object], before: Mapping[str, object]) -> dict[str, object]:
    """Add to `content` the scores by other metrics from an earlier report, `before`.

    Earlier comparisons are added if `content` has the same baseline or none.
    """
    keys = ["scores"]
    sums, old_sums = section(content, "sha256"), section(before, "sha256")
    report = dict(content)
    if sums.get("baseline") in (None, old_sums.get("baseline")):
        keys.append("against_baseline")
        baseline = content.get("baseline") or before.get("baseline")
        report |= {"baseline": baseline, "sha256": old_sums}
    return report | {key: {**section(before, key), **section(content, key)} for key in keys}


def score_line(result: MetricResult) -> str:
    """Return a line such as `BLEU 61.23 [59.80, 62.71] (95 % bootstrap, n=1000)  nrefs:1|...`."""
    interval = ""
    if result.low is not None and result.high is not None:
        interval = f" [{result.low:.2f}, {result.high:.2f}]"
        interval += f" (95 % bootstrap, n={result.n_bootstrap})"
    return f"{result.name} {result.score:.2f}{interval}  {result.signature}"


def comparison_line(comparison: Comparison, baseline: object) -> str:
    """Return the difference and its p-values: `BLEU +1.13 against 60.10 of old.txt, p = ...`."""
    return (
        f"{comparison.name} {comparison.score - comparison.baseline:+.2f} against "
        f"{comparison.baseline:.2f} of {baseline}, p = {comparison.p_value:.4f} "
        f"(paired bootstrap, n={comparison.n_bootstrap}), "
        f"{comparison.p_randomisation:.4f} (approximate randomisation, n={RANDOMISATIONS})"
    )


def length_line(evaluation: Evaluation) -> str:
    """Return a line with BLEU by source length, or "" if there are fewer than two buckets."""
    buckets = evaluation.by_length
    if len(buckets) < 2:
        return ""
    parts = [
        f"{b.label}: {f'{b.bleu:.2f}' if b.n_sentences >= _FEW_SENTENCES else 'too few'} "
        f"(n={b.n_sentences})"
        for b in buckets
    ]
    return "BLEU by words of the source  " + "  ".join(parts)


def speed_line(evaluation: Evaluation) -> str:
    """Return a line with the translation time, or "" if translations were read from a file."""
    if evaluation.seconds is None:
        return ""
    n_texts, speed = len(evaluation.hyp_texts), f"{evaluation.sentences_per_second:.1f} sentences/s"
    return f"translated {n_texts:,} sentences in {evaluation.seconds:.1f} s ({speed})"
