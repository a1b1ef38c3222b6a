"""`nmt compare`: several runs or translations of one test set side by side."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.shared.messages import say
from nmt.cli.shared.models import ComputeOptions, check_checkpoint, check_search_keys, run_at
from nmt.cli.shared.options import Json
from nmt.cli.shared.scoring import ScoreOptions, score_file, translate_test_set
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.data.sources import DataConfig
    from nmt.evaluation.comparison import Change, Frequencies, System
    from nmt.evaluation.evaluate import Bucket, Evaluation
    from nmt.evaluation.metric import Scoring
    from nmt.runs.trained_run import TrainedRun


def compare(
    systems: Annotated[
        list[Path],
        typer.Argument(
            help="Runs (RUN@last for another checkpoint than best) and files of translations."
        ),
    ],
    *,
    options: ScoreOptions,
    changes: Annotated[
        int, typer.Option(min=0, help="Sentences to show: so many gains, and so many losses.")
    ] = 5,
    compute: ComputeOptions,
    as_json: Json = False,
) -> None:
    """Compare runs, or translations of others, side by side.

    All are compared with the first: scores with intervals, two paired tests, BLEU by length and by
    word frequency, the sentences that changed most. The metrics are BLEU and chrF by default.

    A run translates the test set of the first run as `nmt eval` does. Frequencies are those of its
    training data.
    """
    from nmt.evaluation.comparison import compare_systems
    from nmt.evaluation.metric import DEFAULT_BOOTSTRAP

    if len(systems) < 2 or len(set(systems)) < len(systems):
        got = ", ".join(map(str, systems))
        raise ConfigError(f"compare: got {got}, allowed: two or more different systems")
    check_search_keys(compute.set_ or ())
    runs = _open_runs(systems, options, compute)
    config = next((run.config for run, _ in runs.values()), None)
    scoring = options.scoring(config, ("bleu", "chrf"), DEFAULT_BOOTSTRAP, compute.device)
    test_set = options.test_set(config, has_hypotheses=not runs)
    evaluations: dict[str, Evaluation] = {}
    for system in systems:
        if system in runs:
            run, checkpoint = runs[system]
            translator = compute.load([run], checkpoint)
            evaluations[str(system)] = translate_test_set(translator, test_set, scoring)
        else:
            evaluations[str(system)] = score_file(system, test_set, scoring)
    frequencies = None if config is None else _frequencies(config.data, scoring)
    compared = compare_systems(evaluations, scoring, frequencies, changes)
    if as_json:
        content = {"systems": [system.as_json() for system in compared]}
        typer.echo(json.dumps(content, indent=1, ensure_ascii=False))
        return
    for line in _lines(compared):
        typer.echo(line)


def _open_runs(
    systems: Sequence[Path], options: ScoreOptions, compute: ComputeOptions
) -> "dict[Path, tuple[TrainedRun, str | None]]":
    """Open the systems that are runs. Raises ConfigError for flags that do not fit them."""
    from nmt.runs.find import find_run
    from nmt.runs.trained_run import TrainedRun

    named = {system: place for system in systems if (place := run_at(system)) is not None}
    if not (named or options.ref):
        raise ConfigError("compare: give --ref, or a run, whose test set is then translated")
    if named and options.ref and not options.src:
        raise ConfigError("--ref: a run needs its source to translate; give --src")
    if not named and compute != ComputeOptions():
        default = vars(ComputeOptions())
        name = next(name for name, value in vars(compute).items() if value != default[name])
        raise ConfigError(f"`{name}`: all translations are given, so it does not apply")
    for folder, checkpoint in named.values():
        check_checkpoint(find_run(folder), checkpoint)
    return {
        system: (
            compute.with_search(TrainedRun.open(folder), {"n_best": 1}),
            checkpoint,
        )
        for system, (folder, checkpoint) in named.items()
    }


def _frequencies(data: "DataConfig", scoring: "Scoring") -> "Frequencies | None":
    """The word frequencies in a run's training data; None, with a note, if it cannot be read."""
    from nmt.data.corpora import stream_split
    from nmt.evaluation.comparison import word_frequencies, words_of
    from nmt.evaluation.examples import split_named

    try:
        pairs = stream_split(split_named(data, "train"), data)
        return word_frequencies(pairs, words_of(scoring))
    except DataError as error:
        say(f"no frequencies of words: {error}")
        return None


Cells = list[tuple[str, int, float]]
"""A range, the number of its sentences or words, and a score."""


def _lines(systems: "Sequence[System]") -> Iterator[str]:
    """All tables, a row for each system, and then the sentences that changed most."""
    from nmt.lab.numbers import columns

    yield from _score_lines(systems)
    lengths = [_cells(system.evaluation.by_length) for system in systems]
    rarest = [_cells(system.by_rarest_word) for system in systems]
    words = [[(b.label, b.n_words, b.f1) for b in system.f1_by_frequency] for system in systems]
    for title, cells in (
        ("BLEU by words of the source (sentences)", lengths),
        ("BLEU by the training frequency of the rarest source word (sentences)", rarest),
        ("F1 of target words by their training frequency (words of the reference)", words),
    ):
        if len(cells[0]) > 1:
            yield from ("", title, *columns(list(_rows(systems, cells))))
    for system in systems[1:]:
        for change in system.changes:
            yield from _change_lines(systems[0].name, system.name, change)


def _cells(buckets: "Sequence[Bucket]") -> Cells:
    return [(bucket.label, bucket.n_sentences, bucket.bleu) for bucket in buckets]


def _rows(systems: "Sequence[System]", cells: Sequence[Cells]) -> Iterator[list[str]]:
    """A title row with a cell for each range that any system has, then a row for each system."""
    heads = {label: number for row in cells for label, number, _ in row}
    yield ["", *(f"{label} ({number:,})" for label, number in heads.items())]
    for system, row in zip(systems, cells, strict=True):
        values = {label: f"{value:.1f}" for label, _, value in row}
        yield [system.name, *(values.get(label, "-") for label in heads)]


def _score_lines(systems: "Sequence[System]") -> Iterator[str]:
    from nmt.lab.numbers import columns

    for index, (metric, first) in enumerate(systems[0].evaluation.scores.items()):
        if index:
            yield ""
        rows = [
            [first.name, "score", "95 % interval", "difference", "p, bootstrap", "randomisation"]
        ]
        for system in systems:
            own = system.evaluation.scores[metric]
            row = [system.name, f"{own.score:.2f}", f"{own.low:.2f} to {own.high:.2f}", "", "", ""]
            if test := system.against_first.get(metric):
                p_values = (f"{p:.4f}" for p in (test.p_value, test.p_randomisation))
                row[3:] = [f"{own.score - first.score:+.2f}", *p_values]
            rows.append(row)
        yield from (*columns(rows), first.signature)


def _change_lines(first: str, name: str, change: "Change") -> Iterator[str]:
    yield from ("", f"line {change.line}: chrF2 {change.gain:+.1f}")
    texts = [("source", change.src_text)] if change.src_text else []
    texts += [("reference", ref) for ref in change.ref_texts]
    for label, text in (*texts, (first, change.first_text), (name, change.text)):
        yield f"  {label:<{max(len(first), len(name), 9)}}  {text}"
