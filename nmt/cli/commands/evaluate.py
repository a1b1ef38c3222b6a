"""`nmt eval`: how good the translations are."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from nmt.cli.commands.align import score_alignment
from nmt.cli.shared import search_flags
from nmt.cli.shared.command import Json, complain, say
from nmt.cli.shared.config_option import SetKeys
from nmt.cli.shared.options import (
    Force,
    Language,
    OutFile,
    Quiet,
    References,
    Source,
    Threads,
    split_option,
)
from nmt.errors import ConfigError, DataError
from nmt.types import MetricName

if TYPE_CHECKING:
    from nmt.evaluation.score_report import EvalReport


@search_flags.with_decoding
def evaluate(
    bleu: Annotated[bool, Option("--bleu", help="BLEU (the default).")] = False,
    bleu_lc: Annotated[bool, Option("--bleu-lc", help="BLEU of lower-cased texts.")] = False,
    chrf: Annotated[bool, Option("--chrf", help="chrF2.")] = False,
    chrf_words: Annotated[bool, Option("--chrf++", help="chrF2++: of words too.")] = False,
    ter: Annotated[bool, Option("--ter", help="TER (lower is better).")] = False,
    multi30k_style: Annotated[
        bool, Option("--multi30k-style", help="The Multi30k papers' tokenised BLEU.")
    ] = False,
    comet: Annotated[
        Path | None,
        Option(
            help="COMET by this checkpoint (model.ckpt), read by the package unbabel-comet.",
            show_default=False,
        ),
    ] = None,
    aer: Annotated[
        Path | None,
        Option(
            help="Gold word links: the AER of the run's alignment of --src and --ref, or of the "
            "alignment file --hyp."
        ),
    ] = None,
    run: search_flags.Runs = None,
    weights: search_flags.Weights = None,
    rerank: search_flags.Rerank = None,
    rerank_weights: search_flags.RerankWeights = None,
    checkpoint: search_flags.Checkpoint = None,
    split: Annotated[str | None, split_option("test")] = None,
    src: Source = None,
    ref: References = None,
    hyp: Annotated[
        Path | None, Option(help="Score this translation; nothing is translated.")
    ] = None,
    baseline: Annotated[
        Path | None,
        Option(help="An earlier translation, or an evaluated run, for a paired bootstrap test."),
    ] = None,
    lang: Language = None,
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
    decoding: search_flags.Decoding = search_flags.Decoding(),
    batch_size: search_flags.BatchSize = None,
    device: search_flags.Device = None,
    threads: Threads = None,
    int8: search_flags.Int8 = False,
    out: OutFile = None,
    force: Force = False,
    fail_under: Annotated[
        float | None, Option(min=0, max=100, help="Exit with code 1 where BLEU is lower.")
    ] = None,
    as_json: Json = False,
    no_bootstrap: Annotated[bool, Option("--no-bootstrap", help="No confidence interval.")] = False,
    set_: SetKeys = None,
    quiet: Quiet = False,
) -> None:
    """Score the translations of a run, or of others.

    Scores but COMET are sacreBLEU's, with signature and 95 % bootstrap interval.

    The run keeps them in eval/NAME.json, with its translations beside them. --out writes the
    translations to a file too; with --out - they are on stdout, and the scores on stderr.
    """
    chosen: dict[MetricName, bool]
    chosen = {"bleu": bleu, "bleu-lc": bleu_lc, "chrf": chrf, "chrf++": chrf_words, "ter": ter}
    chosen["multi30k"] = multi30k_style
    from nmt.cli.shared.process import configure_process

    if aer is not None:
        if any(chosen.values()):
            raise ConfigError("--aer: it scores links, so no other score goes with it")
        others = {
            "--comet": comet,
            "--split": split,
            "--weights": weights,
            "--rerank": rerank,
            "--rerank-weights": rerank_weights,
            "--baseline": baseline,
            "--lang": lang,
            "--tokenize": tokenize,
            "--as-is": as_is,
            "--beam": beam,
            "--length-penalty": length_penalty,
            "--mbr": mbr,
            **decoding.flags(),
            "--batch-size": batch_size,
            "--int8": int8,
            "--out": out,
            "--fail-under": fail_under,
            "--no-bootstrap": no_bootstrap,
            "--set": set_,
        }
        for flag, value in others.items():
            if value not in (None, False, []):
                raise ConfigError(f"--aer: {flag} does not apply to the score of links")
        configure_process(threads)
        score_alignment(aer, src, ref or [], hyp, run or [], checkpoint, device, as_json)
        return
    chosen["comet"] = comet is not None
    metrics = tuple(name for name, is_chosen in chosen.items() if is_chosen) or ("bleu",)
    if fail_under is not None and not {"bleu", "multi30k"} & set(metrics):
        raise ConfigError("--fail-under: it is about BLEU, so give --bleu with it")
    if out is not None:
        if hyp is not None:
            raise ConfigError("--out: no translation is made with --hyp")
        if str(out) == "-" and as_json:
            raise ConfigError("--out: got -, allowed with --json: a file; stdout is for the scores")
        if not out.parent.is_dir():
            raise ConfigError(f"--out: no such folder: {out.parent}")
    search_flags.check_search_keys(set_ or ())
    search = {
        "beam": beam,
        "length_penalty": length_penalty,
        "mbr.samples": mbr,
        "batch_size": batch_size,
        **decoding.keys(),
    }

    from nmt.cli.shared.eval_request import EvalRequest, perform
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.metric import DEFAULT_BOOTSTRAP
    from nmt.storage.output import write_lines

    n_bootstrap = 0 if no_bootstrap else DEFAULT_BOOTSTRAP
    request = EvalRequest(
        scoring=Scoring(lang or "", metrics, n_bootstrap, tokenize, as_is, comet),
        runs=tuple(run or ()),
        weights=search_flags.parse_weights(weights, max(1, len(run or ()))),
        rerank=tuple(rerank or ()),
        rerank_weights=search_flags.parse_rerank_weights(rerank_weights, rerank),
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
        precision=decoding.precision,
        out=out,
    )
    configure_process(threads)
    report = perform(request)
    if out is not None:
        write_lines(report.evaluation.hyp_texts, out)
        if str(out) != "-":
            say(f"translations: {out}")
    _show(report, as_json, on_stderr=str(out) == "-")
    _keep(report)
    scores = report.evaluation.scores
    judged = scores.get("bleu") or scores.get("multi30k")
    if fail_under is not None and judged and judged.score < fail_under:
        complain(f"{judged.name} {judged.score:.2f} is under --fail-under {fail_under}")
        raise typer.Exit(1)


def _show(report: "EvalReport", as_json: bool, on_stderr: bool) -> None:
    """Print scores on stdout, or `on_stderr` where translations have it; notes on stderr."""
    from nmt.evaluation.score_report import comparison_line, length_line, score_line, speed_line

    if as_json:
        typer.echo(json.dumps(report.as_json(), indent=1, ensure_ascii=False))
        return
    print_line = complain if on_stderr else typer.echo
    for line in filter(None, (speed_line(report.evaluation), length_line(report.evaluation))):
        say(line)
    for metric, result in report.evaluation.scores.items():
        print_line(score_line(result))
        if metric in report.comparisons:
            print_line(comparison_line(report.comparisons[metric], report.about["baseline"]))


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
