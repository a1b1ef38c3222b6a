"""A run as one HTML page that loads nothing and has no script: curves, samples, card.

docs/report.md describes it.
"""

import base64
import html
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.config import dump_config
from nmt.errors import counted
from nmt.evaluation.metrics import title_of
from nmt.explain.curve import all_panels, draw_panels
from nmt.explain.map_style import picture
from nmt.explain.page import html_head
from nmt.explain.static import map_svg
from nmt.explain.web import map_style, web_file
from nmt.runs.card import CARD
from nmt.runs.metrics import MetricsLine, best_of, metrics_of, points
from nmt.runs.trained_run import TrainedRun
from nmt.storage.atomic import utf8
from nmt.storage.output import atomic_output
from nmt.storage.terminal import escape_controls
from nmt.training.samples import KeptSample, read_samples
from nmt.training.validation import evenly
from nmt.translation.words import AttentionTable
from nmt.types import FilePath

_MOST_STEPS = 6  # validations whose samples are shown


def write_report(run: TrainedRun, path: FilePath, force: bool = False) -> None:
    """Write the page of a run, which may still be trained, to `path`, new unless `force`.

    Raises CheckpointError for a run without a training loss yet, or whose files are damaged;
    DataError if `path` cannot be written.
    """
    parts = list(_page(run))  # before the file is opened: an error leaves it as it was
    with atomic_output(Path(path), force) as stream:
        stream.writelines(map(utf8, parts))


def _page(run: TrainedRun) -> Iterator[str]:
    lines = metrics_of(run.path, trained=True)
    style = f"{map_style()}{web_file('report.css')}"
    yield html_head(f"{run.config.name}: report of a run", style)
    yield f'<body class="nmt-attention">\n<h1>{_text(run.config.name)}</h1>\n'
    yield from _curves(run, lines)
    yield from _samples(run, lines)
    yield from _card(run)
    yield "</body>\n</html>\n"


def _curves(run: TrainedRun, lines: Sequence[MetricsLine]) -> Iterator[str]:
    validation = points(lines, "valid", "loss")
    best = best_of(lines, run.config.valid.metric)
    last = max(line.step for line in lines)
    facts = [f"{counted(last, 'update')}, {counted(len(validation), 'validation')}"]
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
        yield "<p>The run has kept no sample translations.</p>\n"
        return
    selection = [*evenly(by_step[:-1], _MOST_STEPS - 1), by_step[-1]]
    yield "<section>\n<h2>Samples of validations</h2>\n"
    latest = {sample.record.sentence: sample for sample in by_step[-1][1]}
    for number, sample in latest.items():
        yield f'<article><h3 dir="auto">{_text(sample.record.source_text)}</h3>\n'
        yield f'<p>reference: <bdi>{_text(sample.reference)}</bdi></p>\n<div class="maps">'
        for step, samples in selection:
            for other in samples:
                if other.record.sentence == number:
                    yield _figure(step, other)
        yield "</div></article>\n"
    yield "</section>\n"


def _figure(step: int, sample: KeptSample) -> str:
    record = sample.record
    table = AttentionTable(record.target.words, record.source.words, record.weights)
    return (
        f"<figure><figcaption>update {step:,}: <bdi>{_text(record.target_text)}</bdi></figcaption>"
        f'<div class="nmt-scroll">{map_svg(table)}</div></figure>\n'
    )


def _card(run: TrainedRun) -> Iterator[str]:
    card = run.directory.read_json(CARD)
    yield "<section>\n<h2>Card</h2>\n"
    text = json.dumps(card, indent=1, ensure_ascii=False)
    yield f"<pre>{_text(text)}</pre>\n<h2>Configuration</h2>\n"
    yield f"<pre>{_text(dump_config(run.config))}</pre>\n</section>\n"


def _text(text: str) -> str:
    """Foreign text as HTML, its control characters shown as such."""
    return html.escape(escape_controls(text))
