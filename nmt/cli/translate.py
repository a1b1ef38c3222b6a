"""`nmt translate`: sentences in, translations out."""

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.search_flags import search_of
from nmt.cli.sentences import check_out, checked_arguments, file_lines, prompted, with_progress
from nmt.cli.translations import Form, answering, job_of, writer
from nmt.errors import ConfigError
from nmt.output import is_direct


def translate(
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Sentences to translate.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Text to translate, one sentence a line; - is stdin.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run directory.", show_default="the newest with a model")
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="best, last or step-NNNNNN.")] = "best",
    beam: Annotated[
        int | None, typer.Option(min=1, help="Beam size; 1 is greedy.", show_default="the run's")
    ] = None,
    n_best: Annotated[
        int | None,
        typer.Option(min=1, help="Translations per sentence.", show_default="the run's"),
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, help="0: none.", show_default="the run's")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Sentences at a time; 1 answers every line of a pipe at once.",
            show_default="the run's",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda[:N] or mps.")] = "auto",
    int8: Annotated[
        bool, typer.Option("--int8", help="Multiply in 8-bit integers: faster on a CPU.")
    ] = False,
    scores: Annotated[
        bool, typer.Option("--scores", help="Lines are: score, tab, translation.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line, with scores and pieces.")
    ] = False,
    show_attention: Annotated[
        bool, typer.Option("--show-attention", help="Draw where the model looked.")
    ] = False,
    no_restore: Annotated[
        bool, typer.Option("--no-restore", help="Plain spaces and apostrophes, as the model reads.")
    ] = False,
    replace_unk: Annotated[
        bool,
        typer.Option("--replace-unk", help="Put the source word most looked at for <unk>."),
    ] = False,
    lexicon: Annotated[
        Path | None,
        typer.Option(help="What to put instead of that word: lines of word, tab, translation."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; - is stdout.", show_default="stdout")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the same command was stopped.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key search.*; repeatable."),
    ] = None,
) -> None:
    """Translate sentences, a file, a pipe or what is typed.

    One line of output for one of input, empty for empty. With --n-best above 1 the lines are:
    number of the sentence, tab, score, tab, translation; best first.

    Scores are log-probabilities divided by the length penalty.

    A translation is at most search.max_length_factor times as long as its source, and
    search.max_length_extra and at most search.max_length pieces; how many were cut is said.
    """
    _check(sentences, file, as_json and show_attention, lexicon is not None and not replace_unk)
    out = None if out is None or str(out) == "-" else out
    if resume and (out is None or file is None or not file.is_file() or is_direct(out)):
        raise ConfigError("--resume: allowed with --file FILE --out FILE only")
    texts = checked_arguments(sentences or ())
    source = None if texts else file or Path("-")
    flags = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "batch_size": batch_size,
    }

    from nmt.run import find_run

    folder = find_run(run)
    search = search_of(folder, flags, set_ or ())
    if run is None:
        typer.echo(f"run: {folder}", err=True)
    check_out(out, folder, file=source, lexicon=lexicon)

    from nmt.device import keep_freed_memory
    from nmt.translation.translator import Translator

    keep_freed_memory()
    translator = Translator.load(
        folder, device=device, checkpoint=checkpoint, search=search, int8=int8
    )
    form = Form(scores, as_json, show_attention, several=translator.search.n_best > 1)
    if resume and form.is_block:
        raise ConfigError("--resume: allowed where each sentence has one line")
    answers = answering(translator, not no_restore, replace_unk, lexicon)
    if not texts and file is None and sys.stdin.isatty():
        with writer(form, out) as written:
            for text in prompted(f"{translator.tokenizers.src.lang}> "):
                written.write(answers.stream([text]))
        return
    job = None
    if out is not None and file is not None and file.is_file() and not form.is_block:
        job = job_of(answers, form, file, folder, checkpoint)
    with writer(form, out, job, resume, translator.chunk_size) as written:
        lines = file_lines(source) if source else iter(texts)
        made = answers.stream(islice(lines, written.n_written, None))
        written.write(with_progress(made, file, out is not None, written.n_written))


def _check(
    sentences: list[str] | None, file: Path | None, two_forms: bool, lone_lexicon: bool
) -> None:
    """Raises ConfigError for flags that contradict each other."""
    if sentences and file:
        raise ConfigError("got sentences and --file, allowed: one of them")
    if two_forms:
        raise ConfigError("--json does not go with --show-attention; see nmt attention")
    if lone_lexicon:
        raise ConfigError("--lexicon: it goes with --replace-unk")
