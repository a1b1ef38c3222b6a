"""`nmt compare`: scores of several runs or translations of one test set, side by side."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from nmt.cli.shared.messages import print_json, say
from nmt.cli.shared.models import ComputeOptions
from nmt.cli.shared.options import Json
from nmt.cli.shared.scoring import ScoreOptions, note_untested, score_file, translate_test_set
from nmt.errors import ConfigError, DataError, missing_file_message

if TYPE_CHECKING:
    from nmt.evaluation.comparison import System
    from nmt.runs.trained_run import TrainedRun


def compare(
    systems: Annotated[
        list[Path],
        typer.Argument(
            help="Runs (RUN@last for a checkpoint other than best) and files of translations."
        ),
    ],
    *,
    options: ScoreOptions,
    compute: ComputeOptions,
    plot: Annotated[
        Path | None,
        Option(writable=True, help="File for a picture of BLEU by the length of the source."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare the scores of runs, or of files of translations, side by side.

    All systems are compared with the first one, by scores with intervals, two paired tests, BLEU by
    length, and the sentences that changed most. The default metrics are BLEU and chrF.

    Each run translates the test set of the first run, or --src, as `nmt eval` does.
    """
    from nmt.evaluation.comparison import compare_systems
    from nmt.evaluation.metric import DEFAULT_BOOTSTRAP

    if len(systems) < 2 or len(set(systems)) < len(systems):
        got = ", ".join(map(str, systems))
        raise ConfigError(f"compare: got {got}, allowed: two or more different systems")
    if plot is not None:
        from nmt.explain.map_style import format_of

        format_of(plot)
    runs = _open_runs(systems, options, compute)
    config = next((run.config for run, _ in runs.values()), None)
    scoring = options.scoring(config, ("bleu", "chrf"), DEFAULT_BOOTSTRAP, compute.device)
    test_set = options.test_set(config, has_hypotheses=not runs)
    evaluations = {}
    for system in systems:
        if system in runs:
            run, checkpoint = runs[system]
            translator = compute.load([run], checkpoint)
            evaluations[str(system)] = translate_test_set(translator, test_set, scoring)
        else:
            evaluations[str(system)] = score_file(system, test_set, scoring)
    results = compare_systems(evaluations, scoring)
    note_untested(results[-1].evaluation, results[-1].against_first)
    if plot is not None:
        from nmt.explain.by_length import draw_by_length
        from nmt.explain.heatmap import write_map

        by_length = {name: evaluation.by_length for name, evaluation in evaluations.items()}
        if not all(by_length.values()):  # without BLEU, or without the source texts
            raise ConfigError("--plot: got no BLEU by length, which requires --bleu and --src")
        write_map(draw_by_length(by_length), plot)
        say(f"wrote {plot}")
    if as_json:
        print_json({"systems": [system.as_json() for system in results]})
        return
    typer.echo("\n".join(_lines(results)))


def _open_runs(
    systems: Sequence[Path], options: ScoreOptions, compute: ComputeOptions
) -> "dict[Path, tuple[TrainedRun, str | None]]":
    """Open the systems that are runs.

    Raises DataError if any other system is not a file, and ConfigError for unsuitable options.
    """
    from nmt.corpora.text_files import archive_of
    from nmt.runs.find import find_run, is_run, split_checkpoint
    from nmt.runs.trained_run import TrainedRun

    paths = {}
    for system in systems:
        path, checkpoint = split_checkpoint(system)
        if path.is_dir() or is_run(path):
            paths[system] = path, checkpoint
        elif not archive_of(system).exists():
            raise DataError(missing_file_message(system))
    if not (paths or options.ref):
        raise ConfigError("compare: got only files, allowed: files with --ref, or a run")
    if paths and options.ref and not options.src:
        raise ConfigError("--ref requires --src if a system is a run")
    if not paths and compute != ComputeOptions():
        raise ConfigError("compare: got only files, but options of models require a run")
    runs = {}
    for system, (path, checkpoint) in paths.items():
        run = TrainedRun.open(find_run(path))
        run.directory.checkpoint_folder.find(checkpoint or "best")
        runs[system] = compute.with_search(run, {"n_best": 1}), checkpoint
    return runs


def _lines(systems: "Sequence[System]") -> Iterator[str]:
    """Yield the tables, which have a row for each system, and the sentences that changed most."""
    from nmt.evaluation.counts import describe_counts
    from nmt.lab.numbers import align_columns

    first = systems[0].evaluation
    for metric, result in first.scores.items():
        yield from (*align_columns(_score_rows(systems, metric)), result.signature, "")
    if len(first.by_length) > 1:
        rows = [["", *(f"{b.label} ({b.n_sentences:,})" for b in first.by_length)]]
        for system in systems:
            rows.append([system.name, *(f"{b.bleu:.1f}" for b in system.evaluation.by_length)])
        yield from ("BLEU by words of the source (sentences)", *align_columns(rows), "")
    faults = [f"{s.name}: {line}" for s in systems for line in describe_counts(s.evaluation.counts)]
    yield from [*faults, ""] if faults else []
    for system in systems[1:]:
        for change in system.changes:
            yield f"line {change.line}: chrF2 {change.gain:+.1f}"
            texts = [("source", change.src_text)] if change.src_text else []
            texts += [("reference", ref) for ref in change.ref_texts]
            texts += [(systems[0].name, change.first_text), (system.name, change.text)]
            width = max(len(label) for label, _ in texts)
            yield from (f"  {label:<{width}}  {text}" for label, text in texts)
            yield ""


def _score_rows(systems: "Sequence[System]", metric: str) -> list[list[str]]:
    """Return a title row, then a row for each system; the first has no tests."""
    first = systems[0].evaluation.scores[metric]
    rows = [[first.name, "score", "95 % interval", "difference", "p, bootstrap", "randomisation"]]
    for system in systems:
        result = system.evaluation.scores[metric]
        interval = f"{result.low:.2f} to {result.high:.2f}"
        row = [system.name, f"{result.score:.2f}", interval, "", "", ""]
        if test := system.against_first.get(metric):
            p_values = (f"{p:.4f}" for p in (test.p_value, test.p_randomisation))
            row[3:] = [f"{result.score - first.score:+.2f}", *p_values]
        rows.append(row)
    return rows
