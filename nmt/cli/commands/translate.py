"""`nmt translate`: translate sentences, a file or a pipe."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import note_languages, print_path, say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, NBest, RerankOptions, SearchOptions
from nmt.cli.shared.options import Json, OutFile, SourceFile
from nmt.cli.shared.sentences import checked_arguments, file_lines, print_lines, with_progress
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.evaluation.confidence import Calibration
    from nmt.types import TranslatedHypothesis, Translation

_CHECKED = 1000
"""The number of first sentences whose language is checked."""


def translate(
    sentences: Annotated[
        list[str] | None, Argument(help="Sentences to translate, each in quotes.")
    ] = None,
    *,
    file: SourceFile = None,
    models: ModelOptions,
    rerank: RerankOptions,
    search: SearchOptions,
    n_best: NBest = None,
    prefix: Annotated[str, Option(help="Beginning of every translation.", show_default=False)] = "",
    compute: ComputeOptions,
    as_json: Json = False,
    confidence: Annotated[
        bool, Option("--confidence", help="Add the probability that a translation is good.")
    ] = False,
    show_attention: Annotated[
        bool, Option("--show-attention", help="Draw the attention weights below each translation.")
    ] = False,
    replace_unk: Annotated[
        bool,
        Option("--replace-unk", help="Replace <unk> by the source word with the most attention."),
    ] = False,
    lexicon: Annotated[
        Path | None, Option(help="Lexicon for --replace-unk: lines of word, tab, translation.")
    ] = None,
    out: OutFile = None,
) -> None:
    """Translate sentences, a file, a pipe or typed lines.

    Each input line gives one output line; an empty line gives an empty line. With --n-best above 1
    a sentence gives one line per translation, the best first: the number of the sentence (from 1),
    the score and the translation, separated by tabs.

    --temperature, --top-k, --top-p and --seed sample translations instead of searching. A sample
    depends only on the seed and the sentence. --must uses dynamic beam allocation, so --beam should
    be larger than the number of pieces in the required words.

    A score is the log-probability of the translation divided by the length penalty. With --rerank
    it is the weighted mean of the scores of all models. With --json each line is an object with
    texts, scores and pieces. --confidence adds the probability of nmt calibrate, as a key in JSON
    or a column before the translation.

    A translation has at most as many pieces as its source times search.max_length_factor, plus
    search.max_length_extra, and at most search.max_length. A note on stderr counts the translations
    that were cut at this bound.
    """
    if sentences and file:
        raise ConfigError("got sentences and --file, allowed: one of them")
    if as_json and show_attention:
        raise ConfigError("--json does not allow --show-attention; see nmt attention")
    if lexicon is not None and not replace_unk:
        raise ConfigError("--lexicon requires --replace-unk")
    texts = checked_arguments(sentences or ())
    for text in texts:
        if os.path.isfile(text):
            say(f"note: '{text}' is translated as a sentence; --file {text} translates the file")
        elif os.path.isfile(f"{text}/config.yaml"):
            say(f"note: '{text}' is translated as a sentence; --run {text} translates with the run")
    runs = models.open(compute, {**search.by_key(), "n_best": n_best})
    translator = models.load(runs, compute, rerank=rerank)
    is_n_best = translator.search.n_best > 1
    translations: Iterator[Translation]
    output = _Output(as_json, show_attention, is_n_best, runs[0].config.data.max_pieces)
    if confidence:
        from nmt.evaluation.confidence import read_calibration

        output.calibration = read_calibration(translator, say)
    if not texts and file is None and sys.stdin.isatty():
        lines = _prompted(f"{translator.languages[0]}> ")
        translations = (t for text in lines for t in translator.translate_stream([text], prefix))
    else:
        source = iter(texts) if texts else file_lines(file or Path("-"))
        stream = translator.translate_stream(source, prefix)
        translations = with_progress(stream, file, out)
    if replace_unk:
        from nmt.translation.unknown_words import read_lexicon, replace_unknown

        tokenizers = translator.tokenizers
        entries = read_lexicon(lexicon, tokenizers) if lexicon else {}
        translations = (replace_unknown(t, tokenizers, entries) for t in translations)
    print_lines(output.lines(translations), out)
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


@dataclass
class _Output:
    """Formats translations as lines, and collects notes for stderr.

    `max_pieces` is the largest number of pieces of a training sentence.
    """

    as_json: bool
    attention: bool
    is_n_best: bool
    max_pieces: int
    calibration: "Calibration | None" = None
    n_lines: int = 0
    n_cut: int = 0
    too_long: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def lines(self, translations: Iterable["Translation"]) -> Iterator[str]:
        """Yield the lines of each translation."""
        for translation in translations:
            self.n_lines += 1
            if self.n_lines <= _CHECKED:
                self.sources.append(translation.src_text)
            self.n_cut += any(not h.hypothesis.finished for h in translation.hypotheses[:1])
            if len(translation.source.ids) > self.max_pieces:
                self.too_long.append(self.n_lines)
            yield from self._lines(translation)

    def _lines(self, translation: "Translation") -> Iterator[str]:
        confidences = self.calibration.confidence(translation) if self.calibration else []
        if self.as_json:
            hypotheses = [_hypothesis(hypothesis) for hypothesis in translation.hypotheses]
            for entry, probability in zip(hypotheses, confidences, strict=False):
                entry["confidence"] = probability
            texts = {"src": translation.src_text, "translation": translation.text}
            yield json.dumps({**texts, "hypotheses": hypotheses}, ensure_ascii=False)
            return
        if not translation.hypotheses:
            yield f"{self.n_lines}\t\t" * self.is_n_best + "\t" * bool(self.calibration)
        for rank, hypothesis in enumerate(translation.hypotheses):
            score = f"{self.n_lines}\t{hypothesis.hypothesis.score:.4f}\t" if self.is_n_best else ""
            yield score + (f"{confidences[rank]:.2f}\t" if confidences else "") + hypothesis.text
            if self.attention:
                from nmt.explain.terminal import render_terminal

                yield from (render_terminal(translation, rank), "")

    def note(self, src_lang: str, tgt_lang: str) -> None:
        """Print notes on stderr about odd sentences and translations."""
        if self.attention:
            from nmt.explain.terminal import legend

            say(legend())
        note_languages(self.sources, (), src_lang, tgt_lang)
        if self.n_cut:
            say(
                f"{self.n_cut} of {self.n_lines} translations were cut at the length bound "
                "(search.max_length_factor, max_length_extra, max_length)"
            )
        if self.too_long:
            say(
                f"longer than any sentence of the training ({self.max_pieces} pieces): "
                f"{len(self.too_long)} of {self.n_lines}, the first in line "
                f"{self.too_long[0]:,}; their translations often omit much: split them"
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
