"""A model card: what a run knows of its model, in Markdown with Hugging Face's metadata.

The metadata is the YAML front matter of huggingface/hub-docs, modelcard.md, with the scores as
`model-index`. Names of files are given without their folders, because a card is published.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nmt.corpora.entries import data_folder, find_entry
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.evaluation.metric import MetricResult
from nmt.runs.trained_run import LoadedModel
from nmt.settings.messages import first_fault
from nmt.storage.bounded import read_json, stay_inside
from nmt.storage.terminal import one_line

_HUB_METRICS = {"bleu-lc": "bleu", "chrf++": "chrf", "multi30k": "bleu"}
"""The Hub's id of a metric, where it differs from the key of METRICS."""

_NOT_KNOWN = """\
nmt does not know what this model is meant for, where it fails, or whether its training data may be
used for that. A translation may be fluent and wrong. Write here what you know."""


class KeptReport(BaseModel):
    """The keys of a file in eval/ that a card needs; it may have others."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    corpus: str
    split: str
    sentences: int = Field(ge=0)
    scores: dict[str, MetricResult]
    step: int | None = None
    hyp: str | None = None
    ensemble: tuple[str, ...] | None = None
    rerank: tuple[str, ...] | None = None
    int8: bool = False
    search: dict[str, object] = {}

    @property
    def dataset(self) -> str:
        """The test set: a corpus and its split, or a file without its folders."""
        return one_line(Path(self.corpus).name)

    @property
    def method(self) -> str:
        """How it was translated: `beam 5`, `beam 5, int8`."""
        return f"beam {self.search.get('beam', '?')}" + ", int8" * self.int8


@dataclass(frozen=True)
class CardFacts:
    """The facts of a card: the checkpoint, run.json, and the scores of that checkpoint.

    `best` is the best validation score by `metric` with its step. `licence` is an identifier such
    as `mit`, of the weights; None where nobody has said one.
    """

    loaded: LoadedModel
    run_json: Mapping[str, object]
    reports: Sequence[KeptReport]
    metric: str
    best: tuple[float, int] | None
    licence: str | None = None


def read_reports(run: Path, step: int, say: Callable[[str], None]) -> list[KeptReport]:
    """The reports in eval/ on translations that the run's model made alone, after `step` updates.

    A damaged report is left out, with a note to `say`. Raises CheckpointError for a link out of
    the run.
    """
    reports = []
    for path in sorted((run / "eval").glob("*.json")):
        stay_inside(path, run, CheckpointError)
        try:
            report = KeptReport.model_validate(read_json(path, CheckpointError))
        except ValidationError as error:
            say(f"note: {path}: left out: {first_fault(error)}")
        except NMTError as error:
            say(f"note: {path}: left out: {error}")
        else:
            helped = report.hyp is not None or report.ensemble or report.rerank
            if report.step == step and not helped:
                reports.append(report)
    return reports


def model_card(facts: CardFacts) -> str:
    """The card of a model as Markdown, front matter first."""
    config = facts.loaded.config
    src, tgt = config.data.src_lang, config.data.tgt_lang
    settings = config.model_dump(
        mode="json", include={"model", "search"}
    )  # without anybody's paths
    parts = [
        f"---\n{_yaml(_front_matter(facts))}---",
        f"# {config.name}",
        f"Translates {_cell(src)} into {_cell(tgt)}; trained with attention-nmt "
        f"{_cell(_version(facts, 'nmt'))}.",
        "## Use",
        f'```\nnmt translate --run {config.name} "..."\n```',
        "## Model",
        _table(_model_rows(facts)),
        f"<details><summary>Settings</summary>\n\n````yaml\n{_yaml(settings)}````\n\n</details>",
        "## Training data",
        *_data(facts),
        "## Scores",
        _scores(facts.reports),
        "## Limits",
        _NOT_KNOWN,
    ]
    return "\n\n".join(parts)


def _front_matter(facts: CardFacts) -> dict[str, object]:
    config = facts.loaded.config
    languages = list(dict.fromkeys((config.data.src_lang, config.data.tgt_lang)))
    matter: dict[str, object] = {"language": languages}
    if facts.licence is not None:
        matter["license"] = facts.licence
    matter |= {
        "library_name": "attention-nmt",
        "pipeline_tag": "translation",
        "tags": ["translation", config.model.kind],
    }
    if facts.reports:
        results = [_result(report, "-".join(languages)) for report in facts.reports]
        matter["model-index"] = [{"name": config.name, "results": results}]
    return matter


def _result(report: KeptReport, languages: str) -> dict[str, object]:
    """An entry of `results` in model-index."""
    return {
        "task": {"type": "translation", "name": f"Translation {languages}"},
        "dataset": {
            "type": re.sub(r"[^\w.]+", "-", report.dataset.lower()).strip("-"),
            "name": report.dataset,
            "split": one_line(report.split),
        },
        "metrics": [
            {
                "type": _HUB_METRICS.get(key, key),
                "name": one_line(result.name),
                "value": round(result.score, 2),
                "args": {"signature": one_line(result.signature)},
            }
            for key, result in report.scores.items()
        ],
    }


def _model_rows(facts: CardFacts) -> list[Sequence[object]]:
    loaded = facts.loaded
    config, tokenizers = loaded.config, loaded.tokenizers
    sizes = [f"{len(side.vocab):,} {side.lang}" for side in (tokenizers.src, tokenizers.tgt)]
    hardware = facts.run_json.get("hardware")
    hardware = hardware if isinstance(hardware, dict) else {}
    rows: list[Sequence[object]] = [
        ("", ""),
        ("kind", config.model.kind),
        ("parameters", f"{sum(p.numel() for p in loaded.model.parameters()):,}"),
        ("pieces", ", ".join(sizes) + " (one vocabulary)" * tokenizers.joint),
        ("tokenizer", config.tokenizer.kind),
        ("checkpoint", f"after {loaded.step:,} updates"),
        ("begun", facts.run_json.get("started")),
        *((key, hardware[key]) for key in ("device", "precision", "cpu") if hardware.get(key)),
        ("versions", f"torch {_version(facts, 'torch')}, nmt {_version(facts, 'nmt')}"),
    ]
    if facts.best is not None:
        score, step = facts.best
        rows.append(("best in validation", f"{facts.metric} {score:.2f} after {step:,} updates"))
    return rows


def _data(facts: CardFacts) -> list[str]:
    """Paragraphs: the named corpus with its licence, if there is one, and a table of the files."""
    data = facts.loaded.config.data
    parts = []
    splits = [data.train, data.valid]
    for name in dict.fromkeys([data.corpus, *(split.corpus for split in splits if split)]):
        try:
            entry = find_entry(name or "", data_folder(data.folder)) if name else None
        except ConfigError:  # an entry of a catalogue that is elsewhere
            entry = None
        if name:
            about = (entry.description, f"licence: {entry.licence}") if entry else ()
            credit = (entry.attribution,) if entry and entry.attribution else ()
            parts.append(_cell("; ".join([f"Corpus {name}", *about, *credit])))
    files = facts.run_json.get("data")
    rows = [
        (Path(str(file.get("file"))).name, file.get("bytes"), file.get("sha256"))
        for file in (files if isinstance(files, list) else [])
        if isinstance(file, dict)
    ]
    return [*parts, _table([("file", "bytes", "SHA-256"), *rows])] if rows else parts


def _version(facts: CardFacts, name: str) -> str:
    versions = facts.run_json.get("versions")
    return str(versions.get(name, "?")) if isinstance(versions, dict) else "?"


def _scores(reports: Sequence[KeptReport]) -> str:
    if not reports:
        return "This checkpoint has not been scored yet."
    head = "test set", "sentences", "search", "metric", "score", "95 % interval", "signature"
    rows: list[Sequence[object]] = [head]
    for report in reports:
        for result in report.scores.values():
            interval = ""
            if result.low is not None and result.high is not None:
                interval = f"{result.low:.2f} to {result.high:.2f}"
            what = (report.dataset, f"{report.sentences:,}", report.method)
            rows.append((*what, result.name, f"{result.score:.2f}", interval, result.signature))
    return _table(rows)


def _table(rows: Sequence[Sequence[object]]) -> str:
    """A table of Markdown; its first row is the head."""
    head, *others = ([_cell(cell) for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *others))


def _cell(value: object) -> str:
    """Text that is only text in Markdown, and in a cell of its tables."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", one_line(str(value)).replace("\t", " "))


def _yaml(tree: object) -> str:
    text: str = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=1000)
    return text
