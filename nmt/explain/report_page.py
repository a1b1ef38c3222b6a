"""A run as one self-contained HTML page: curves, samples and card (docs/report.md)."""

import base64
import html
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.config import dump_config
from nmt.errors import format_count
from nmt.evaluation.attention_health import health_of
from nmt.evaluation.metrics import METRICS, title_of
from nmt.explain.curve import all_panels, draw_panels
from nmt.explain.map_style import picture
from nmt.explain.page import html_head
from nmt.explain.static import map_svg
from nmt.explain.web import map_style, web_file
from nmt.runs.card import CARD
from nmt.runs.metrics import MetricsLine, best_of, metrics_of, points
from nmt.runs.trained_run import TrainedRun
from nmt.storage.atomic import encode_utf8
from nmt.storage.output import atomic_output
from nmt.storage.terminal import escape_controls
from nmt.training.samples import read_samples
from nmt.training.validation import evenly_spaced
from nmt.translation.record import AttentionRecord
from nmt.translation.words import AttentionTable
from nmt.types import FilePath

_MAX_VALIDATIONS = 30
"""The largest number of validations whose samples the page shows."""


def write_report(run: TrainedRun, path: FilePath, force: bool = False) -> None:
    """Write the page of a run to `path`, which must be new unless `force`.

    The run may still be in training. Raises CheckpointError if it has no training loss yet or if
    its files are damaged, and the errors of `atomic_output`.
    """
    parts = list(_page(run))  # all of them first, so that a pipe gets nothing if there is an error
    with atomic_output(Path(path), force) as stream:
        stream.writelines(map(encode_utf8, parts))


def _page(run: TrainedRun) -> Iterator[str]:
    lines = metrics_of(run.path, require_loss=True)
    style = f"{map_style()}{web_file('report.css')}"
    script = web_file("report.js")
    yield html_head(f"{run.config.name}: report of a run", style, script)
    yield f'<body class="nmt-attention">\n<h1>{_text(run.config.name)}</h1>\n'
    yield from _curves(run, lines)
    yield from _samples(run, lines)
    card = json.dumps(run.directory.read_json(CARD), indent=1, ensure_ascii=False)
    yield f"<section>\n<h2>Card</h2>\n<pre>{_text(card)}</pre>\n<h2>Configuration</h2>\n"
    yield f"<pre>{_text(dump_config(run.config))}</pre>\n</section>\n"
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _curves(run: TrainedRun, lines: Sequence[MetricsLine]) -> Iterator[str]:
    validation = points(lines, "valid", "loss")
    best = best_of(lines, run.config.valid.metric)
    last = max(line.step for line in lines)
    facts = [f"{format_count(last, 'update')}, {format_count(len(validation), 'validation')}"]
    if best is not None:
        name = title_of(run.config.valid.metric)
        facts.append(f"best {name} {best[0]:.2f} at update {best[1]:,}")
    if len(validation):
        perplexity = math.exp(min(validation[:, 1].min(), 700))
        facts.append(f"lowest perplexity {perplexity:,.2f}")
    yield f"<p>{_text('; '.join(facts))}</p>\n<section>\n<h2>Curves</h2>\n"
    yield '<div class="curves">'
    for panel in all_panels(lines):
        svg = base64.b64encode(picture(draw_panels([panel], best), "svg")).decode()
        source = f"data:image/svg+xml;base64,{svg}"
        yield f'<img class="curve" alt="{_text(panel.title)}" src="{source}" />\n'
    yield "</div>\n</section>\n"


def _samples(run: TrainedRun, lines: Sequence[MetricsLine]) -> Iterator[str]:
    steps = sorted({line.step for line in lines if line.kind == "valid"})
    by_step = [(step, samples) for step in steps if (samples := read_samples(run.path, step))]
    if not by_step:
        yield "<p>The run has no sample translations.</p>\n"
        return
    selection = [*evenly_spaced(by_step[:-1], _MAX_VALIDATIONS - 1), by_step[-1]]
    yield "<section>\n<h2>Samples of validations</h2>\n"
    yield from _slider([step for step, _ in selection], lines)
    latest = {sample.record.sentence: sample for sample in by_step[-1][1]}
    for number, sample in latest.items():
        yield f'<article><h3 dir="auto">{_text(sample.record.source_text)}</h3>\n'
        yield f'<p>reference: <bdi>{_text(sample.reference)}</bdi></p>\n<div class="maps">'
        for position, (step, samples) in enumerate(selection):
            for other in samples:
                if other.record.sentence == number:
                    yield _figure(position, step, other.record)
        yield "</div></article>\n"
    yield "</section>\n"


def _slider(steps: Sequence[int], lines: Sequence[MetricsLine]) -> Iterator[str]:
    """Yield the slider, which is hidden without the script, and the scores of each validation."""
    last = len(steps) - 1
    yield '<div class="film"><label hidden>Validation <input id="validation" type="range" '
    yield f'min="0" max="{last}" value="{last}" /></label>\n'
    formats = {
        "loss": "loss {:.3f}",
        **{name: f"{title_of(name)} {{:.2f}}" for name in METRICS},
        "attention_entropy": "attention entropy {:.3f}",
    }
    records = {line.step: line.record for line in lines if line.kind == "valid"}
    for position, step in enumerate(steps):
        values = ((text, records[step].get(name)) for name, text in formats.items())
        scores = [text.format(value) for text, value in values if isinstance(value, float)]
        yield f'<p data-position="{position}">update {step:,}: {_text(", ".join(scores))}</p>\n'
    yield "</div>\n"


def _figure(position: int, step: int, record: AttentionRecord) -> str:
    """Return the translation and its map at one validation, with the entropy of the map."""
    table = AttentionTable(record.target.words, record.source.words, record.weights)
    weights = record.weights[:-1] if record.finished else record.weights
    has_entropy = len(weights) > 0 and weights.shape[1] > 1
    entropy = f" (entropy {health_of(weights).entropy:.2f})" if has_entropy else ""
    return (
        f'<figure data-position="{position}"><figcaption>update {step:,}: '
        f"<bdi>{_text(record.target_text)}</bdi>{entropy}</figcaption>"
        f'<div class="nmt-scroll">{map_svg(table)}</div></figure>\n'
    )


def _text(text: str) -> str:
    """Return untrusted text as HTML, with visible control characters."""
    return html.escape(escape_controls(text))
