"""One evaluation from start to end: what is asked, and how it is carried out."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nmt.data.corpora import read_examples
from nmt.data.sources import DataConfig
from nmt.decoding.search import SearchConfig
from nmt.device import describe_device, resolve_device
from nmt.errors import ConfigError
from nmt.evaluation.evaluate import Evaluation, Scoring, evaluate, score_translations
from nmt.evaluation.examples import (
    examples_from_files,
    files_read,
    language_of,
    read_translations,
    split_named,
)
from nmt.evaluation.score_report import EvalReport, report_path
from nmt.evaluation.significance import compare
from nmt.evaluation.tokenisation import TOKENISATIONS, check_tokenisation
from nmt.inference.translator import Translator
from nmt.runs.directory import RunDirectory, find_run, load_model
from nmt.settings.config_file import Flag
from nmt.storage.output import check_output
from nmt.types import EvalExample

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """Where texts and translations come from and what to score by; None: the default.

    Without `hyp` the run translates: `src`, or else `split` of its data. With `hyp` the lines of
    that file are scored, and with `refs` too no run is needed. `overrides` (`search.key=value`)
    and then `search` set keys of the run's SearchConfig. `baseline` is an earlier translation of
    the same lines, and `out` where the caller will write the new one, which may be no file that
    is read.
    """

    scoring: Scoring = field(default_factory=Scoring)
    run: Path | None = None
    checkpoint: str | None = None
    split: str | None = None
    src: Path | None = None
    refs: tuple[Path, ...] = ()
    hyp: Path | None = None
    baseline: Path | None = None
    lang: str | None = None
    search: Mapping[str, int | float] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    device: str | None = None
    int8: bool = False
    out: Path | None = None

    def check(self) -> None:
        """Raise ConfigError for a choice without sense or effect: none is ignored."""
        if self.src and not self.refs:
            raise ConfigError("--src: its translation is scored against --ref, which is missing")
        if self.refs and not (self.src or self.hyp):
            raise ConfigError("--ref: give --src to translate, or --hyp to score, with it")
        if self.split and self.refs:
            raise ConfigError("--split: the texts come from --ref, so --split does not apply")
        if (asked := self.scoring.tokenize) is not None and asked not in TOKENISATIONS:
            raise ConfigError(f"--tokenize: got '{asked}', allowed: {', '.join(TOKENISATIONS)}")
        if self.baseline and not self.scoring.n_bootstrap:
            raise ConfigError("--baseline: it is compared by bootstrap; leave out --no-bootstrap")
        if self.hyp and (idle := self._idle_with_hyp()):
            given = "the translation and its reference are" if self.refs else "the translation is"
            raise ConfigError(f"--hyp: {given} given, so {idle[0]} does not apply")

    def _idle_with_hyp(self) -> list[str]:
        given = {
            **{f"--{name.replace('_', '-')}": value for name, value in self.search.items()},
            "--set": self.overrides or None,
            "--checkpoint": self.checkpoint,
            "--device": self.device,
            "--int8": self.int8 or None,
            "--run": self.run if self.refs else None,
        }
        return [flag for flag, value in given.items() if value is not None]


def perform(request: EvalRequest, say: Say) -> EvalReport:
    """Carry `request` out, telling `say` what is done.

    `about` of the report names the run under "run", where one took part. Raises ConfigError,
    DataError or CheckpointError.
    """
    request.check()
    if request.hyp and request.refs:
        scoring = _scoring(request, request.lang or language_of(request.refs[0]), None)
        examples, about = _from_files(request)
        evaluation = _scored(request.hyp, examples, scoring, about)
        name = _name(request, str(about["split"]), None)
        return _finish(request, name, scoring, evaluation, about, say)
    folder = find_run(request.run)
    if request.run is None:
        say(f"run: {folder}")
    searched = {**request.search, "n_best": 1}
    flags = [Flag.named(f"search.{name}", value) for name, value in searched.items()]
    config = RunDirectory(folder).load_config([*request.overrides, *flags])
    data = config.data
    scoring = _scoring(request, request.lang or data.tgt_lang, config.valid.bleu_tokenize)
    examples, about = _from_files(request) if request.src else _from_split(request, data)
    about["run"] = str(folder)
    name = _name(request, str(about["split"]), config.search)
    _check_outputs(request, folder, data, name)
    if request.hyp:
        evaluation = _scored(request.hyp, examples, scoring, about)
    else:
        translator = _translator(request, folder, config.search, about)
        how = f"beam {translator.search.beam}, {describe_device(translator.device)}"
        say(f"translating {len(examples):,} sentences of {about['corpus']} ({how})")
        evaluation = evaluate(translator, examples, scoring)
    return _finish(request, name, scoring, evaluation, about, say)


def _scoring(request: EvalRequest, tgt_lang: str, of_run: str | None) -> Scoring:
    """What to score by, in a language; ConfigError where that cannot be."""
    asked = request.scoring.tokenize or of_run
    scoring = replace(request.scoring, tgt_lang=tgt_lang, tokenize=asked)
    if "bleu" in scoring.metrics:
        check_tokenisation(scoring.tokenisation, "--tokenize")
    if not tgt_lang and "multi30k" in scoring.metrics:
        raise ConfigError("--multi30k-style: the target language is not known; give --lang")
    return scoring


def _check_outputs(request: EvalRequest, folder: Path, data: DataConfig, name: str) -> None:
    """Raise ConfigError where the report `name`, or `out`, is one of the files that are read."""
    texts = {
        "--src": [request.src],
        "--ref": request.refs,
        "--hyp": [request.hyp],
        "--baseline": [request.baseline],
    }
    inputs = files_read(texts, data, None if request.src else request.split or "test")
    kept = report_path(folder, name)
    for path in (kept, kept.with_suffix(".txt")):
        check_output(path, inputs, "the run's own evaluation")
    if request.out is not None:
        inputs["the run"] = RunDirectory(folder).own_files
        check_output(request.out, inputs)


def _from_files(request: EvalRequest) -> tuple[list[EvalExample], dict[str, object]]:
    examples = examples_from_files(request.src, request.refs)
    files = [str(path) for path in request.refs]
    source = request.src or request.refs[0]
    return examples, {
        "corpus": str(source),
        "split": source.name,
        "src": str(request.src) if request.src else None,
        "refs": files,
    }


def _from_split(
    request: EvalRequest, data: DataConfig
) -> tuple[list[EvalExample], dict[str, object]]:
    name = request.split or "test"
    split = split_named(data, name)
    corpus = f"{split.corpus} {split.split}" if split.corpus else str(split.tsv or split.src)
    said = split.model_dump(mode="json", exclude_none=True)
    return read_examples(split, data), {"corpus": corpus, "split": name, "data": said}


def _scored(
    hyp: Path, examples: list[EvalExample], scoring: Scoring, about: dict[str, object]
) -> Evaluation:
    hyp_texts = read_translations(hyp, len(examples), str(about["corpus"]))
    return score_translations(hyp_texts, examples, scoring)


def _translator(
    request: EvalRequest, folder: Path, search: SearchConfig, about: dict[str, object]
) -> Translator:
    """The run's translator as the request wants it; what it is goes into `about`."""
    device = resolve_device(request.device or "auto")
    checkpoint = request.checkpoint or "best"
    loaded = load_model(folder, checkpoint, device)
    about.update(
        checkpoint=checkpoint,
        step=loaded.step,
        search=search.model_dump(mode="json"),
        device=str(device),
        int8=request.int8,
    )
    return Translator(loaded.model, loaded.tokenizers, device, search, request.int8)


def _finish(
    request: EvalRequest,
    name: str,
    scoring: Scoring,
    evaluation: Evaluation,
    about: dict[str, object],
    say: Say,
) -> EvalReport:
    """The report `name`, with the comparison to a baseline where one is asked for."""
    examples = evaluation.compared.examples
    # A run's own translations are always put into this typography: only given ones get a note.
    compared = evaluation.compared if request.hyp else replace(evaluation.compared, n_retyped=0)
    for note in compared.notes():
        say(f"{request.hyp or about['corpus']}: {note}; --as-is leaves both sides as they are")
    sums = {
        "hypotheses": _digest(evaluation.hyp_texts),
        "references": _digest([example.ref_texts for example in examples]),
        "baseline": None,
    }
    about.update(
        hyp=str(request.hyp) if request.hyp else None,
        baseline=str(request.baseline) if request.baseline else None,
        tgt_lang=scoring.tgt_lang,
    )
    comparisons = {}
    if request.baseline:
        lines = read_translations(request.baseline, len(examples), str(about["corpus"]))
        sums["baseline"] = _digest(lines)
        baseline = scoring.comparable(lines, examples)
        refs = [example.ref_texts for example in baseline.examples]
        comparisons = {
            metric: compare(
                metric,
                baseline.hyp_texts,
                evaluation.hyp_texts,
                refs,
                scoring.tgt_lang,
                scoring.tokenisation,
            )
            for metric in scoring.metrics
        }
        for note in baseline.notes():
            say(f"{request.baseline}: {note}")
    about["sha256"] = sums
    return EvalReport(name, evaluation, comparisons, about)


def _digest(texts: object) -> str:
    """A checksum by which a report knows the same texts again."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _name(request: EvalRequest, split: str, search: SearchConfig | None) -> str:
    """A file name that says what was scored, and how where that is not the run's default way."""
    parts = [split]
    if request.hyp:
        parts.append(f"hyp-{request.hyp.name}")
    if request.checkpoint not in (None, "best"):
        parts.append(str(request.checkpoint))
    keys = [
        override.partition("=")[0].strip().removeprefix("search.") for override in request.overrides
    ]
    for key in dict.fromkeys([*keys, *request.search]):
        if key != "batch_size":  # which changes no translation
            parts.append(f"{'alpha' if key == 'length_penalty' else key}{getattr(search, key)}")
    if request.int8:
        parts.append("int8")
    return "-".join(parts)
