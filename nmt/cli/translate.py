"""`nmt translate`: sentences in, translations out."""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.search_flags import search_of
from nmt.cli.sentences import checked_arguments, file_lines, prompted, with_progress
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.schema import TranslatedHypothesis, Translation


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
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key search.*; repeatable."),
    ] = None,
) -> None:
    """Translate sentences, a file, a pipe or what is typed.

    One line of output for one of input, empty for empty. With --n-best above 1 the lines are:
    number of the sentence, tab, score, tab, translation; best first.

    Scores are log-probabilities divided by the length penalty.
    """
    if sentences and file:
        raise ConfigError("got sentences and --file, allowed: one of them")
    if as_json and show_attention:
        raise ConfigError("--json does not go with --show-attention; see nmt attention")
    texts = checked_arguments(sentences or ())
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

    from nmt.translation.translator import Translator

    translator = Translator.load(folder, device=device, checkpoint=checkpoint, search=search)
    restore = not no_restore
    writer = _Writer(scores, as_json, show_attention, several=translator.search.n_best > 1)
    if texts:
        writer.write(translator.translate_stream(texts, restore=restore))
    elif file is None and sys.stdin.isatty():
        for text in prompted(f"{translator.tokenizers.src.lang}> "):
            writer.write(translator.translate([text], restore=restore))
    else:
        lines = file_lines(file or Path("-"))
        writer.write(with_progress(translator.translate_stream(lines, restore=restore), file))
    writer.report()


@dataclass
class _Writer:
    """Writes translations to stdout, and counts what a reader should be told of at the end."""

    scores: bool
    as_json: bool
    attention: bool
    several: bool
    n_cut: int = 0
    n_written: int = 0

    def write(self, translations: Iterable["Translation"]) -> None:
        """The lines of each translation, as soon as it is there."""
        for translation in translations:
            self.n_written += 1
            self.n_cut += any(not h.hypothesis.finished for h in translation.hypotheses[:1])
            typer.echo("\n".join(self._lines(translation)))

    def report(self) -> None:
        """Says what the shades of a map mean and how many translations the length bound cut."""
        if self.attention:
            from nmt.maps.terminal import legend

            typer.echo(legend(), err=True)
        if self.n_cut:
            typer.echo(
                f"{self.n_cut} of {self.n_written} translations were cut at the length bound "
                "(search.max_length_factor, max_length_extra, max_length)",
                err=True,
            )

    def _lines(self, translation: "Translation") -> list[str]:
        if self.as_json:
            return [json.dumps(_record(translation), ensure_ascii=False)]
        number = f"{self.n_written}\t" if self.several else ""
        with_score = self.scores or self.several
        if not translation.hypotheses:
            return [number + ("\t" if with_score else "")]
        lines = []
        for which, found in enumerate(translation.hypotheses):
            score = f"{found.hypothesis.score:.4f}\t" if with_score else ""
            lines.append(number + score + found.text)
            if self.attention:
                from nmt.maps.terminal import render_terminal

                lines += [render_terminal(translation, which), ""]
        return lines


def _record(translation: "Translation") -> dict[str, object]:
    """What `--json` says of one input line."""
    return {
        "src": translation.src_text,
        "translation": translation.text,
        "hypotheses": [_hypothesis(found) for found in translation.hypotheses],
    }


def _hypothesis(found: "TranslatedHypothesis") -> dict[str, object]:
    """`pieces` and `log_probs` are parallel, the end of the sentence included."""
    end = ("</s>",) if found.hypothesis.finished else ()
    return {
        "text": found.text,
        "score": found.hypothesis.score,
        "finished": found.hypothesis.finished,
        "pieces": [*found.target.pieces, *end],
        "log_probs": found.hypothesis.log_probs,
    }
