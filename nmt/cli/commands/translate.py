"""`nmt translate`: translate texts, a file or a pipe."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import print_language_notes, print_path, say
from nmt.cli.shared.models import (
    ComputeOptions,
    DecodingOptions,
    ModelOptions,
    NBest,
    RerankOptions,
)
from nmt.cli.shared.options import GlossaryFile, Json, OutFile
from nmt.cli.shared.sentences import (
    checked_arguments,
    file_content,
    file_lines,
    print_content,
    print_lines,
    with_progress,
)
from nmt.errors import ConfigError, format_count
from nmt.names import DocumentFormat
from nmt.storage.output import STDIN_OR_STDOUT

if TYPE_CHECKING:
    from nmt.evaluation.confidence import Calibration
    from nmt.translation.translator import Translator
    from nmt.types import TranslatedHypothesis, Translation

_CHECKED = 1000
"""The number of first sentences whose language and words are checked."""


def translate(
    sentences: Annotated[
        list[str] | None, Argument(help="Sentences or texts to translate, each in quotes.")
    ] = None,
    *,
    file: Annotated[Path | None, Option(help="Text or document; - is stdin.")] = None,
    format: Annotated[
        DocumentFormat | None,
        Option(help="Format of the texts.", show_default="by the ending of --file, or text"),
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
    be larger than the number of pieces in the required words. --glossary uses it too, for terms
    that a translation would otherwise lack. A note on stderr says how many terms were met.

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
    from nmt.documents.files import format_of, open_document
    from nmt.documents.translate import reader_of, translate_lines
    from nmt.translation.unknown_words import read_lexicon, replace_unknown

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
    output = _Output(as_json, show_attention, is_n_best, is_split, format != "text", translator)
    if confidence:
        from nmt.evaluation.confidence import read_calibration

        output.calibration = read_calibration(translator, say)
    reader, tokenizers = reader_of(translator), translator.tokenizers
    entries = read_lexicon(lexicon, tokenizers) if lexicon else {}

    def stream(sentences: Iterable[str]) -> Iterator["Translation"]:
        translations: Iterator[Translation] = translator.translate_stream(sentences, prefix)
        if replace_unk:
            translations = (replace_unknown(t, tokenizers, entries) for t in translations)
        return map(output.count, translations)

    def answers(source: Iterable[str]) -> Iterator[str]:
        split = translate_lines(stream, source, reader) if is_split else None
        for answer in split or ("\n".join(output.lines(t)) for t in stream(source)):
            output.n_lines += 1
            yield answer

    if format != "text":
        contents = sentences or [file_content(file or STDIN_OR_STDOUT)]
        documents = [open_document(text, format, reader, str(file or format)) for text in contents]
        n_sentences = sum(len(document.sentences) for document in documents)
        translations = with_progress(
            stream(chain.from_iterable(d.sentences for d in documents)), None, out, n_sentences
        )
        end = "\n" if sentences else ""
        results = (d.translated(islice(translations, len(d.sentences)))[0] for d in documents)
        print_content("".join(text + end for text in results), out)
    elif not arguments and file is None and sys.stdin.isatty():
        typed_lines = _prompted(f"{translator.languages[0]}> ")
        print_lines((answer for line in typed_lines for answer in answers([line])), out)
    else:
        source = iter(arguments) if arguments else file_lines(file or STDIN_OR_STDOUT, is_split)
        print_lines(with_progress(answers(source), file, out), out)
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


@dataclass
class _Output:
    """Formats translations as lines, and collects notes for stderr."""

    as_json: bool
    attention: bool
    is_n_best: bool
    is_split: bool  # into sentences
    is_document: bool
    translator: "Translator"
    calibration: "Calibration | None" = None
    n: int = 0
    n_lines: int = 0
    n_cut: int = 0
    n_terms: int = 0
    missed: list[tuple[int, str]] = field(default_factory=list)
    too_long: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def count(self, translation: "Translation") -> "Translation":
        """Count a translation, unless it stands for a line without sentences, and return it."""
        if self.is_split and not translation.src_text:
            return translation
        self.n += 1
        if self.n <= _CHECKED:
            self.sources.append(translation.src_text)
        self.n_cut += any(not h.hypothesis.finished for h in translation.hypotheses[:1])
        place = self.n if self.is_document else self.n_lines + 1
        max_pieces, glossary = self.translator.max_pieces, self.translator.glossary
        if max_pieces is not None and len(translation.source.ids) > max_pieces:
            self.too_long.append(place)
        if glossary is not None and translation.hypotheses:
            terms = glossary.terms_of(translation.src_text)
            missed = glossary.missed(terms, translation.hypotheses[0].hypothesis)
            self.n_terms += len(terms)
            self.missed += [(place, term.source) for term in missed]
        return translation

    def lines(self, translation: "Translation") -> Iterator[str]:
        """Yield the lines for the translation that was counted last."""
        confidences = self.calibration.confidence(translation) if self.calibration else []
        if self.as_json:
            hypotheses = [_hypothesis(hypothesis) for hypothesis in translation.hypotheses]
            for entry, probability in zip(hypotheses, confidences, strict=False):
                entry["confidence"] = probability
            texts = {"src": translation.src_text, "translation": translation.text}
            yield json.dumps({**texts, "hypotheses": hypotheses}, ensure_ascii=False)
            return
        if not translation.hypotheses:
            yield f"{self.n}\t\t" * self.is_n_best + "\t" * bool(self.calibration)
        for rank, hypothesis in enumerate(translation.hypotheses):
            score = f"{self.n}\t{hypothesis.hypothesis.score:.4f}\t" if self.is_n_best else ""
            yield score + (f"{confidences[rank]:.2f}\t" if confidences else "") + hypothesis.text
            if self.attention:
                from nmt.explain.terminal import render_terminal

                yield from (render_terminal(translation, rank), "")

    def note(self, src_lang: str, tgt_lang: str) -> None:
        """Print notes on stderr about odd sentences and translations."""
        from nmt.text.tokenizer import recorded_words, words_by_hash

        if self.attention:
            from nmt.explain.terminal import legend

            say(legend())
        print_language_notes(self.sources, (), src_lang, tgt_lang)
        noun = "sentence" if self.is_split else "line"
        unit = "sentence" if self.is_document else "line"
        seen = recorded_words(self.translator.runs[0].directory.tokenizer_path)
        words = {key: word for text in self.sources for key, word in words_by_hash(text).items()}
        unseen = [word[:40] for key, word in words.items() if key not in seen]
        if seen and unseen:
            where = f" of the first {_CHECKED:,} {noun}s" * (self.n > _CHECKED)
            say(f"words never seen in training{where}: {len(unseen):,} ({', '.join(unseen[:10])})")
        if self.translator.glossary is not None:
            first = ", ".join(f"{source} ({unit} {n})" for n, source in self.missed[:5])
            missed = f"; missed: {first}" if self.missed else ""
            say(f"terms met: {self.n_terms - len(self.missed)} of {self.n_terms}{missed}")
        if self.n_cut:
            say(
                f"{self.n_cut} of {format_count(self.n, noun)}: the translation was cut at the "
                "length bound (search.max_length_factor, max_length_extra, max_length)"
            )
        if self.too_long:
            remedy = "" if self.is_split else "; their translations often omit much: split them"
            say(
                f"longer than any sentence of the training ({self.translator.max_pieces} pieces): "
                f"{len(self.too_long)} of {format_count(self.n, noun)}, the first is {unit} "
                f"{self.too_long[0]:,}{remedy}"
            )


def _hypothesis(translated: "TranslatedHypothesis") -> dict[str, object]:
    """Return a hypothesis for --json. `pieces` and `log_probs` are parallel, with any `</s>`."""
    hypothesis = translated.hypothesis
    return {
        "text": translated.text,
        "score": hypothesis.score,
        "finished": hypothesis.finished,
        "pieces": [*translated.target.pieces, *(["</s>"] if hypothesis.finished else [])],
        "log_probs": hypothesis.log_probs,
    }
