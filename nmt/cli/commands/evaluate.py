"""`nmt eval`: score translations by BLEU and other metrics."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from nmt.cli.shared.messages import complain, print_json, say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, RerankOptions, SearchOptions
from nmt.cli.shared.options import Json, OutFile
from nmt.cli.shared.scoring import ScoreOptions, note_untested, score_file, translate_test_set
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.evaluation.evaluate import Evaluation
    from nmt.evaluation.examples import TestSet
    from nmt.evaluation.metric import Scoring
    from nmt.evaluation.score_report import EvalReport
    from nmt.evaluation.significance import Comparison
    from nmt.runs.trained_run import TrainedRun
    from nmt.search.search_config import SearchConfig
    from nmt.translation.translator import Translator


def evaluate(
    *,
    options: ScoreOptions,
    hyp: Annotated[Path | None, "File of translations to score, instead of translating."] = None,
    baseline: Annotated[
        Path | None, "Earlier translations, or an evaluated run, for a paired bootstrap test."
    ] = None,
    no_bootstrap: Annotated[bool, "Compute no confidence intervals."] = False,
    fail_under: Annotated[
        float | None, Option(min=0, max=100, help="Exit with code 1 if BLEU is lower.")
    ] = None,
    models: ModelOptions,
    rerank: RerankOptions,
    search: SearchOptions,
    compute: ComputeOptions,
    out: OutFile = None,
    as_json: Json = False,
) -> None:
    """Score the translations of a run, or of a file.

    sacreBLEU computes all scores except COMET, with signatures and 95 % bootstrap intervals.

    Scores are saved as eval/NAME.json in the run, next to the translations. --out also writes the
    translations to a file. With --out - they go to stdout, and the scores to stderr.
    """
    if fail_under is not None and not {"bleu", "multi30k"} & {*(options.metrics() or ("bleu",))}:
        raise ConfigError("--fail-under: applies to BLEU only; give --bleu too")
    if baseline and no_bootstrap:
        raise ConfigError("--baseline: needs the bootstrap, so leave out --no-bootstrap")
    is_set = {search != SearchOptions(), compute != ComputeOptions(), rerank != RerankOptions()}
    if hyp and (out or True in is_set or models.checkpoint or (options.ref and models.run)):
        raise ConfigError("--hyp gives the translation: --out and model options do not apply")
    if str(out) == "-" and as_json:
        raise ConfigError("--out: got -, allowed with --json: a file; stdout is for the scores")

    from nmt.evaluation.metric import DEFAULT_BOOTSTRAP
    from nmt.evaluation.score_report import report_name
    from nmt.storage.output import write_lines

    keys = search.by_key()
    runs = [] if hyp and options.ref else models.open(compute, {**keys, "n_best": 1})
    config = runs[0].config if runs else None
    n_bootstrap = 0 if no_bootstrap else DEFAULT_BOOTSTRAP
    scoring = options.scoring(config, ("bleu",), n_bootstrap, compute.device)
    test_set = options.test_set(config, hyp is not None)
    choices = [f"hyp-{hyp.name}"] if hyp else []
    if config is not None:
        choices += _choices(models, rerank, compute, keys, config.search)
        test_set.about["run"] = runs[0].name
    name = report_name(test_set.name, choices)
    if hyp:
        evaluation = score_file(hyp, test_set, scoring)
    else:
        translator = models.load(runs, compute, rerank=rerank)
        test_set.about.update(_settings(translator, runs, models, rerank))
        evaluation = translate_test_set(translator, test_set, scoring)
    report = _report(name, scoring, evaluation, test_set, hyp, baseline)
    if out is not None:
        write_lines(evaluation.hyp_texts, out)
    _show(report, as_json, on_stderr=str(out) == "-")
    if runs and runs[0].archive is None:
        _keep(report, runs[0].path)
    elif runs:
        say(f"scores are not saved: {runs[0].name} is a packed run")
    bleu = evaluation.scores.get("bleu") or evaluation.scores.get("multi30k")
    if fail_under is not None and bleu and bleu.score < fail_under:
        complain(f"{bleu.name} {bleu.score:.2f} is under --fail-under {fail_under}")
        raise typer.Exit(1)


def _choices(
    models: ModelOptions,
    rerank: RerankOptions,
    compute: ComputeOptions,
    keys: Mapping[str, object],
    search: "SearchConfig",
) -> Iterator[str]:
    """Yield the settings that differ from the run's defaults, as parts of a report's name."""
    if models.checkpoint not in (None, "best"):
        yield str(models.checkpoint)
    yield from (f"with-{run.name}" for run in (models.run or ())[1:])
    if models.weights:
        yield f"weights{_joined(models.weights)}"
    yield from (f"rerank-{run.name}" for run in rerank.rerank or ())
    if rerank.rerank_weights:
        yield f"rerank-weights{_joined(rerank.rerank_weights)}"
    override_keys = [override.key.removeprefix("search.") for override in compute.set_ or ()]
    for key in dict.fromkeys([*override_keys, *keys]):
        if key != "batch_size":  # the batch size changes no translation
            value = functools.reduce(getattr, key.split("."), search)
            yield f"{key.removesuffix('.samples')}{value}"
    if compute.int8:
        yield "int8"


def _joined(numbers: list[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _settings(
    translator: "Translator", runs: "list[TrainedRun]", models: ModelOptions, rerank: RerankOptions
) -> dict[str, object]:
    settings: dict[str, object] = {}
    if len(runs) > 1:
        settings |= {"ensemble": [run.name for run in runs], "weights": models.weights}
    settings |= {
        "checkpoint": models.checkpoint or "best",
        "step": translator.step,
        "search": translator.search.model_dump(mode="json"),
        "device": str(translator.device),
        "int8": translator.int8,
    }
    if rerank.rerank:
        settings["rerank"] = [str(path) for path in rerank.rerank]
        settings["rerank_weights"] = [reranker.weight for reranker in translator.rerankers]
    return settings


def _report(
    name: str,
    scoring: "Scoring",
    evaluation: "Evaluation",
    test_set: "TestSet",
    hyp: Path | None,
    baseline: Path | None,
) -> "EvalReport":
    """Return the report `name`, with comparisons if there is a baseline."""
    from nmt.evaluation.evaluate import compare_evaluations
    from nmt.evaluation.examples import read_translations
    from nmt.evaluation.score_report import EvalReport, checksum, report_path
    from nmt.evaluation.typography import make_comparable

    examples = evaluation.texts.examples
    sums = {
        "hypotheses": checksum(evaluation.hyp_texts),
        "references": checksum([example.ref_texts for example in examples]),
        "baseline": None,
    }
    comparisons: dict[str, Comparison] = {}
    if baseline:
        # A run keeps translations next to the report, under the same name.
        file = report_path(baseline, name).with_suffix(".txt") if baseline.is_dir() else baseline
        lines = read_translations(file, len(examples), test_set.corpus)
        sums["baseline"] = checksum(lines)
        earlier = make_comparable(lines, examples, scoring)
        comparisons = compare_evaluations(earlier, evaluation.texts, scoring)
        for note in earlier.notes():
            say(f"{baseline}: {note}")
        note_untested(evaluation, comparisons)
    about = {
        **test_set.about,
        "hyp": str(hyp) if hyp else None,
        "baseline": str(baseline) if baseline else None,
        "tgt_lang": scoring.tgt_lang,
        "sha256": sums,
    }
    return EvalReport(name, evaluation, comparisons, about)


def _show(report: "EvalReport", as_json: bool, on_stderr: bool) -> None:
    """Print scores on stdout, or on stderr if stdout has translations, and notes on stderr."""
    from nmt.evaluation.counts import describe_counts
    from nmt.evaluation.score_report import comparison_line, length_line, score_line, speed_line

    if as_json:
        print_json(report.as_json())
        return
    print_line = complain if on_stderr else typer.echo
    evaluation = report.evaluation
    notes = speed_line(evaluation), length_line(evaluation), *describe_counts(evaluation.counts)
    for line in filter(None, notes):
        say(line)
    for metric, result in evaluation.scores.items():
        print_line(score_line(result))
        if metric in report.comparisons:
            print_line(comparison_line(report.comparisons[metric], report.about["baseline"]))


def _keep(report: "EvalReport", run: Path) -> None:
    """Save the report in its run. A failure gives only a note on stderr."""
    from nmt.evaluation.score_report import report_path

    try:
        dropped = report.save(run)
    except DataError as error:
        say(f"scores are not saved in the run: {error}")
        return
    say(f"scores: {report_path(run, report.name)}")
    if dropped:
        say(f"removed from the run: {', '.join(dropped)}, scores of translations that have changed")
