"""One call trains a run: read, assemble, summarise, fit, leave a directory that translates."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.config import RunConfig
from nmt.data.batching import Batcher, EncodedCorpus, encode_pairs
from nmt.data.corpora import read_examples, resolve_split, split_files
from nmt.data.sources import pairs_of
from nmt.device import autocast, describe_device, deterministic, resolve_device
from nmt.errors import CheckpointError, ConfigError
from nmt.evaluation.tokenisation import check_scoring
from nmt.models.catalog import build_model
from nmt.ops.backend import why
from nmt.ops.precision import compute_dtype
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import run_lock
from nmt.text.tokenizer import Tokenizers
from nmt.training.resume import begun, check_place, open_run, settle
from nmt.training.rng import seed_all
from nmt.training.runlog import RunLog
from nmt.training.trainer import Parts, Trainer
from nmt.training.training_set import training_set, vocabulary_notes
from nmt.training.validation import Validator
from nmt.types import FilePath

_NO_LIMIT = 10**9
"""Validation pairs are never left out for their length."""


@dataclass(frozen=True)
class Outcome:
    """How training ended: `reason` is None where it was interrupted and can be resumed."""

    run: Path
    step: int
    reason: str | None
    best_bleu: float | None
    best_step: int | None

    def describe(self) -> str:
        """How it ended, in a line."""
        if self.reason is None:
            return (
                f"stopped: saved at step {self.step:,}; the same command again continues this run"
            )
        best = ""
        if self.best_bleu is not None:
            best = f"; best BLEU {self.best_bleu:.2f} at step {self.best_step:,}"
        return f"finished at step {self.step:,}: {self.reason}{best}"


def train(
    config: RunConfig,
    folder: FilePath,
    command: Sequence[str] = (),
    interrupted: Callable[[], bool] = lambda: False,
    quiet: bool = False,
    allow_change: bool = False,
) -> Outcome:
    """Train `config` in the run directory `folder`; continue there if it was begun before.

    `command` is what was typed, if anything was, for run.json. `interrupted` is asked after every
    update, and between the batches of a validation; once it is true the state is saved and
    training returns. `allow_change`: see changes.py. Raises ConfigError, DataError or
    CheckpointError for what the user can mend.
    """
    device = resolve_device(config.train.device)
    data_files = _data_files(config)
    check_scoring(config)
    folder = Path(folder)
    check_place(folder)
    with run_lock(folder) as no_lock, deterministic(config.train.deterministic):
        found = {"device": describe_device(device), "backend": _backend(config, device)}
        opened = open_run(folder, config, command, data_files, found, allow_change)
        run = opened.run
        with RunLog(run.path, config.train.tensorboard, quiet) as log:
            if no_lock:
                log.say(no_lock)
            seed_all(config.seed)
            parts, summary = _assemble(config, run, device, log)
            trainer = Trainer(config, parts, run, log)
            lines = [f"changed       {change}" for change in opened.changed]
            lines += _go_on(trainer, run) if begun(run) else []
            done = trainer.progress
            done.n_records = log.rewind(done.step, done.is_validated, done.n_records)
            log.say("\n".join([summary, *lines]))
            reason = _fit(trainer, interrupted)
            done = trainer.progress
            outcome = Outcome(run.path, done.step, reason, done.best_bleu, done.best_step)
            log.say(outcome.describe())
            return outcome


def _go_on(trainer: Trainer, run: RunDirectory) -> list[str]:
    """Put `trainer` where the newest whole checkpoint is; lines that say so."""
    saved, faults = run.checkpoint_folder.load_newest()
    trainer.restore(saved)
    lines = settle(run, trainer.progress, faults)
    return [*lines, f"resuming after step {trainer.progress.step:,}"]


def _fit(trainer: Trainer, interrupted: Callable[[], bool]) -> str | None:
    try:
        return trainer.fit(interrupted)
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise ConfigError(f"train.deterministic: {str(error).splitlines()[0]}") from error
    except OSError as error:
        saved = trainer.saved_step
        whole = "nothing was saved yet" if saved is None else f"step {saved:,} is the last saved"
        raise CheckpointError(
            f"{error.filename or trainer.run.path}: {error.strerror} at step "
            f"{trainer.progress.step:,}; {whole}: mend this, and the same command goes on there"
        ) from error


def _assemble(
    config: RunConfig, run: RunDirectory, device: torch.device, log: RunLog
) -> tuple[Parts, str]:
    """Everything that the trainer needs, and the summary of it for a reader."""
    started = time.monotonic()
    tokenizers, corpus = training_set(config, run, log.say)
    validator = _validator(config, tokenizers)
    model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    n_parameters = sum(p.numel() for p in model.parameters())
    train = config.train
    batcher = Batcher(corpus, train.batch_size, train.batch_by, config.seed)
    parts = Parts(model.to(device), batcher, validator, len(tokenizers.tgt.vocab), device)
    lines = [
        f"run           {run.path}",
        f"pairs         {_describe_pairs(corpus, validator)}",
        *_reference_lines(validator),
        f"vocabulary    {len(tokenizers.src.vocab):,} {config.data.src_lang}, "
        f"{len(tokenizers.tgt.vocab):,} {config.data.tgt_lang}"
        f"{' (joint)' if tokenizers.joint else ''}",
        *(f"              {note}" for note in vocabulary_notes(tokenizers, corpus)),
        f"model         {config.model.kind}, {n_parameters:,} parameters",
        f"device        {describe_device(device)}, {train.precision}",
        f"backend       {_backend(config, device)}",
        f"batches       {len(batcher.plan(0)):,} an epoch, {train.batch_size:,} "
        f"{train.batch_by} each"
        + (f", {train.accumulate} to an update" if train.accumulate > 1 else ""),
        f"memory        about {_memory_gib(n_parameters, config):.2f} GiB for weights, gradients "
        "and optimiser; the rest is known after the first batches",
        f"prepared in   {time.monotonic() - started:.1f} s",
    ]
    return parts, "\n".join(lines)


def _backend(config: RunConfig, device: torch.device) -> str:
    """The implementation of the operations and why it was chosen; see nmt.ops.backend."""
    with autocast(device, config.train.precision):
        dtype = compute_dtype(torch.empty(0, device=device))
    return why(config.model.backend, device, dtype)


def _data_files(config: RunConfig) -> list[Path]:
    """Every file that training reads, for the run card."""
    splits = [resolve_split(config.data, name) for name in ("train", "valid")]
    files = [file for split in splits if split for file in split_files(split, config.data)]
    return list(dict.fromkeys(files))


def _validator(config: RunConfig, tokenizers: Tokenizers) -> Validator | None:
    """What measures the model on the validation set; None without one.

    The loss is over every reference of a sentence. Raises ConfigError where something waits for
    validations that will never come.
    """
    split = resolve_split(config.data, "valid")
    if split is None:
        waiting = [("valid.patience", config.valid.patience is not None)]
        waiting += [("train.schedule.kind 'plateau'", config.train.schedule.kind == "plateau")]
        for what, waits in waiting:
            if waits:
                raise ConfigError(
                    f"{what} needs a validation set, and corpus '{config.data.corpus}' has no "
                    "split valid; give data.valid"
                )
        return None
    examples = read_examples(split, config.data)
    corpus = encode_pairs(pairs_of(examples), tokenizers, _NO_LIMIT)
    return Validator(corpus, examples, tokenizers, config.valid, config.search)


def _describe_pairs(corpus: EncodedCorpus, validator: Validator | None) -> str:
    dropped = sum(corpus.dropped.values())
    text = f"{len(corpus):,} for training"
    if dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in corpus.dropped.items())
        text += f" ({dropped:,} left out: {reasons})"
    if validator is not None:
        text += f", {len(validator.examples):,} sentences for validation"
        if empty := sum(validator.corpus.dropped.values()):
            text += f" ({empty:,} pairs with an empty side count in its BLEU, not in its loss)"
    return text


def _reference_lines(validator: Validator | None) -> list[str]:
    """What BLEU alters in the references of the validation set, if anything."""
    if validator is None:
        return []
    hyp_texts = ["" for _ in validator.examples]
    notes = validator.scoring.comparable(hyp_texts, validator.examples).notes()
    return [f"references    {note}" for note in notes]


def _memory_gib(n_parameters: int, config: RunConfig) -> float:
    """fp32 weights and gradients, and what the optimiser keeps for each."""
    kept = {"sgd": 1 if getattr(config.train.optimizer, "momentum", 0) else 0}
    copies = 2 + kept.get(config.train.optimizer.kind, 2)
    return copies * 4 * n_parameters / 2**30
