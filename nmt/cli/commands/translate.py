"""`nmt translate`: translate texts, a file or a pipe."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from nmt.cli.commands.translate_output import TranslationOutput
from nmt.cli.shared.messages import print_path, say
from nmt.cli.shared.models import ComputeOptions, DecodingOptions, ModelOptions, RerankOptions
from nmt.cli.shared.options import GlossaryFile, Json, NBest, OutFile
from nmt.cli.shared.sentences import (
    checked_arguments,
    file_content,
    file_lines,
    print_content,
    print_lines,
    with_progress,
)
from nmt.errors import ConfigError
from nmt.names import DocumentFormat
from nmt.storage.output import STDIN_OR_STDOUT


def translate(
    sentences: Annotated[
        list[str] | None, Argument(help="Sentences or texts to translate, each in quotes.")
    ] = None,
    *,
    file: Annotated[Path | None, "Text or document; - is stdin."] = None,
    format: Annotated[
        DocumentFormat | None, "Format of the texts.", "by the ending of --file, or text"
    ] = None,
    lines: Annotated[bool, "Read each line as one sentence, and do not split it."] = False,
    models: ModelOptions,
    rerank: RerankOptions,
    search: DecodingOptions,
    n_best: NBest = None,
    prefix: Annotated[str, Option(help="Beginning of every translation.", show_default=False)] = "",
    glossary: GlossaryFile = None,
    compute: ComputeOptions,
    as_json: Json = False,
    confidence: Annotated[bool, "Add the probability that a translation is good."] = False,
    show_attention: Annotated[bool, "Draw the attention weights below each translation."] = False,
    replace_unk: Annotated[
        bool, "Replace <unk> by the source word with the most attention."
    ] = False,
    lexicon: Annotated[
        Path | None, "Lexicon for --replace-unk: lines of word, tab, translation."
    ] = None,
    out: OutFile = None,
) -> None:
    """Translate texts, a file, a pipe or typed lines.

    Without --run and without a run in the folder runs, the built-in model everyday-en-fr
    translates; --run everyday-fr-en is the other direction.

    Each input line gives one output line. Its sentences are translated one by one, and the white
    space between them stays as it is. A sentence with more pieces than any sentence of the training
    (data.max_pieces) is cut at the end of a clause. With --lines, each line is one sentence of any
    length. --json, --confidence, --show-attention, --n-best above 1, --prefix and --must imply
    --lines for a text; a --file of another format needs --lines then.

    A --file that ends in .html, .md, .srt (subtitles) or .po (messages) gives the same file,
    translated. In a .po file, only messages without a translation are translated, and marked as
    fuzzy. --format reads texts, stdin and files of other endings in the same way.

    With --n-best above 1, each input line gives one output line per translation, best first. It has
    the number of the input line (from 1), the score and the translation, separated by tabs.

    --temperature, --top-k, --top-p and --seed sample translations instead of searching. A sample
    depends only on the seed and the sentence. --must uses dynamic beam allocation, so --beam should
    be larger than the number of pieces in the required words. --glossary puts a term that the
    translation lacks in place of the words that attend to it. A note on stderr says how many terms
    were met.

    A score is the log-probability of the translation divided by the length penalty. With --rerank
    it is the weighted mean of the scores of all models. With --json each line is an object with
    texts, scores and pieces. --confidence adds the probability of nmt calibrate, as a key in JSON
    or a column before the translation.

    A translation has at most as many pieces as its source times search.max_length_factor, plus
    search.max_length_extra, and at most search.max_length. A note on stderr counts the translations
    that were cut at this bound. Another note lists source words that the training set lacks.
    """
    if sentences and file:
        raise ConfigError("got sentences and --file, allowed: one of them")
    if as_json and show_attention:
        raise ConfigError("--json does not allow --show-attention; see nmt attention")
    if lexicon is not None and not replace_unk:
        raise ConfigError("--lexicon requires --replace-unk")
    arguments = checked_arguments(sentences or ())
    _note_names(arguments)
    runs = models.open(compute, {**search.by_key(), "n_best": n_best}, builtin=True)
    config = runs[0].config.search
    is_n_best = config.n_best > 1
    one_line = lines, as_json, confidence, show_attention, is_n_best, prefix, config.must
    is_split = not any(one_line)
    from nmt.documents.files import format_of
    from nmt.translation.unknown_words import read_lexicon

    origin = "--format" if format else file
    format = format or (format_of(file) if file and not lines else "text")
    if format != "text" and not is_split:
        raise ConfigError(
            f"{origin}: got {format}, allowed with --lines, --json, --confidence, "
            "--show-attention, --n-best, --prefix and --must: text; --format text reads lines"
        )
    translator = models.load(runs, compute, rerank=rerank)
    if glossary is not None:
        translator.use_glossary(glossary)
    output = TranslationOutput(
        translator, prefix, as_json, show_attention, is_n_best, is_split, format != "text"
    )
    if replace_unk:
        output.lexicon = read_lexicon(lexicon, translator.tokenizers) if lexicon else {}
    if confidence:
        from nmt.evaluation.confidence import read_calibration

        output.calibration = read_calibration(translator, say)
    if format != "text":
        contents = sentences or [file_content(file or STDIN_OR_STDOUT)]
        end = "\n" if sentences else ""
        documents = output.documents(contents, format, str(file or format), out)
        print_content("".join(document + end for document in documents), out)
    elif not arguments and file is None and sys.stdin.isatty():
        typed_lines = _prompted(f"{translator.languages[0]}> ")
        print_lines((answer for line in typed_lines for answer in output.answers([line])), out)
    else:
        source = iter(arguments) if arguments else file_lines(file or STDIN_OR_STDOUT, is_split)
        print_lines(with_progress(output.answers(source), file, out), out)
    print_path(out)
    output.note(*translator.languages)


def _prompted(prompt: str) -> Iterator[str]:
    """Yield the lines typed on the terminal, until an empty line or Ctrl-D."""
    say("an empty line ends the input")
    lines = file_lines(Path("-"))
    while True:
        typer.echo(prompt, nl=False, err=True)
        line = next(lines, "")
        if not line.strip():
            return
        yield line


def _note_names(texts: Iterable[str]) -> None:
    """Print a note on stderr for each text that is the name of a file or a run."""
    from nmt.runs.find import is_run

    for text in texts:
        if is_run(Path(text)):
            say(f"note: '{text}' is translated as a sentence; --run {text} translates with the run")
        elif os.path.isfile(text):
            say(f"note: '{text}' is translated as a sentence; --file {text} translates the file")
