"""The output of `nmt translate`: its format, its file or stdout, and the notes at its end."""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import nmt
from nmt.cli.shared.command import say
from nmt.cli.shared.options import print_path
from nmt.errors import NMTError

if TYPE_CHECKING:
    from nmt.inference.translator import Translator
    from nmt.inference.unknown_words import Lexicon
    from nmt.runs.trained_run import TrainedRun
    from nmt.types import TranslatedHypothesis, Translation


_CHECKED = 1000
"""Sentences whose language is checked: the first ones."""


@dataclass(frozen=True)
class OutputFormat:
    """The fields of an output line; `several` says that a sentence has several translations."""

    scores: bool
    as_json: bool
    attention: bool
    several: bool
    moses: bool = False

    @property
    def is_block(self) -> bool:
        """Whether a sentence may have several lines."""
        return self.several or self.attention or self.moses


@dataclass(frozen=True)
class TranslationStream:
    """Translates texts; `lexicon` replaces unknown words, None leaves `<unk>` as it is.

    `prefixes` say how the translations begin, from that of the first text on.
    """

    translator: "Translator"
    restore: bool
    lexicon: "Lexicon | None"
    prefixes: Iterable[str] | None = None

    @classmethod
    def open(
        cls,
        translator: "Translator",
        restore: bool,
        replace_unk: bool,
        lexicon: Path | None,
        prefixes: Iterable[str] | None = None,
    ) -> "TranslationStream":
        """The stream that the flags describe. Raises DataError for a malformed lexicon."""
        from nmt.inference.unknown_words import read_lexicon

        entries = read_lexicon(lexicon, translator.tokenizers) if lexicon else {}
        return cls(translator, restore, entries if replace_unk else None, prefixes)

    def translate(self, texts: Iterable[str], n_done: int = 0) -> Iterator["Translation"]:
        """The translation of every text, in order, as soon as it is known; `n_done` came before."""
        begun = self.prefixes and islice(self.prefixes, n_done, None)
        translations = self.translator.translate_stream(
            texts, restore=self.restore, prefixes=begun or None
        )
        if self.lexicon is None:
            yield from translations
            return
        from nmt.inference.unknown_words import replace_unknown

        tokenizers = self.translator.tokenizers
        for translation in translations:
            yield replace_unknown(translation, tokenizers, self.lexicon, self.restore)


def job_description(
    stream: TranslationStream,
    output: OutputFormat,
    file: Path,
    models: "Sequence[tuple[TrainedRun, str]]",
    weights: str | None,
) -> dict[str, object]:
    """All that the lines of output depend on, as JSON values: `models` are runs and checkpoints."""
    from nmt.data.text_files import archive_of
    from nmt.runs.checkpoint_files import MODEL
    from nmt.storage.atomic import digest

    folders = [run.directory.checkpoint_folder.find(checkpoint) for run, checkpoint in models]
    rerankers = stream.translator.rerankers
    lexicon = json.dumps(dict(stream.lexicon)) if stream.lexicon is not None else None
    return {
        "nmt": nmt.__version__,
        "input": f"{digest(archive_of(file))} {file.name}",
        "model": " ".join(digest(folder / MODEL) for folder in folders),
        "--weights": weights,
        "--rerank-weights": [reranker.weight for reranker in rerankers] or None,
        "search": stream.translator.search.model_dump(mode="json"),
        "format": asdict(output),
        "--int8": stream.translator.int8,
        "--precision": stream.translator.precision,
        "--no-restore": not stream.restore,
        "--replace-unk": lexicon and hashlib.sha256(lexicon.encode()).hexdigest(),
    }


@contextlib.contextmanager
def open_writer(
    output: OutputFormat,
    out: Path | None,
    longest: int,
    langs: tuple[str, str],
    job: dict[str, object] | None = None,
    resume: bool = False,
    unit: int = 1,
) -> Iterator["Writer"]:
    """A Writer to `out`, or to stdout, which reports at the end. See job_output for the job."""
    if out is None:
        writer = Writer(output, longest, typer.echo, langs)
        yield writer
    else:
        from nmt.inference.job import count_lines, job_output
        from nmt.storage.output import is_direct, part_of

        with job_output(out, job, resume, unit) as (write, n_done):
            if n_done:
                say(f"{out}: going on after line {n_done:,}")
            writer = Writer(
                output, longest, lambda lines: write(f"{lines}\n".encode()), langs, n_done
            )
            try:
                yield writer
            except BaseException as error:
                # Ctrl-C may come between a line and its count: the file's lines are counted.
                if not is_direct(out) and (n_lines := count_lines(part_of(out))):
                    how = f"these lines are in {part_of(out)}"
                    if job and not isinstance(error, NMTError):  # which would come again
                        how = "the same command with --resume goes on there"
                    say(f"{out}: stopped after line {n_lines:,}; {how}")
                raise
        if not is_direct(out):
            print_path(out)
    writer.report()


@dataclass
class Writer:
    """Writes translations, and counts those that were cut or longer than `longest` source pieces.

    `longest` is the length of the longest sentence that the model was trained on. `langs` are its
    languages, of which the first `sources` are checked.
    """

    output: OutputFormat
    longest: int
    emit: Callable[[str], None]
    langs: tuple[str, str]
    n_written: int = 0
    n_cut: int = 0
    too_long: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def write(self, translations: Iterable["Translation"]) -> None:
        """Write the lines of each translation as soon as it is known."""
        for translation in translations:
            self.emit("\n".join(self._lines(translation)))
            self.n_written += 1
            if len(self.sources) < _CHECKED:
                self.sources.append(translation.src_text)
            if len(translation.source.ids) > self.longest:
                self.too_long.append(self.n_written)
            self.n_cut += any(not h.hypothesis.finished for h in translation.hypotheses[:1])

    def report(self) -> None:
        """Print on stderr the legend of the shades, and notes on texts cut, too long or foreign."""
        from nmt.data.language_check import language_notes

        if self.output.attention:
            from nmt.attention_maps.terminal import legend

            say(legend())
        for note in language_notes(self.sources, (), *self.langs):
            say(f"note: {note}")
        if self.n_cut:
            say(
                f"{self.n_cut} of {self.n_written} translations were cut at the length bound "
                "(search.max_length_factor, max_length_extra, max_length)"
            )
        if self.too_long:
            say(
                f"longer than any sentence of the training ({self.longest} pieces): "
                f"{len(self.too_long)} of {self.n_written}, the first in line "
                f"{self.too_long[0]:,}; their translations often leave much out: split them"
            )

    def _lines(self, translation: "Translation") -> list[str]:
        if self.output.as_json:
            hypotheses = [_hypothesis(found) for found in translation.hypotheses]
            texts = {"src": translation.src_text, "translation": translation.text}
            return [json.dumps({**texts, "hypotheses": hypotheses}, ensure_ascii=False)]
        if self.output.moses:
            return _moses_lines(self.n_written, translation)
        number = f"{self.n_written + 1}\t" if self.output.several else ""
        with_score = self.output.scores or self.output.several
        if not translation.hypotheses:
            return [number + ("\t" if with_score else "")]
        lines = []
        for which, found in enumerate(translation.hypotheses):
            score = f"{found.hypothesis.score:.4f}\t" if with_score else ""
            lines.append(number + score + found.text)
            if self.output.attention:
                from nmt.attention_maps.terminal import render_terminal

                lines += [render_terminal(translation, which), ""]
        return lines


def _moses_lines(number: int, translation: "Translation") -> list[str]:
    """The n-best list of a sentence as Moses writes it, whose fields ||| separates."""
    lines = []
    for found in translation.hypotheses:
        hypothesis = found.hypothesis
        n_pieces = len(hypothesis.log_probs)
        features = f"LogProb= {sum(hypothesis.log_probs):.6f} Length= {n_pieces}"
        text = found.text.replace("|", "&#124;")  # as Moses escapes it
        lines.append(f"{number} ||| {text} ||| {features} ||| {hypothesis.score:.6f}")
    return lines or [f"{number} |||  ||| LogProb= 0 Length= 0 ||| 0"]


def _hypothesis(found: "TranslatedHypothesis") -> dict[str, object]:
    """One hypothesis in `--json`; `pieces` and `log_probs` are parallel and include `</s>`."""
    end = ("</s>",) if found.hypothesis.finished else ()
    return {
        "text": found.text,
        "score": found.hypothesis.score,
        "finished": found.hypothesis.finished,
        "pieces": [*found.target.pieces, *end],
        "log_probs": found.hypothesis.log_probs,
    }
