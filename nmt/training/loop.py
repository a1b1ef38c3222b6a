"""`train`: read the data, build the model, train it, and write a run directory."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import torch

from nmt.config import RunConfig
from nmt.corpora.corpora import file_digest, resolve_split, split_files
from nmt.device import Precision, autocast, bf16_unit, cudnn_rnn_uses_tf32, describe_device
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.evaluation.metrics import check_scoring
from nmt.models.catalog import build_model
from nmt.ops.backend import choose_backend
from nmt.ops.precision import compute_dtype
from nmt.runs.card import record_training_end, record_training_start
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import run_lock
from nmt.training.distributed import ALONE, Ranks
from nmt.training.initial_weights import copy_initial_weights, freeze
from nmt.training.log import RunLog
from nmt.training.memory_pairs import Pairs, store_pairs
from nmt.training.progress import ValidationRecord
from nmt.training.report import summary
from nmt.training.resume import (
    Change,
    check_run_folder,
    has_checkpoint,
    open_run,
    restore_checkpoints,
)
from nmt.training.rng import seed_all
from nmt.training.state import TrainingState
from nmt.training.trainer import Trainer, Update
from nmt.training.training_data import TrainingData
from nmt.types import FilePath, MetricName


@dataclass(frozen=True)
class Outcome:
    """The result of a training.

    `reason` says why the training ended. It is None if the training was interrupted and can
    be resumed. `best` is the best validation by `metric`, or None without validations.
    """

    run: Path
    step: int
    reason: str | None
    metric: MetricName
    best: ValidationRecord | None

    def describe(self) -> str:
        if self.reason is None:
            saved = f"stopped: saved at step {self.step:,}"
            return f"{saved}; the same command again continues this run"
        text = f"finished at step {self.step:,}: {self.reason}"
        if self.best is not None:
            text += f"; best {self.best.describe(self.metric)} at step {self.best.step:,}"
        return text


def train(  # noqa: PLR0913 - one call is a complete training
    config: RunConfig,
    folder: FilePath | None = None,
    command: Sequence[str] = (),
    interrupted: Callable[[], bool] = lambda: False,
    quiet: bool = False,
    allow_change: bool = False,
    ranks: Ranks = ALONE,
    *,
    pairs: Pairs | None = None,
    valid: Pairs | None = None,
    callbacks: Sequence[Callable[[Update], object]] = (),
) -> Outcome:
    """Train `config` in the run directory `folder`, or continue the run in that directory.

    `folder` is runs/NAME by default. `pairs` of source and target text replace data.train of the
    config, and `valid` replaces data.valid; the run keeps both as files. Each of the `callbacks` is
    called with each `Update` of the weights, on every rank.

    `command` is the command line to record in run.json; it may be empty. `interrupted` is called
    after every update and between the batches of a validation; when it returns True, the state is
    saved and the function returns. `allow_change` allows changes of certain keys in a continued run
    (resume.py). Raises ConfigError, DataError, CheckpointError or another NMTError for errors that
    the user can fix.

    All `ranks` must call this with the same arguments on a shared file system. The first rank
    writes the run directory and the log. Raises LostRankError if another rank ends.

    Seeds the global random generators. With several ranks, also sets torch's process group and the
    current GPU.
    """
    device = ranks.device(config.train.device)
    _check_deterministic(config)
    folder = Path(folder or Path("runs") / config.name)
    data_files = _checked_files(config) if pairs is None and valid is None else None
    check_run_folder(folder)
    with (
        ranks.connected(device),
        run_lock(folder) if ranks.is_first else contextlib.nullcontext() as lock,
        contextlib.ExitStack() as open_log,
    ):
        with ranks.first_rank_first():
            if data_files is None:
                config = store_pairs(config, folder, {"train": pairs, "valid": valid})
                data_files = _checked_files(config)
            run = RunDirectory(folder)
            is_begun = has_checkpoint(run) or not ranks.is_first
            earlier = run.load_config().train.precision if is_begun else None
            config, hardware = _choose_hardware(config, device, ranks, earlier)
            changes: Sequence[Change] = ()
            if ranks.is_first:
                checksums = {path: file_digest(path) for path in data_files}
                changes = open_run(folder, config, command, checksums, hardware, allow_change)
            log = RunLog(run.path if ranks.is_first else None, quiet)
            open_log.enter_context(log)
            if lock is not None and lock.missing:
                log.say(lock.missing)
            started = time.monotonic()
            seed_all(config.seed)
            data = TrainingData.load(config, run, log.say)
            state, weight_lines = _new_state(config, data, device, ranks, has_checkpoint(run))
            seconds = time.monotonic() - started
            lines = [summary(config, run, data, state.model, hardware, seconds)]
            lines += [f"changed       {change}" for change in changes]
            lines += weight_lines
            lines += _resume(state, run, log) if has_checkpoint(run) else log.rewind(0)
        if ranks.world > 1:
            ranks.check_same(_settings(config, data))
        ranks.broadcast_model(state.model)
        log.say("\n".join(lines))
        trainer = Trainer(config, state, data, run, log, lock, callbacks)
        reason = _fit_and_record(trainer, interrupted, command)
        best = state.progress.best[0] if state.progress.best else None
        outcome = Outcome(run.path, state.step, reason, config.valid.metric, best)
        log.say(outcome.describe())
        return outcome


def _choose_hardware(
    config: RunConfig, device: torch.device, ranks: Ranks, earlier: str | None
) -> tuple[RunConfig, dict[str, str]]:
    """Return `config` with the precision of the training, and a description of the hardware.

    `earlier` is the precision of the run so far, or None.
    """
    precision, precision_text = choose_precision(
        config.train.precision, device, cast(Precision | None, earlier)
    )
    if precision == "fp32" and cudnn_rnn_uses_tf32(device):
        precision_text += ", TF32 in recurrent layers"
    with autocast(device, precision):
        dtype = compute_dtype(torch.empty(0, device=device))
    hardware = {
        "device": describe_device(device),
        "precision": precision_text,
        "backend": str(choose_backend(config.model.backend, device, dtype)),
    }
    if ranks.world > 1:
        hardware["processes"] = str(ranks.world)
    train_config = config.train.model_copy(update={"precision": precision})
    return config.model_copy(update={"train": train_config}), hardware


def _settings(config: RunConfig, data: TrainingData) -> dict[str, object]:
    """Return the settings that must be the same on all ranks."""
    return {
        "seed": config.seed,
        "model": config.model.model_dump_json(),
        "train": config.train.model_dump_json(),
        "data.stages": repr(config.data.stages),
        "data.train": f"{data.batcher.fingerprint:08x} as the checksum of lengths",
    }


def _new_state(
    config: RunConfig, data: TrainingData, device: torch.device, ranks: Ranks, is_begun: bool
) -> tuple[TrainingState, list[str]]:
    """Return the state before the first update, and lines for the log about its weights.

    All ranks draw equal weights; after that, their random numbers differ. If `is_begun`, the caller
    loads the weights of a checkpoint.
    """
    src, tgt = data.tokenizers.src, data.tokenizers.tgt
    model = build_model(config.model, len(src.vocab), len(tgt.vocab)).to(device)
    lines = [] if is_begun else copy_initial_weights(model, config)
    lines += freeze(model, config.train.freeze)
    if not ranks.is_first:
        seed_all(config.seed + ranks.rank)
    return TrainingState.new(model, config.train, data.batcher, device, ranks), lines


def _resume(state: TrainingState, run: RunDirectory, log: RunLog) -> list[str]:
    """Load the newest intact checkpoint and rewind the log to it. Returns lines for the log."""
    saved, faults = run.checkpoint_folder.load_newest()
    lines = state.load_checkpoint(saved, f"{run.path}: step {saved.step}")
    if state.ranks.is_first:
        lines = [*restore_checkpoints(run, state.progress, faults), *lines]
    lines += log.rewind(state.step, state.progress.is_validated, saved.state.get("metrics"))
    return [*lines, f"resuming after step {state.step:,}"]


def _fit_and_record(
    trainer: Trainer, interrupted: Callable[[], bool], command: Sequence[str]
) -> str | None:
    run, state = trainer.run, trainer.state
    if not state.ranks.is_first:
        return _fit(trainer, interrupted)
    record_training_start(run, command, state.step)
    try:
        reason = _fit(trainer, interrupted)
    except BaseException as error:
        with contextlib.suppress(OSError, NMTError):  # `error` may already report the full disk
            why = str(error).partition("\n")[0] or type(error).__name__
            record_training_end(run, state.step, f"failed: {why}")
        raise
    record_training_end(run, state.step, "stopped" if reason is None else f"finished: {reason}")
    return reason


def _fit(trainer: Trainer, interrupted: Callable[[], bool]) -> str | None:
    try:
        return trainer.fit(interrupted)
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise ConfigError(f"train.deterministic: {str(error).splitlines()[0]}") from error
    except OSError as error:
        saved = trainer.saved_step
        last = "nothing was saved yet" if saved is None else f"step {saved:,} is the last saved"
        raise CheckpointError(
            f"{error.filename or trainer.run.path}: {error.strerror} at step "
            f"{trainer.state.step:,}; {last}: mend this, and the same command goes on there"
        ) from error


def _check_deterministic(config: RunConfig) -> None:
    """Raise ConfigError if train.deterministic is set but torch's own setting is not."""
    if config.train.deterministic and not torch.are_deterministic_algorithms_enabled():
        raise ConfigError(
            "train.deterministic: got true, but torch's deterministic algorithms are off in this "
            "process; call torch.use_deterministic_algorithms(True) first, as `nmt train` does"
        )


def choose_precision(
    setting: Precision | Literal["auto"], device: torch.device, earlier: Precision | None = None
) -> tuple[Precision, str]:
    """Return the precision for train.precision = `setting`, and the reason as text for run.json.

    `earlier` is the precision of the run so far, or None. The setting `auto` keeps the earlier
    precision on any device, because a run cannot continue bit for bit in another precision.
    """
    if setting != "auto":
        return setting, setting
    fast = bf16_unit(device)
    precision: Precision = "bf16" if fast else "fp32"
    reason = f"{fast} of this device" if fast else "this device is not faster in bf16"
    if device.type == "cuda" and not fast:
        reason += "; train.precision=fp16 may be faster"
    if earlier not in (None, precision):
        reason += f", but the run was begun in {earlier}"
    return earlier or precision, f"{earlier or precision} (auto: {reason})"


def _checked_files(config: RunConfig) -> list[Path]:
    """Return all files that training reads, after checking that validation can be scored."""
    splits = [resolve_split(config.data, name) for name in ("train", "valid")]
    files = [file for split in splits if split for file in split_files(split, config.data)]
    if config.train.guided is not None:
        files.append(config.train.guided.links)
    check_scoring(config)
    return list(dict.fromkeys(files))
