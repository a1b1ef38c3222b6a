"""The output of `nmt translate`: lines, JSON, documents, and notes on stderr."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.shared.messages import print_language_notes, say
from nmt.cli.shared.sentences import with_progress
from nmt.errors import format_count
from nmt.names import DocumentFormat

if TYPE_CHECKING:
    from nmt.documents.document import SentenceReader
    from nmt.evaluation.confidence import Calibration
    from nmt.translation.translator import Translator
    from nmt.types import TranslatedHypothesis, Translation

_CHECKED = 1000  # first sentences whose language and words are checked


@dataclass
class TranslationOutput:
    """Translates lines and documents, formats the translations, and collects notes for stderr.

    `is_split` is whether lines are split into sentences. A `lexicon` replaces each <unk>.
    """

    translator: "Translator"
    prefix: str
    as_json: bool
    attention: bool
    is_n_best: bool
    is_split: bool
    is_document: bool
    lexicon: "Mapping[str, str] | None" = None
    calibration: "Calibration | None" = None
    n: int = 0
    n_lines: int = 0
    n_cut: int = 0
    n_terms: int = 0
    missed: list[tuple[int, str]] = field(default_factory=list)
    too_long: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def stream(self, sentences: Iterable[str]) -> Iterator["Translation"]:
        """Translate a stream of sentences, and count the translations."""
        from nmt.translation.unknown_words import replace_unknown

        translations = self.translator.translate_stream(sentences, self.prefix)
        if self.lexicon is None:
            return map(self._count, translations)
        tokenizers, lexicon = self.translator.tokenizers, self.lexicon
        return (self._count(replace_unknown(t, tokenizers, lexicon)) for t in translations)

    def answers(self, source: Iterable[str]) -> Iterator[str]:
        """Yield the output of each line of the source, which may have several lines."""
        from nmt.documents.translate import translate_lines

        if self.is_split:
            answers = translate_lines(self.stream, source, self._reader)
        else:
            answers = ("\n".join(self._lines(t)) for t in self.stream(source))
        for answer in answers:
            self.n_lines += 1
            yield answer

    def documents(
        self, texts: Sequence[str], format: DocumentFormat, name: str, out: Path | None
    ) -> Iterator[str]:
        """Yield the translation of each text in `format`. Errors name the file `name`."""
        from nmt.documents.files import open_document

        documents = [open_document(text, format, self._reader, name) for text in texts]
        total = sum(len(document.sentences) for document in documents)
        sentences = chain.from_iterable(document.sentences for document in documents)
        translations = with_progress(self.stream(sentences), None, out, total)
        for document in documents:
            yield document.translated(islice(translations, len(document.sentences)))[0]

    @functools.cached_property
    def _reader(self) -> "SentenceReader":
        from nmt.documents.translate import reader_of

        return reader_of(self.translator)

    def _count(self, translation: "Translation") -> "Translation":
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
            from nmt.translation.glossary import missed_terms

            terms = glossary.terms_of(translation.src_text)
            best = translation.hypotheses[0].hypothesis
            missed = missed_terms(terms, best, self.translator.tokenizers)
            self.n_terms += len(terms)
            self.missed += [(place, term.source) for term in missed]
        return translation

    def _lines(self, translation: "Translation") -> Iterator[str]:
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

    def _unseen_words(self) -> list[str]:
        """Return the words of the sources that no training source has, corrected ones first."""
        from nmt.text.tokenizer import read_word_hashes, word_hash
        from nmt.text.word_tokenizer import letter_words

        seen = read_word_hashes(self.translator.runs[0].directory.tokenizer_path)
        corrected: dict[int, str] = {}
        others: dict[int, str] = {}
        for text in self.sources if seen else ():
            readings = letter_words(self.translator.read(text))
            for word, reading in zip(letter_words(text), readings, strict=False):
                key = word_hash(word)
                if reading != word:
                    corrected[key] = f"{word} (read as {reading})"
                elif key not in seen:
                    others[key] = word[:40]
        return [*corrected.values(), *(others[key] for key in others if key not in corrected)]

    def note(self, src_lang: str, tgt_lang: str) -> None:
        """Print notes on stderr about odd sentences and translations."""
        if self.attention:
            from nmt.explain.terminal import legend

            say(legend())
        print_language_notes(self.sources, (), src_lang, tgt_lang)
        noun = "sentence" if self.is_split else "line"
        unit = "sentence" if self.is_document else "line"
        if unseen := self._unseen_words():
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
