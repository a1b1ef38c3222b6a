"""The training loop: when to update, report, validate, save and stop."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nmt.batches.batching import Batch
from nmt.batches.loader import Loader
from nmt.config import RunConfig
from nmt.device import is_out_of_memory, release_freed_memory
from nmt.models.base import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import RunLock
from nmt.training.graphs import TrainingGraphs
from nmt.training.guards import (
    check_finite_weights,
    collapse_note,
    divergence_note,
    explain_update_errors,
    validation_memory_error,
)
from nmt.training.log import RunLog
from nmt.training.progress import end_reason, epoch_name
from nmt.training.report import Reporter
from nmt.training.samples import sample_file, samples_text
from nmt.training.state import TrainingState
from nmt.training.step import (
    PendingResult,
    StepResult,
    StepSettings,
    queue_step,
    read_results,
    train_step,
)
from nmt.training.training_data import TrainingData, guided_heads
from nmt.training.validation import ValidationResult, Validator

_READ_EVERY = 10  # updates on a GPU before the host waits for their results


@dataclass(frozen=True)
class Update:
    """An update of the weights. `loss`, in nats per target token, was measured before the update.

    On a GPU, up to ten results are read at once, so `model` may be nine updates past `step`.
    """

    step: int
    loss: float
    model: Seq2Seq


@dataclass(eq=False)
class Trainer:
    """Trains `state` on `data` according to `config`, starting from the progress of `state`."""

    config: RunConfig
    state: TrainingState
    data: TrainingData
    run: RunDirectory
    log: RunLog
    lock: RunLock | None
    callbacks: Sequence[Callable[[Update], object]] = ()

    def __post_init__(self) -> None:
        config, train, state = self.config, self.config.train, self.state
        # A state after step 0 was loaded from a checkpoint.
        self.saved_step = state.step or None
        self._interrupted: Callable[[], bool] = lambda: False
        self._is_stopped = False
        self._ranks = state.ranks
        self._reporter = Reporter(state, self.log, train, self.data.batcher)
        assert train.precision != "auto"  # resolved by train()
        self._last_loss = 0.0
        is_cuda = state.device.type == "cuda"
        self._loss = train.loss.build(guided_heads(config, state.model))
        self._settings = StepSettings(
            precision=train.precision,
            clip_norm=train.clip_norm,
            scaler=state.scaler,
            ranks=state.ranks,
            graphs=TrainingGraphs(state.model) if is_cuda else None,
        )
        self._unread: list[PendingResult] = []
        self._read_every = _READ_EVERY if is_cuda and self._ranks.world == 1 else 1

    def fit(self, interrupted: Callable[[], bool]) -> str | None:
        """Train until a stopping rule applies; return the reason, or None if interrupted.

        `interrupted` is called after each update and between the batches of a validation. On return
        the last checkpoint matches the state. Raises NMTError if memory is exhausted or the loss or
        a weight is NaN or infinite, and OSError if a checkpoint cannot be written. Earlier
        checkpoints are kept.
        """
        state, self._interrupted = self.state, interrupted
        state.model.train()
        self._agree()
        if state.step:
            self._validate_or_save_if_due()  # the run may have been stopped before this
        while not self._is_ending:
            self._run_epoch()
        self.log.close_bar()
        reason = end_reason(self.config, state.progress)
        if reason is not None and not self._validate_and_save():
            reason = None
        if self.saved_step != state.step:
            self.save()
        return reason

    def _agree(self, number: int = 0) -> int:
        """Return the sum of `number` over the ranks; also agree on elapsed time and on a stop."""
        seconds = self._reporter.seconds if self._ranks.is_first else 0.0
        total, seconds, n_stops = self._ranks.sum(number, seconds, self._interrupted())
        self.state.set_seconds(seconds)
        self._is_stopped = self._is_stopped or n_stops > 0
        return int(total)

    def _run_epoch(self) -> None:
        """Update until this epoch or the run ends, or the ranks agree to stop."""
        state, stages = self.state, self.config.data.stages
        stage = self.config.data.stage_at(state.step)
        batcher = self.data.batchers[stage]
        plan = batcher.plan(state.progress.epoch)
        name = epoch_name(self.config.train, state.progress.epoch + 1)
        if state.start_epoch(plan):
            self.log.say(f"batches       {name} starts again: its batches have changed")
        if stage and state.step == stages[stage - 1].from_step:
            values = stages[stage - 1].model_dump_json(exclude_defaults=True)
            self.log.say(f"stage {stage} of {len(stages)}  {values}")
        size = self.config.train.accumulate * self._ranks.world
        if (n_updates := self.config.data.updates_to_next_stage(state.step)) is not None:
            plan = plan.head(state.progress.batch + n_updates * size)
        self.log.open_bar(name, len(plan), state.progress.batch)
        share, for_gpu = self._ranks.share, state.device.type == "cuda"
        loader = Loader(batcher, plan, state.progress.epoch, size, share, for_gpu)
        with contextlib.closing(loader.groups(state.progress.batch)) as groups:
            for group in groups:
                self._update(group.batches)
                state.after_update(group.n_batches, group.is_last)
                n_src_tokens = self._agree(sum(batch.n_src_tokens for batch in group.batches))
                if self._must_read or self._is_ending:
                    self._read()
                self._reporter.after_update(group, n_src_tokens, len(plan))
                self._validate_or_save_if_due()
                if self._is_ending:
                    return

    def _update(self, group: Sequence[Batch]) -> None:
        """Update the weights once. `group` is this rank's share of the update."""
        state = self.state
        settings = replace(self._settings, loss=self._loss.at_epoch(state.progress.epoch))
        step = queue_step if self._read_every > 1 else train_step
        with explain_update_errors(state.step + 1, self.config, self.saved_step):
            result = step(state.model, state.optimizer, group, settings)
        if isinstance(result, PendingResult):
            self._unread.append(result)
        else:
            self._count(result, state.step + 1)

    @property
    def _is_ending(self) -> bool:
        return self._is_stopped or end_reason(self.config, self.state.progress) is not None

    @property
    def _must_read(self) -> bool:
        """Whether results must be read: for the log, a validation, a save or a full queue."""
        is_logged = self.state.step % self.config.train.log_every == 0
        is_due = self._is_validation_due or self._is_save_due
        return is_logged or is_due or len(self._unread) >= self._read_every

    def _read(self) -> None:
        """Wait for the queued updates. Raises DivergedError as `read_results` does."""
        unread, self._unread = self._unread, []
        first = self.state.step - len(unread) + 1
        with explain_update_errors(first, self.config, self.saved_step):
            results = read_results(unread) if unread else []
        for step, result in enumerate(results, start=first):
            self._count(result, step)

    def _count(self, result: StepResult, step: int) -> None:
        self.state.after_result(result)
        self._last_loss = result.loss
        self._reporter.after_result(result)
        for callback in self.callbacks:
            callback(Update(step, result.loss, self.state.model))

    @property
    def _is_validation_due(self) -> bool:
        progress, every = self.state.progress, self.config.valid.every
        return progress.batch == 0 if every is None else progress.step % every == 0

    @property
    def _is_save_due(self) -> bool:
        save_every = self.config.train.save_every
        return save_every is not None and self.state.step % save_every == 0

    def _validate_or_save_if_due(self) -> None:
        if self._is_validation_due:
            self._validate_and_save()
        elif self._is_save_due:
            self._save_scheduled()

    def _validate_and_save(self) -> bool:
        """Validate this step unless that is done, and save it. Return False if interrupted."""
        validated_step = self.state.progress.validated_step
        if not self.state.progress.is_validated and not self._validate():
            return False
        self._save_scheduled(is_changed=self.state.progress.validated_step != validated_step)
        return True

    def _validate(self) -> bool:
        """Validate this step and report it. If interrupted, return False and write no record."""
        state, metric = self.state, self.config.valid.metric
        if self.data.validator is None:
            return True
        check_finite_weights(state.model, state.step, self.saved_step)
        started = time.monotonic()
        result = self._measure(self.data.validator)
        if result is None:
            self._is_stopped = True
            return False
        measured, is_first = result.measured(), state.progress.validated_step is None
        is_best = state.after_validation(measured, metric, self.config.train)
        self._agree()
        text = f"{result.describe()}{'  (best so far)' if is_best else ''}\n{result.samples_text()}"
        self._reporter.after_validation(measured, text, time.monotonic() - started)
        if result.samples:
            self.log.write(sample_file(state.step), samples_text(result.samples))
        notes = [divergence_note(self._last_loss, result.loss, len(self.data.tokenizers.tgt.vocab))]
        notes += [] if is_first else [collapse_note(result.health)]
        for note in filter(None, notes):
            self.log.say(note)
        return True

    def _measure(self, validator: Validator) -> ValidationResult | None:
        state = self.state
        release_freed_memory()  # updates and search allocate blocks of different sizes
        try:
            result = validator.run(state.final_model, state.device, self._interrupted, state.ranks)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or self._ranks.world > 1:  # all ranks must save together
                raise
            self.save()
            raise validation_memory_error(state.step, validator) from error
        release_freed_memory()
        return result

    def save(self) -> None:
        """Write a checkpoint of this step, which the next save may delete.

        All ranks must call this together; the first rank writes. Before the first validation the
        last checkpoint is also `best`. Raises DivergedError if a weight is NaN or infinite,
        CheckpointError if the run's lock is gone, and OSError if the file cannot be written.
        """
        state = self.state
        check_finite_weights(state.model, state.step, self.saved_step)
        tensors, values = state.state_dict()
        if state.ranks.is_first:
            if self.lock is not None:
                self.lock.check()
            self.log.sync()
            values["metrics"] = self.log.checksum
            folder, best_step = self.run.checkpoint_folder, state.progress.best_step
            folder.save(state.step, state.final_model.state_dict(), tensors, values)
            labels = ("best", "last") if best_step in (None, state.step) else ("last",)
            folder.update_labels(dict.fromkeys(labels, state.step))
            folder.prune(state.progress.steps_to_keep)
        state.ranks.wait()
        self.saved_step = state.step

    def _save_scheduled(self, is_changed: bool = False) -> None:
        """Write a checkpoint that is kept while it is among the newest or the best.

        If this step has such a checkpoint, it is written again only if the state `is_changed`.
        """
        is_kept = self.state.step in self.state.progress.kept_steps
        if not is_kept:
            self.state.record_kept_step(self.config.train.keep_last)
        if is_changed or not is_kept:
            self.save()
