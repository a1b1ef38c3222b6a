"""`nmt eval`: how good the translations are."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from nmt.cli import search_flags
from nmt.cli.command import Json, say
from nmt.cli.config_option import SetSearch
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.evaluation.score_report import EvalReport


def evaluate(
    bleu: Annotated[bool, Option("--bleu", help="BLEU (the default).")] = False,
    chrf: Annotated[bool, Option("--chrf", help="chrF2.")] = False,
    ter: Annotated[bool, Option("--ter", help="TER (lower is better).")] = False,
    multi30k_style: Annotated[
        bool, Option("--multi30k-style", help="The Multi30k papers' tokenised BLEU.")
    ] = False,
    run: search_flags.Runs = None,
    weights: search_flags.Weights = None,
    checkpoint: search_flags.Checkpoint = None,
    split: Annotated[
        str | None,
        Option(
            help="test, valid, train, or another split of the run's corpus.", show_default="test"
        ),
    ] = None,
    src: Annotated[Path | None, Option(help="Source text, one sentence a line.")] = None,
    ref: Annotated[
        list[Path] | None, Option(help="Reference translation of the source; repeat for several.")
    ] = None,
    hyp: Annotated[
        Path | None, Option(help="Score this translation; nothing is translated.")
    ] = None,
    baseline: Annotated[
        Path | None, Option(help="An earlier translation, for a paired bootstrap test.")
    ] = None,
    lang: Annotated[
        str | None,
        Option(help="Target language.", show_default="the run's, or the ending of --ref"),
    ] = None,
    tokenize: Annotated[
        str | None,
        Option(
            help="BLEU's tokenisation: 13a, intl, char, none, zh, ja-mecab or ko-mecab.",
            show_default="the run's; zh, ja-mecab and ko-mecab for their languages, else 13a",
        ),
    ] = None,
    as_is: Annotated[
        bool, Option("--as-is", help="Leave typography and Unicode form of both sides unaltered.")
    ] = False,
    beam: search_flags.Beam = None,
    length_penalty: search_flags.LengthPenalty = None,
    mbr: search_flags.MBR = None,
    batch_size: search_flags.BatchSize = None,
    device: search_flags.Device = None,
    int8: search_flags.Int8 = False,
    out: Annotated[Path | None, Option(help="Write the translations here too.")] = None,
    fail_under: Annotated[
        float | None, Option(min=0, max=100, help="Exit with code 1 where BLEU is lower.")
    ] = None,
    as_json: Json = False,
    no_bootstrap: Annotated[bool, Option("--no-bootstrap", help="No confidence interval.")] = False,
    set_: SetSearch = None,
) -> None:
    """Score translations that a run makes, or that were made elsewhere.

    Scores are sacreBLEU's, with signature and 95 % bootstrap interval.

    The run keeps them in eval/NAME.json, with its translations beside them.
    """
    chosen = {"bleu": bleu, "chrf": chrf, "ter": ter, "multi30k": multi30k_style}
    metrics = tuple(name for name, is_chosen in chosen.items() if is_chosen) or ("bleu",)
    if fail_under is not None and not {"bleu", "multi30k"} & set(metrics):
        raise ConfigError("--fail-under: it is about BLEU, so give --bleu with it")
    if out is not None:
        if hyp is not None:
            raise ConfigError("--out: no translation is made with --hyp")
        if str(out) == "-":
            raise ConfigError("--out: got -, allowed: a file; stdout is for the scores")
        if not out.parent.is_dir():
            raise ConfigError(f"--out: no such folder: {out.parent}")
    search_flags.check_search_keys(set_ or ())
    search = {
        "beam": beam,
        "length_penalty": length_penalty,
        "mbr.samples": mbr,
        "batch_size": batch_size,
    }

    from nmt.cli.eval_request import EvalRequest, perform
    from nmt.cli.process import configure_process
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.metrics import DEFAULT_BOOTSTRAP
    from nmt.storage.output import write_lines

    n_bootstrap = 0 if no_bootstrap else DEFAULT_BOOTSTRAP
    request = EvalRequest(
        scoring=Scoring(lang or "", metrics, n_bootstrap, tokenize, as_is),
        runs=tuple(run or ()),
        weights=search_flags.parse_weights(weights, max(1, len(run or ()))),
        checkpoint=checkpoint,
        split=split,
        src=src,
        refs=tuple(ref or ()),
        hyp=hyp,
        baseline=baseline,
        lang=lang,
        search={name: value for name, value in search.items() if value is not None},
        overrides=tuple(set_ or ()),
        device=device,
        int8=int8,
        out=out,
    )
    configure_process()
    report = perform(request)
    if out is not None:
        write_lines(report.evaluation.hyp_texts, out)
    _show(report, as_json)
    _keep(report)
    scores = report.evaluation.scores
    judged = scores.get("bleu") or scores.get("multi30k")
    if fail_under is not None and judged and judged.score < fail_under:
        say(f"{judged.name} {judged.score:.2f} is under --fail-under {fail_under}")
        raise typer.Exit(1)


def _show(report: "EvalReport", as_json: bool) -> None:
    """Print scores on stdout, and notes on stderr."""
    from nmt.evaluation.score_report import comparison_line, length_line, score_line, speed_line

    if as_json:
        typer.echo(json.dumps(report.as_json(), indent=1, ensure_ascii=False))
        return
    for line in filter(None, (speed_line(report.evaluation), length_line(report.evaluation))):
        say(line)
    for metric, result in report.evaluation.scores.items():
        typer.echo(score_line(result))
        if metric in report.comparisons:
            typer.echo(comparison_line(report.comparisons[metric], report.about["baseline"]))


def _keep(report: "EvalReport") -> None:
    """Write the report into the run, if there is one; a failure is only noted on stderr."""
    run = report.about.get("run")
    if run is None:
        return
    try:
        kept = report.keep(Path(str(run)))
    except DataError as error:
        say(f"scores are not kept in the run: {error}")
        return
    say(f"scores: {kept.path}")
    if kept.dropped:
        names = ", ".join(kept.dropped)
        say(f"dropped there: {names}, of translations that have changed since")
