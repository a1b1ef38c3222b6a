"""The request that the flags of `nmt eval` make: checked, and carried out with the library."""

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from nmt.cli.shared.command import say
from nmt.cli.shared.flags import flag_of
from nmt.cli.shared.search_flags import Decoding, Rerankers, open_rerankers, open_runs, with_search
from nmt.cli.shared.sentences import input_files
from nmt.data.corpora import read_examples
from nmt.data.language_check import language_notes
from nmt.data.languages import language_of
from nmt.data.sources import DataConfig
from nmt.decoding.search_config import SearchConfig
from nmt.device import describe_device, resolve_device
from nmt.errors import ConfigError, DataError
from nmt.evaluation.evaluate import (
    Evaluation,
    Scoring,
    compare_with_baseline,
    evaluate,
    score_translations,
)
from nmt.evaluation.examples import examples_from_files, read_translations, split_named
from nmt.evaluation.metrics import check_metrics
from nmt.evaluation.score_report import EvalReport, report_path
from nmt.evaluation.significance import Comparison
from nmt.evaluation.tokenisation import TOKENISATIONS
from nmt.inference.batched import DecodingPrecision
from nmt.inference.translator import Translator
from nmt.runs.trained_run import TrainedRun, load_models
from nmt.settings.base import Config
from nmt.settings.config_file import Override
from nmt.storage.output import check_apart, check_output
from nmt.types import EvalExample

_SHORT = {"length_penalty": "alpha", "mbr.samples": "mbr"}
"""Search keys under another name in the name of a report."""


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """The flags of `nmt eval`; None stands for the default.

    Several `runs` are an ensemble with `weights`, of which the first keeps the report; the runs of
    `rerank` order its hypotheses too, with `rerank_weights`. Without
    `hyp` the run translates `src`, or else `split` of `data`, the run's if None. With `hyp` the
    lines of that file are scored; with `refs` too, no run is needed. `lang`, or else the run or the
    name of the file, gives the language of `scoring`. `overrides` and then `search` set keys of the
    run's SearchConfig. `baseline` is an earlier translation of the same lines. `out` is where the
    caller will write the new one.
    """

    scoring: Scoring
    runs: tuple[Path, ...] = ()
    weights: Sequence[float] | None = None
    rerank: tuple[Path, ...] = ()
    rerank_weights: Sequence[float] | None = None
    checkpoint: str | None = None
    split: str | None = None
    src: Path | None = None
    refs: tuple[Path, ...] = ()
    data: DataConfig | None = None
    hyp: Path | None = None
    baseline: Path | None = None
    lang: str | None = None
    search: Mapping[str, object] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    device: str | None = None
    int8: bool = False
    precision: DecodingPrecision = "fp32"
    out: Path | None = None

    def check(self) -> None:
        """Raise ConfigError for flags that contradict each other or would have no effect."""
        if self.src and not self.refs:
            raise ConfigError("--src: its translation is scored against --ref, which is missing")
        if self.refs and not (self.src or self.hyp):
            raise ConfigError("--ref: give --src to translate, or --hyp to score, with it")
        if self.split and self.refs:
            raise ConfigError("--split: the texts come from --ref, so --split does not apply")
        if (tokenize := self.scoring.tokenize) is not None and tokenize not in TOKENISATIONS:
            raise ConfigError(f"--tokenize: got '{tokenize}', allowed: {', '.join(TOKENISATIONS)}")
        if self.baseline and not self.scoring.n_bootstrap:
            raise ConfigError("--baseline: it is compared by bootstrap; leave out --no-bootstrap")
        if self.scoring.comet and self.refs and not self.src:
            raise ConfigError("--comet: it reads the source of each sentence: give --src")
        if self.hyp and (unused := self._unused_with_hyp()):
            given = "the translation and its reference are" if self.refs else "the translation is"
            raise ConfigError(f"--hyp: {given} given, so {unused[0]} does not apply")

    def _unused_with_hyp(self) -> list[str]:
        """The given flags that say how to translate, which have no effect with --hyp."""
        given = {
            **{flag_of(name): value for name, value in self.search.items()},
            "--set": self.overrides or None,
            "--checkpoint": self.checkpoint,
            "--device": self.device,
            "--int8": self.int8 or None,
            "--precision": None if self.precision == "fp32" else self.precision,
            "--run": (self.runs or None) if self.refs else None,
            "--weights": self.weights,
            "--rerank": self.rerank or None,
        }
        return [flag for flag, value in given.items() if value is not None]


class _TestSet(NamedTuple):
    """The examples to score, and where they come from; the report notes `about`."""

    examples: list[EvalExample]
    corpus: str
    split: str
    about: dict[str, object]


def perform(request: EvalRequest) -> EvalReport:
    """Carry `request` out; notes go to stderr.

    `about` of the report names the run under "run" if one took part. Raises ConfigError,
    DataError or CheckpointError.
    """
    request.check()
    if request.hyp and request.refs:
        scoring = _scoring(request, request.lang or language_of(request.refs[0]), None)
        test_set = _from_files(request.src, request.refs)
        name = _report_name(request, test_set, None)
        _note_languages(test_set, "", scoring.tgt_lang)
        evaluation = _score_file(request.hyp, test_set, scoring)
        return _report(request, name, scoring, test_set, evaluation)
    first, *others = open_runs(request.runs)
    run = with_search(first, {**request.search, "n_best": 1}, request.overrides)
    config = run.config
    scoring = _scoring(request, request.lang or config.data.tgt_lang, config.valid.bleu_tokenize)
    if request.src:
        test_set = _from_files(request.src, request.refs)
    else:
        test_set = _from_split(request.split or "test", request.data or config.data)
    test_set.about["run"] = str(run.path)
    _note_languages(test_set, config.data.src_lang, scoring.tgt_lang)
    name = _report_name(request, test_set, config.search)
    rerankers = open_rerankers(request.rerank, config.search)
    _check_outputs(request, [run, *others, *rerankers.runs], name)
    if request.hyp:
        evaluation = _score_file(request.hyp, test_set, scoring)
    else:
        evaluation = _translate(request, [run, *others], rerankers, test_set, scoring)
    return _report(request, name, scoring, test_set, evaluation)


def _note_languages(test_set: _TestSet, src_lang: str, tgt_lang: str) -> None:
    sources = [example.src_text for example in test_set.examples]
    references = [text for example in test_set.examples for text in example.ref_texts]
    for note in language_notes(sources, references, src_lang, tgt_lang):
        say(f"note: {note}")


def _scoring(request: EvalRequest, tgt_lang: str, run_tokenize: str | None) -> Scoring:
    """The request's Scoring for a language; ConfigError if it cannot be computed."""
    tokenize = request.scoring.tokenize or run_tokenize
    scoring = replace(request.scoring, tgt_lang=tgt_lang, tokenize=tokenize)
    if scoring.comet is not None:
        device = resolve_device(request.device or "auto")
        scoring = replace(scoring, gpu=device.index if device.type == "cuda" else None)
    check_metrics(scoring, "--tokenize")
    return scoring


def _check_outputs(request: EvalRequest, runs: Sequence[TrainedRun], name: str) -> None:
    """Raise ConfigError where a file that is read is the first run's report `name`, or --out."""
    texts = {
        "--src": [request.src],
        "--ref": request.refs,
        "--hyp": [request.hyp],
        "--baseline": [request.baseline],
    }
    split = None if request.src else request.split or "test"
    inputs = input_files(texts, request.data or runs[0].config.data, split)
    report = report_path(runs[0].path, name)
    for path in (report, report.with_suffix(".txt")):
        check_apart(path, inputs, "the run's own evaluation")
    if request.out is not None:
        check_output(request.out, inputs)


def _from_files(src: Path | None, refs: Sequence[Path]) -> _TestSet:
    source = src or refs[0]
    about: dict[str, object] = {
        "corpus": str(source),
        "split": source.name,
        "src": str(src) if src else None,
        "refs": [str(path) for path in refs],
    }
    return _TestSet(examples_from_files(src, refs), str(source), source.name, about)


def _from_split(name: str, data: DataConfig) -> _TestSet:
    split = split_named(data, name)
    corpus = f"{split.corpus} {split.split}" if split.corpus else str(split.file or split.src)
    entry = split.model_dump(mode="json", exclude_none=True)
    about: dict[str, object] = {"corpus": corpus, "split": name, "data": entry}
    return _TestSet(read_examples(split, data), corpus, name, about)


def _score_file(hyp: Path, test_set: _TestSet, scoring: Scoring) -> Evaluation:
    hyp_texts = read_translations(hyp, len(test_set.examples), test_set.corpus)
    return score_translations(hyp_texts, test_set.examples, scoring)


def _translate(
    request: EvalRequest,
    runs: Sequence[TrainedRun],
    rerankers: Rerankers,
    test_set: _TestSet,
    scoring: Scoring,
) -> Evaluation:
    """Translate and score the test set; the model and search are noted in its `about`."""
    device = resolve_device(request.device or "auto")
    checkpoint = request.checkpoint or "best"
    search = runs[0].config.search
    loaded = load_models(runs, checkpoint, device, request.weights)
    if len(runs) > 1:
        test_set.about.update(
            ensemble=[str(run.path) for run in runs], weights=request.weights and [*request.weights]
        )
    test_set.about.update(
        checkpoint=checkpoint,
        step=loaded.step,
        search=search.model_dump(mode="json"),
        device=str(device),
        int8=request.int8,
        precision=request.precision,
    )
    say(
        f"translating {len(test_set.examples):,} sentences of {test_set.corpus} "
        f"(beam {search.beam}, {describe_device(device)})"
    )
    Decoding(precision=request.precision).note_precision(device)
    translator = Translator(
        loaded.model, loaded.tokenizers, device, search, request.int8, request.precision
    )
    translator.rerank_by(rerankers.runs, request.rerank_weights, rerankers.checkpoints)
    if request.rerank:
        test_set.about.update(
            rerank=[str(path) for path in request.rerank],
            rerank_weights=[reranker.weight for reranker in translator.rerankers],
        )
    return evaluate(translator, test_set.examples, scoring)


def _report(
    request: EvalRequest, name: str, scoring: Scoring, test_set: _TestSet, evaluation: Evaluation
) -> EvalReport:
    """The report `name`, with a comparison if there is a baseline."""
    examples = evaluation.compared.examples
    # A run's own translations always get the references' typography: only given ones get a note.
    compared = evaluation.compared if request.hyp else replace(evaluation.compared, n_retyped=0)
    for note in compared.notes():
        say(f"{request.hyp or test_set.corpus}: {note}; --as-is leaves both sides as they are")
    checksums = {
        "hypotheses": _checksum(evaluation.hyp_texts),
        "references": _checksum([example.ref_texts for example in examples]),
        "baseline": None,
    }
    comparisons: dict[str, Comparison] = {}
    if request.baseline:
        baseline = _baseline_file(request.baseline, name)
        lines = read_translations(baseline, len(examples), test_set.corpus)
        checksums["baseline"] = _checksum(lines)
        comparisons, notes = compare_with_baseline(lines, evaluation, scoring)
        for note in notes:
            say(f"{request.baseline}: {note}")
    about = {
        **test_set.about,
        "hyp": str(request.hyp) if request.hyp else None,
        "baseline": str(request.baseline) if request.baseline else None,
        "tgt_lang": scoring.tgt_lang,
        "sha256": checksums,
    }
    return EvalReport(name, scoring, evaluation, comparisons, about)


def _baseline_file(baseline: Path, name: str) -> Path:
    """The file of the earlier translations; of a run, those of its report of the same name."""
    if not baseline.is_dir():
        return baseline
    file = report_path(baseline, name).with_suffix(".txt")
    if not file.is_file():
        raise DataError(
            f"--baseline: {file}: no such file; evaluate that run in the same way first, or score "
            "both with nmt compare"
        )
    return file


def _checksum(texts: object) -> str:
    """The SHA-256 by which a later report recognises the same texts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _report_name(request: EvalRequest, test_set: _TestSet, search: SearchConfig | None) -> str:
    """The report's file name: the test set, and each choice that is not the run's default."""
    parts = [test_set.split]
    if request.hyp:
        parts.append(f"hyp-{request.hyp.name}")
    if request.checkpoint not in (None, "best"):
        parts.append(str(request.checkpoint))
    parts += [f"with-{run.name}" for run in request.runs[1:]]
    if request.weights:
        parts.append(f"weights{','.join(f'{weight:g}' for weight in request.weights)}")
    parts += [f"rerank-{run.name}" for run in request.rerank]
    if request.rerank_weights:
        parts.append(f"rerank-weights{','.join(f'{each:g}' for each in request.rerank_weights)}")
    keys = [override.key.removeprefix("search.") for override in request.overrides]
    for key in dict.fromkeys([*keys, *request.search]):
        if key != "batch_size":  # it changes no translation
            value: object = functools.reduce(getattr, key.split("."), search)
            if isinstance(value, Config):
                value = "-".join(map(str, value.model_dump().values()))
            elif isinstance(value, tuple):  # of words
                value = re.sub(r"[^\w+-]", "_", "+".join(value))
            parts.append(f"{_SHORT.get(key, key)}{value}")
    if request.int8 or request.precision != "fp32":
        parts.append("int8" if request.int8 else request.precision)
    return "-".join(parts)
