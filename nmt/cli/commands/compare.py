"""`nmt compare`: several runs or translations of one test set side by side."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.shared.models import ComputeOptions
from nmt.cli.shared.opening import check_checkpoint, run_at
from nmt.cli.shared.options import Json
from nmt.cli.shared.scoring import ScoreOptions, score_file, translate_test_set
from nmt.cli.shared.search import check_search_keys
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.evaluation.comparison import Change, System
    from nmt.evaluation.evaluate import Evaluation
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

    All are compared with the first: scores with intervals, two paired tests, BLEU by length, the
    sentences that changed most. The metrics are BLEU and chrF by default.

    A run translates the test set of the first run as `nmt eval` does.
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
    compared = compare_systems(evaluations, scoring, changes)
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


def _lines(systems: "Sequence[System]") -> Iterator[str]:
    """Yield all tables, a row for each system, and then the sentences that changed most."""
    from nmt.lab.numbers import columns

    yield from _score_lines(systems)
    if len(systems[0].evaluation.by_length) > 1:
        yield from ("", "BLEU by words of the source (sentences)", *columns(_length_rows(systems)))
    for system in systems[1:]:
        for change in system.changes:
            yield from _change_lines(systems[0].name, system.name, change)


def _length_rows(systems: "Sequence[System]") -> list[list[str]]:
    """Return a title row with a cell for each bucket, then a row for each system."""
    rows = [["", *(f"{b.label} ({b.n_sentences:,})" for b in systems[0].evaluation.by_length)]]
    for system in systems:
        rows.append([system.name, *(f"{b.bleu:.1f}" for b in system.evaluation.by_length)])
    return rows


def _score_lines(systems: "Sequence[System]") -> Iterator[str]:
    from nmt.lab.numbers import columns

    for index, (metric, first) in enumerate(systems[0].evaluation.scores.items()):
        if index:
            yield ""
        rows = [
            [first.name, "score", "95 % interval", "difference", "p, bootstrap", "randomisation"]
        ]
        for system in systems:
            result = system.evaluation.scores[metric]
            row = [
                system.name,
                f"{result.score:.2f}",
                f"{result.low:.2f} to {result.high:.2f}",
                "",
                "",
                "",
            ]
            if test := system.against_first.get(metric):
                p_values = (f"{p:.4f}" for p in (test.p_value, test.p_randomisation))
                row[3:] = [f"{result.score - first.score:+.2f}", *p_values]
            rows.append(row)
        yield from (*columns(rows), first.signature)


def _change_lines(first: str, name: str, change: "Change") -> Iterator[str]:
    yield from ("", f"line {change.line}: chrF2 {change.gain:+.1f}")
    texts = [("source", change.src_text)] if change.src_text else []
    texts += [("reference", ref) for ref in change.ref_texts]
    for label, text in (*texts, (first, change.first_text), (name, change.text)):
        yield f"  {label:<{max(len(first), len(name), 9)}}  {text}"
