"""What `nmt translate` answers, in which form and to where."""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import nmt
from nmt.errors import NMTError

if TYPE_CHECKING:
    from nmt.inference.translator import Translator
    from nmt.inference.unknown_words import Lexicon
    from nmt.types import TranslatedHypothesis, Translation


@dataclass(frozen=True)
class Form:
    """What a line of output says."""

    scores: bool
    as_json: bool
    attention: bool
    several: bool

    @property
    def is_block(self) -> bool:
        """Whether a sentence may have several lines."""
        return self.several or self.attention


@dataclass(frozen=True)
class Answering:
    """A translator and what becomes of its texts; without a `lexicon` `<unk>` stays."""

    translator: "Translator"
    restore: bool
    lexicon: "Lexicon | None"

    def stream(self, texts: Iterable[str]) -> Iterator["Translation"]:
        """The translation of every text, in order, as they are made."""
        made = self.translator.translate_stream(texts, restore=self.restore)
        if self.lexicon is None:
            yield from made
            return
        from nmt.inference.unknown_words import replace_unknown

        for translation in made:
            yield replace_unknown(
                translation, self.translator.tokenizers, self.lexicon, self.restore
            )


def answering(
    translator: "Translator", restore: bool, replace_unk: bool, lexicon: Path | None
) -> Answering:
    """The translator with what the flags say. Raises DataError for a malformed lexicon."""
    from nmt.inference.unknown_words import read_lexicon

    entries = read_lexicon(lexicon, translator.tokenizers) if lexicon else {}
    return Answering(translator, restore, entries if replace_unk else None)


def job_of(
    answering: Answering, form: Form, file: Path, run: Path, checkpoint: str
) -> dict[str, object]:
    """All that the lines of output depend on."""
    from nmt.data.text_files import archive_of
    from nmt.runs.checkpoint_files import MODEL
    from nmt.runs.directory import RunDirectory
    from nmt.storage.atomic import digest

    model = RunDirectory(run).checkpoint_folder.find(checkpoint) / MODEL
    lexicon = json.dumps(dict(answering.lexicon)) if answering.lexicon is not None else None
    return {
        "nmt": nmt.__version__,
        "input": f"{digest(archive_of(file))} {file.name}",
        "model": digest(model),
        "search": answering.translator.search.model_dump(mode="json"),
        "form": asdict(form),
        "--int8": answering.translator.int8,
        "--no-restore": not answering.restore,
        "--replace-unk": lexicon and hashlib.sha256(lexicon.encode()).hexdigest(),
    }


@contextlib.contextmanager
def writer(
    form: Form,
    out: Path | None,
    longest: int,
    job: dict[str, object] | None = None,
    resume: bool = False,
    unit: int = 1,
) -> Iterator["Writer"]:
    """A Writer to `out`, or to stdout; it says at the end what there is to say.

    See Writer for `longest`, and job_output for `job`, `resume` and `unit`.
    """
    if out is None:
        written = Writer(form, longest, typer.echo)
        yield written
    else:
        from nmt.inference.job import job_output
        from nmt.storage.output import PART_SUFFIX, is_direct, part_of

        with job_output(out, job, resume, unit) as (write, n_done):
            if n_done:
                typer.echo(f"{out}: going on after line {n_done:,}", err=True)
            written = Writer(form, longest, lambda lines: write(f"{lines}\n".encode()), n_done)
            try:
                yield written
            except BaseException as error:
                # Ctrl-C may come between a line and its count: the file's lines are counted.
                if not is_direct(out) and (n_lines := _count_lines(part_of(out))):
                    how = f"these lines are in {out}{PART_SUFFIX}"
                    if job and not isinstance(error, NMTError):  # that has to be mended first
                        how = "the same command with --resume goes on there"
                    typer.echo(f"{out}: stopped after line {n_lines:,}; {how}", err=True)
                raise
    written.report()


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


@dataclass
class Writer:
    """Writes translations, and counts what a reader should be told of at the end.

    `longest` is the greatest number of source pieces that the model was trained on.
    """

    form: Form
    longest: int
    emit: Callable[[str], None]
    n_written: int = 0
    n_cut: int = 0
    too_long: list[int] = field(default_factory=list)

    def write(self, translations: Iterable["Translation"]) -> None:
        """The lines of each translation, as soon as it is there."""
        for translation in translations:
            self.emit("\n".join(self._lines(translation)))
            self.n_written += 1
            if len(translation.source.ids) > self.longest:
                self.too_long.append(self.n_written)
            self.n_cut += any(not h.hypothesis.finished for h in translation.hypotheses[:1])

    def report(self) -> None:
        """Says what the shades of a map mean, what the length bound cut, what was too long."""
        if self.form.attention:
            from nmt.attention_maps.terminal import legend

            typer.echo(legend(), err=True)
        if self.n_cut:
            typer.echo(
                f"{self.n_cut} of {self.n_written} translations were cut at the length bound "
                "(search.max_length_factor, max_length_extra, max_length)",
                err=True,
            )

        if self.too_long:
            typer.echo(
                f"longer than any sentence of the training ({self.longest} pieces): "
                f"{len(self.too_long)} of {self.n_written}, the first in line "
                f"{self.too_long[0]:,}; their translations often leave much out: split them",
                err=True,
            )

    def _lines(self, translation: "Translation") -> list[str]:
        if self.form.as_json:
            return [json.dumps(_record(translation), ensure_ascii=False)]
        # The sentences count from 0, as in nmt attention.
        number = f"{self.n_written}\t" if self.form.several else ""
        with_score = self.form.scores or self.form.several
        if not translation.hypotheses:
            return [number + ("\t" if with_score else "")]
        lines = []
        for which, found in enumerate(translation.hypotheses):
            score = f"{found.hypothesis.score:.4f}\t" if with_score else ""
            lines.append(number + score + found.text)
            if self.form.attention:
                from nmt.attention_maps.terminal import render_terminal

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
