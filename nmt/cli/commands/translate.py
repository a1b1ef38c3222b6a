"""`nmt translate`: sentences in, translations out."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, RerankOptions
from nmt.cli.shared.options import Json, OutFile, SourceFile, print_path
from nmt.cli.shared.search import NBest, SearchOptions
from nmt.cli.shared.sentences import (
    checked_arguments,
    file_lines,
    print_lines,
    prompted,
    with_progress,
)
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.translation.translator import Translator
    from nmt.types import TranslatedHypothesis, Translation

_CHECKED = 1000
"""Sentences whose language is checked: the first ones."""


def translate(
    sentences: Annotated[
        list[str] | None,
        Argument(help="Sentences to translate, each in quotes."),
    ] = None,
    *,
    file: SourceFile = None,
    models: ModelOptions,
    rerank: RerankOptions,
    search: SearchOptions,
    n_best: NBest = None,
    prefix: Annotated[str, Option(help="How every translation begins.", show_default=False)] = "",
    compute: ComputeOptions,
    as_json: Json = False,
    show_attention: Annotated[
        bool, Option("--show-attention", help="Draw the attention weights below each translation.")
    ] = False,
    replace_unk: Annotated[
        bool,
        Option("--replace-unk", help="Replace <unk> by the source word with the most attention."),
    ] = False,
    lexicon: Annotated[
        Path | None, Option(help="Translations of such words: lines of word, tab, translation.")
    ] = None,
    out: OutFile = None,
) -> None:
    """Translate sentences, a file, a pipe or what is typed.

    Every line of input gives one line of output; an empty line gives an empty one. With --n-best
    above 1 a sentence gives a line for each translation, the best first: the number of the
    sentence, from 1, tab, score, tab, translation.

    --temperature, --top-k, --top-p and --seed draw translations instead of searching: a draw
    depends on the seed and the sentence only. --must is searched for by dynamic beam allocation,
    for which --beam should be wider than the words have pieces.

    A score is the log-probability of the translation divided by the length penalty; with --rerank
    it is the weighted mean of all models' scores. With --json a line is an object with texts,
    scores and pieces.

    The length of a translation is bounded, in pieces: by the length of its source times
    search.max_length_factor, plus search.max_length_extra; and by search.max_length. A message
    on stderr counts the translations that were cut there.
    """
    if sentences and file:
        raise ConfigError("got sentences and --file, allowed: one of them")
    if as_json and show_attention:
        raise ConfigError("--json does not allow --show-attention; see nmt attention")
    if lexicon is not None and not replace_unk:
        raise ConfigError("--lexicon requires --replace-unk")
    texts = checked_arguments(sentences or ())
    for text in filter(os.path.isfile, texts):
        say(f"note: '{text}' is translated as a sentence; --file {text} translates the file")
    runs = models.open(compute, {**search.keys(), "n_best": n_best})
    translator = models.load(runs, compute, rerank=rerank)
    several = translator.search.n_best > 1
    translations: Iterator[Translation]
    output = _Output(as_json, show_attention, several, runs[0].config.data.max_pieces)
    if not texts and file is None and sys.stdin.isatty():
        lines = prompted(f"{translator.languages[0]}> ")
        translations = (
            translation
            for text in lines
            for translation in translator.translate_stream([text], prefix)
        )
    else:
        source = iter(texts) if texts else file_lines(file or Path("-"))
        stream = translator.translate_stream(source, prefix)
        translations = with_progress(stream, file, out)
    if replace_unk:
        translations = _replaced(translations, translator, lexicon)
    print_lines(output.lines(translations), out)
    if out is not None:
        print_path(out)
    output.note(*translator.languages)


def _replaced(
    translations: Iterator["Translation"], translator: "Translator", lexicon: Path | None
) -> Iterator["Translation"]:
    """Replace unknown words of translations by entries of the lexicon, or else source words."""
    from nmt.translation.unknown_words import read_lexicon, replace_unknown

    entries = read_lexicon(lexicon, translator.tokenizers) if lexicon else {}
    for translation in translations:
        yield replace_unknown(translation, translator.tokenizers, entries)


@dataclass
class _Output:
    """The lines of translations, and what is noted on stderr at their end.

    `longest` are the pieces of the longest sentence of the training.
    """

    as_json: bool
    attention: bool
    several: bool
    longest: int
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
            if len(translation.source.ids) > self.longest:
                self.too_long.append(self.n_lines)
            yield from self._lines(translation)

    def _lines(self, translation: "Translation") -> Iterator[str]:
        if self.as_json:
            hypotheses = [_hypothesis(hypothesis) for hypothesis in translation.hypotheses]
            texts = {"src": translation.src_text, "translation": translation.text}
            yield json.dumps({**texts, "hypotheses": hypotheses}, ensure_ascii=False)
            return
        if not translation.hypotheses:
            yield f"{self.n_lines}\t\t" if self.several else ""
        for rank, hypothesis in enumerate(translation.hypotheses):
            score = f"{self.n_lines}\t{hypothesis.hypothesis.score:.4f}\t" if self.several else ""
            yield score + hypothesis.text
            if self.attention:
                from nmt.explain.terminal import render_terminal

                yield from (render_terminal(translation, rank), "")

    def note(self, src_lang: str, tgt_lang: str) -> None:
        """Say on stderr what was odd in the sentences and their translations."""
        from nmt.corpora.language_check import language_notes

        if self.attention:
            from nmt.explain.terminal import legend

            say(legend())
        for note in language_notes(self.sources, (), src_lang, tgt_lang):
            say(f"note: {note}")
        if self.n_cut:
            say(
                f"{self.n_cut} of {self.n_lines} translations were cut at the length bound "
                "(search.max_length_factor, max_length_extra, max_length)"
            )
        if self.too_long:
            say(
                f"longer than any sentence of the training ({self.longest} pieces): "
                f"{len(self.too_long)} of {self.n_lines}, the first in line "
                f"{self.too_long[0]:,}; their translations often leave much out: split them"
            )


def _hypothesis(translated: "TranslatedHypothesis") -> dict[str, object]:
    """One hypothesis in `--json`; `pieces` and `log_probs` are parallel and include `</s>`."""
    hypothesis = translated.hypothesis
    return {
        "text": translated.text,
        "score": hypothesis.score,
        "finished": hypothesis.finished,
        "pieces": [*translated.target.pieces, *(["</s>"] if hypothesis.finished else [])],
        "log_probs": hypothesis.log_probs,
    }
