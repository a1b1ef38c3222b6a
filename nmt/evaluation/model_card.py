"""Model cards: a run's model described in Markdown with Hugging Face's metadata.

The metadata is the YAML front matter of huggingface/hub-docs, modelcard.md, with the scores as
`model-index`. File names appear without folders, because a card is published.
"""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nmt.config import RunConfig
from nmt.corpora.entries import data_folder, find_entry
from nmt.corpora.sources import DataConfig
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.evaluation.confidence import find_calibration
from nmt.evaluation.metric import MetricResult
from nmt.runs.card import read_card
from nmt.runs.metrics import METRICS, best_of, metrics_of
from nmt.settings.messages import first_fault
from nmt.storage.bounded import check_inside, read_json, section
from nmt.storage.terminal import one_line
from nmt.translation.translator import Translator

Json = Mapping[str, object]

_NOT_KNOWN = """\
nmt cannot know the purpose of this model, where it fails, or whether the licences of its training
data allow that purpose. A translation may be fluent and wrong. Write here what you know."""


class SavedReport(BaseModel):
    """The keys of an EvalReport that a model card needs. Other keys are ignored."""

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
        """The name of the test set: a corpus and its split, or a file without its folders."""
        return one_line(Path(self.corpus).name)

    @property
    def method(self) -> str:
        """The beam size and the number format of the search, such as `beam 5, int8`."""
        return f"beam {self.search.get('beam', '?')}" + ", int8" * self.int8


Reports = Sequence[SavedReport]


def read_reports(run: Path, step: int | None, say: Callable[[str], None]) -> list[SavedReport]:
    """Read the reports in eval/ that score the run's model alone, after `step` updates.

    Damaged reports are skipped, with a note to `say`. Raises CheckpointError if a path leads out of
    the run.
    """
    reports = []
    for path in sorted((run / "eval").glob("*.json")):
        check_inside(path, run, CheckpointError)
        try:
            report = SavedReport.model_validate(read_json(path, CheckpointError))
        except (ValidationError, NMTError) as error:
            fault = first_fault(error) if isinstance(error, ValidationError) else error
            say(f"note: {path}: left out: {fault}")
        else:
            is_other = report.hyp is not None or report.ensemble or report.rerank
            if report.step == step and not is_other:
                reports.append(report)
    return reports


def model_card(
    translator: Translator,
    say: Callable[[str], None],
    licence: str | None = None,
    name: str | None = None,
) -> str:
    """Return the card of a translator's checkpoint as Markdown, front matter first.

    `say` is called with notes on missing scores. `licence` is the licence of the weights, as an
    identifier such as `mit`. None leaves it out of the card. `name` is the value of --run in the
    card's example, by default the run's name.
    """
    run = translator.runs[0]
    config, run_json = run.config, read_card(run.directory)
    reports = read_reports(run.path, translator.step, say)
    if not reports:
        remedy = f"; nmt eval --run {run.name} adds them" if run.archive is None else ""
        say(f"{run.name} has no scores of {translator.checkpoint}{remedy}")
    calibration = find_calibration(translator, say)
    src, tgt = config.data.src_lang, config.data.tgt_lang
    settings = config.model_dump(mode="json", include={"model", "search"})  # without user paths
    parts = [
        f"---\n{_yaml(_front_matter(config, reports, licence))}---",
        f"# {config.name}",
        f"Translates {_cell(src)} into {_cell(tgt)}; trained with attention-nmt "
        f"{_cell(section(run_json, 'versions').get('nmt', '?'))}.",
        "## Use",
        f'```\nnmt translate --run {name or config.name} "..."\n```',
        "## Model",
        _table(_model_rows(translator, run_json)),
        f"<details><summary>Settings</summary>\n\n````yaml\n{_yaml(settings)}````\n\n</details>",
        "## Training data",
        *_data(config.data, run_json),
        "## Scores",
        _scores(reports),
        *(["## Confidence", _table([("", ""), *calibration.rows()])] if calibration else []),
        "## Limits",
        _NOT_KNOWN,
    ]
    return "\n\n".join(parts)


def _front_matter(config: RunConfig, reports: Reports, licence: str | None) -> dict[str, object]:
    languages = list(dict.fromkeys((config.data.src_lang, config.data.tgt_lang)))
    results = [_result(report, "-".join(languages)) for report in reports]
    matter = {
        "language": languages,
        "license": licence,
        "library_name": "attention-nmt",
        "pipeline_tag": "translation",
        "tags": ["translation", config.model.kind],
        "model-index": [{"name": config.name, "results": results}] if results else None,
    }
    return {key: value for key, value in matter.items() if value is not None}


def _result(report: SavedReport, languages: str) -> dict[str, object]:
    return {
        "task": {"type": "translation", "name": f"Translation {languages}"},
        "dataset": {
            "type": re.sub(r"[^\w.]+", "-", report.dataset.lower()).strip("-"),
            "name": report.dataset,
            "split": one_line(report.split),
        },
        "metrics": [
            {
                "type": key,
                "name": one_line(result.name),
                "value": round(result.score, 2),
                "args": {"signature": one_line(result.signature)},
            }
            for key, result in report.scores.items()
        ],
    }


def _model_rows(translator: Translator, run_json: Json) -> list[Sequence[object]]:
    run, tokenizers = translator.runs[0], translator.tokenizers
    config = run.config
    sizes = [f"{len(side.vocab):,} {side.lang}" for side in (tokenizers.src, tokenizers.tgt)]
    hardware, versions = section(run_json, "hardware"), section(run_json, "versions")
    rows: list[Sequence[object]] = [
        ("", ""),
        ("kind", config.model.kind),
        ("parameters", f"{sum(p.numel() for p in translator.model.parameters()):,}"),
        ("pieces", ", ".join(sizes) + " (one vocabulary)" * tokenizers.joint),
        ("tokenizer", config.tokenizer.kind),
        *[("direction", "right to left (data.reverse_target)")] * config.data.reverse_target,
        ("checkpoint", f"after {translator.step:,} updates"),
        ("begun", run_json.get("started")),
        *((key, hardware[key]) for key in ("device", "precision", "cpu") if hardware.get(key)),
        ("versions", ", ".join(f"{name} {versions.get(name, '?')}" for name in ("torch", "nmt"))),
    ]
    metric = config.valid.metric
    lines = metrics_of(run.path) if (run.path / METRICS).is_file() else []
    if best := best_of(lines, metric):
        rows.append(("best in validation", f"{metric} {best[0]:.2f} after {best[1]:,} updates"))
    return rows


def _data(data: DataConfig, run_json: Json) -> list[str]:
    """Return a paragraph on each named corpus and its licence, and a table of the files."""
    parts = []
    splits = [split for split in (data.train, data.valid) if split]
    corpora = [data.corpus, *(part.corpus for split in splits for part in split.corpora)]
    for name in dict.fromkeys(filter(None, corpora)):
        facts = [f"Corpus {name}"]
        with contextlib.suppress(ConfigError):  # no catalogue here has the corpus
            entry = find_entry(name, data_folder(data.folder))
            facts += [entry.description, f"licence: {entry.licence}"]
            facts += [entry.attribution] if entry.attribution else []
        parts.append(_cell("; ".join(facts)))
    files = run_json.get("data")
    rows = [
        (Path(str(file.get("file"))).name, file.get("bytes"), file.get("sha256"))
        for file in (files if isinstance(files, list) else [])
        if isinstance(file, dict)
    ]
    return [*parts, _table([("file", "bytes", "SHA-256"), *rows])] if rows else parts


def _scores(reports: Reports) -> str:
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
    """Return a Markdown table, whose header is the first row."""
    head, *others = ([_cell(cell) for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *others))


def _cell(value: object) -> str:
    """Escape the characters that have a meaning in Markdown text or tables."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", one_line(str(value)).replace("\t", " "))


def _yaml(tree: object) -> str:
    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=1000))
