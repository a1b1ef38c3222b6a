"""`nmt compare`: several runs or translations of one test set side by side."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.shared.command import Json, say
from nmt.cli.shared.config_option import SetKeys
from nmt.cli.shared.options import Language, Quiet, References, Source, Threads, split_option
from nmt.cli.shared.search_flags import (
    BatchSize,
    Device,
    Int8,
    check_checkpoint,
    check_search_keys,
    run_at,
)
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.cli.shared.eval_request import EvalRequest
    from nmt.evaluation.comparison import Frequencies
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.score_report import EvalReport


def compare(
    systems: Annotated[
        list[Path],
        typer.Argument(
            help="Runs (RUN@last for another checkpoint than best) and files of translations."
        ),
    ],
    split: Annotated[str | None, split_option("test")] = None,
    src: Source = None,
    ref: References = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="bleu, bleu-lc, chrf, chrf++, ter or multi30k; may be repeated.",
            show_default="bleu, chrf",
        ),
    ] = None,
    lang: Language = None,
    changes: Annotated[
        int, typer.Option(min=0, help="Sentences to show: so many gains, and so many losses.")
    ] = 5,
    batch_size: BatchSize = None,
    device: Device = None,
    threads: Threads = None,
    int8: Int8 = False,
    as_json: Json = False,
    set_: SetKeys = None,
    quiet: Quiet = False,
) -> None:
    """Compare runs, or translations of others, side by side.

    All are compared with the first: scores with intervals, two paired tests, BLEU by length and by
    word frequency, the sentences that changed most.

    A run translates the test set of the first run as `nmt eval` does. Frequencies are those of its
    training data.
    """
    from nmt.cli.commands.comparison_lines import comparison_lines
    from nmt.cli.shared.eval_request import EvalRequest
    from nmt.cli.shared.process import configure_process
    from nmt.evaluation.comparison import compare_systems
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.metrics import METRICS
    from nmt.runs.find import find_run
    from nmt.runs.trained_run import TrainedRun

    names = tuple(dict.fromkeys(metric or ("bleu", "chrf")))
    for name in names:
        if name not in METRICS:
            raise ConfigError(f"--metric: got '{name}', allowed: {', '.join(METRICS)}")
    if len(systems) < 2 or len(set(systems)) < len(systems):
        got = ", ".join(map(str, systems))
        raise ConfigError(f"compare: got {got}, allowed: two or more different systems")
    check_search_keys(set_ or ())
    configure_process(threads)
    runs = [run for run in map(run_at, systems) if run is not None]
    if not (runs or ref):
        raise ConfigError("compare: give --ref, or a run, whose test set is then translated")
    if runs and ref and not src:
        raise ConfigError("--ref: a run needs its source to translate; give --src")
    flags = {"--set": set_, "--batch-size": batch_size, "--device": device, "--int8": int8}
    if not runs and (unused := [flag for flag, value in flags.items() if value]):
        raise ConfigError(f"{unused[0]}: all translations are given, so it does not apply")
    for folder, checkpoint in runs:
        check_checkpoint(find_run(folder), checkpoint)
    given = EvalRequest(
        scoring=Scoring(lang or "", names),
        split=split,
        src=src,
        refs=tuple(ref or ()),
        lang=lang,
        search={} if batch_size is None else {"batch_size": batch_size},
        overrides=tuple(set_ or ()),
        device=device,
        int8=int8,
    )
    if runs and not src:
        given = replace(given, data=TrainedRun.open(runs[0][0]).config.data)
    reports = _reports(systems, given, runs[0][0] if runs else None)
    scoring = next(iter(reports.values())).scoring
    found = compare_systems(
        {name: report.evaluation for name, report in reports.items()},
        scoring,
        _frequencies(runs[0][0], scoring) if runs else None,
        changes,
    )
    if as_json:
        content = {"systems": [system.as_json() for system in found]}
        typer.echo(json.dumps(content, indent=1, ensure_ascii=False))
        return
    for line in comparison_lines(found):
        typer.echo(line)


def _reports(
    systems: Sequence[Path], given: "EvalRequest", first_run: Path | None
) -> "dict[str, EvalReport]":
    """The evaluation of each system, all scored as the first one is."""
    from nmt.cli.shared.eval_request import perform

    reports: dict[str, EvalReport] = {}
    for system in systems:
        found = run_at(system)
        if found is not None:
            request = replace(given, runs=(found[0],), checkpoint=found[1])
        else:  # a split belongs to a run, references do not
            runs = () if given.refs or first_run is None else (first_run,)
            unused = replace(given, search={}, overrides=(), device=None, int8=False)
            request = replace(unused, hyp=system, runs=runs)
        reports[str(system)] = report = perform(request)
        given = replace(given, scoring=report.scoring, lang=report.scoring.tgt_lang)
    return reports


def _frequencies(folder: Path, scoring: "Scoring") -> "Frequencies | None":
    """The word frequencies in a run's training data; None, with a note, if it cannot be read."""
    from nmt.data.corpora import stream_split
    from nmt.evaluation.comparison import word_frequencies, words_of
    from nmt.evaluation.examples import split_named
    from nmt.runs.trained_run import TrainedRun

    data = TrainedRun.open(folder).config.data
    try:
        pairs = stream_split(split_named(data, "train"), data)
        return word_frequencies(pairs, words_of(scoring))
    except DataError as error:
        say(f"no frequencies of words: {error}")
        return None
