"""The cadence of a training: update, report, validate, save, stop."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from nmt.config import RunConfig
from nmt.data.batching import Batch
from nmt.device import is_out_of_memory, release_freed_memory
from nmt.errors import CheckpointError
from nmt.optim.schedules import PlateauConfig
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import RunLock
from nmt.training.checkpointing import Checkpointer
from nmt.training.distributed import AgreedStop
from nmt.training.guards import (
    AttentionWatch,
    DivergenceWatch,
    explain_update_errors,
    refuse_bad_weights,
    validation_memory_error,
)
from nmt.training.log import RunLog
from nmt.training.progress import end_reason, epoch_name, epoch_plan
from nmt.training.report import Reporter
from nmt.training.samples import sample_file, samples_text
from nmt.training.state import TrainingState
from nmt.training.step import DivergedError, StepResult, StepSettings, train_step
from nmt.training.training_data import TrainingData, guided_heads
from nmt.training.validation import ValidationResult


class Trainer:
    """Trains `state` on `data` by `config`, from its present progress."""

    def __init__(
        self,
        config: RunConfig,
        state: TrainingState,
        data: TrainingData,
        run: RunDirectory,
        log: RunLog,
        lock: RunLock | None,
    ) -> None:
        train = config.train
        self.config = config
        self.state = state
        self.data = data
        self.run = run
        self.log = log
        # A state beyond step 0 comes from its checkpoint.
        saved_step = state.progress.step or None
        self.checkpointer = Checkpointer(state, run.checkpoint_folder, log, saved_step, lock)
        self._ranks = state.ranks
        self._group_size = train.accumulate * self._ranks.world
        self._reporter = Reporter(state, log, train, data.batcher)
        assert train.precision != "auto"  # train() has chosen
        plateau = train.schedule if isinstance(train.schedule, PlateauConfig) else None
        self._restores_best = plateau is not None and plateau.restore_best
        self._attention_watch = AttentionWatch()
        self._watch = DivergenceWatch(data.tgt_vocab_size, is_new=saved_step is None)
        self._loss = train.loss.build(guided_heads(config, state.model))
        self._settings = StepSettings(
            precision=train.precision,
            clip_norm=train.clip_norm,
            scaler=state.scaler,
            ranks=state.ranks,
        )

    def fit(self, interrupted: Callable[[], bool]) -> str | None:
        """Train to the end and return why it ended, or None where `interrupted()` came first.

        Either way the last checkpoint holds the very state in which this returns. Raises
        NMTError where the loss or a weight is NaN or infinite, OSError where the disk refuses;
        earlier checkpoints stay as they were. Before any other error passes, the state after the
        last complete update is saved, if it can be.
        """
        try:
            return self._fit(AgreedStop(interrupted, self._ranks))
        except BaseException as error:
            if not isinstance(error, DivergedError):
                self.checkpointer.rescue()
            raise

    def end_reason(self) -> str | None:
        """Why the run is over, or None."""
        return end_reason(self.config, self.state.progress)

    @property
    def last_loss_and_speed(self) -> tuple[float, float] | None:
        """See Reporter."""
        return self._reporter.last_loss_and_speed

    def _fit(self, interrupted: AgreedStop) -> str | None:
        self.state.model.train()
        progress = self.state.progress
        if progress.step:
            self._validate_or_save_if_due(interrupted)  # a stop may have come before it
        while (reason := self.end_reason()) is None and not interrupted():
            self._run_epoch(interrupted)
        self.log.close_bar()
        if reason is not None and not self._validate_and_save(interrupted):
            reason = None
        if self.checkpointer.saved_step != progress.step:
            self.checkpointer.save()
        return reason

    def _run_epoch(self, interrupted: AgreedStop) -> None:
        """Updates until this epoch or the run ends."""
        progress, batcher = self.state.progress, self.data.batcher
        plan = epoch_plan(batcher, progress)
        if progress.batch >= len(plan):
            raise CheckpointError(
                f"{self.run.path}: step {progress.step}: training state is at batch "
                f"{progress.batch} of an epoch that has {len(plan)}"
            )
        name = epoch_name(self.config.train, progress)
        self.log.open_bar(name, len(plan), progress.batch)
        while group := plan[progress.batch : progress.batch + self._group_size]:
            mine = self._ranks.share([batcher.n_positions(rows, progress.epoch) for rows in group])
            batches = [batcher.corpus.batch(group[i], progress.epoch) for i in mine]
            is_last = progress.batch + len(group) >= len(plan)
            self._go_back_if_due()
            self.checkpointer.begin_update()
            result = self._update(batches, interrupted)
            progress.count_update(len(group), is_last)
            self.checkpointer.end_update()
            self._reporter.after_update(result, len(group), len(plan))
            self._validate_or_save_if_due(interrupted)
            if is_last or self.end_reason() is not None or interrupted():
                return

    def _update(self, group: Sequence[Batch], interrupted: AgreedStop) -> StepResult:
        """One update, to which this rank contributes `group`; the state is inconsistent afterwards.

        The ranks agree whether they stop after it.
        """
        state, train = self.state, self.config.train
        saved = self.checkpointer
        settings = replace(self._settings, loss=self._loss.at_epoch(state.progress.epoch))
        with explain_update_errors(
            group, state.progress.step + 1, train, saved.saved_step, lambda: saved.step_after_error
        ):
            result = train_step(state.model, state.optimizer, group, settings, self._begin_change)
        state.schedule.after_update()
        if state.averages is not None:
            state.averages.update_parameters(state.model)
        self._watch.update(result.loss)
        n_src_tokens, n_interrupted = self._ranks.sum(
            sum(batch.n_src_tokens for batch in group), interrupted.is_wanted
        )
        interrupted.agree(n_interrupted)
        self._reporter.count_update(group, result, int(n_src_tokens))
        return result

    def _go_back_if_due(self) -> None:
        """Take the best checkpoint's weights and optimiser state, if the rate has just fallen.

        This precedes the next update, so that the checkpoint of this step is what was validated.
        """
        state, step = self.state, self.state.progress.restore_step
        if step is None:
            return
        try:
            saved = self.run.checkpoint_folder.load(str(step))
            self._begin_change()
            state.go_back(saved, f"{self.run.path}: step {step}")
        except CheckpointError as error:
            if not state.is_consistent or self._ranks.world > 1:  # the others went back
                raise
            self.log.say(f"{error}; going on with the weights of step {state.progress.step:,}")
        else:
            self.log.say(
                f"the learning rate fell: weights and optimiser are those of step {step:,}"
            )
        state.progress.restore_step, state.is_consistent = None, True

    def _begin_change(self) -> None:
        self.state.is_consistent = False

    def _validate_or_save_if_due(self, interrupted: AgreedStop) -> None:
        progress, train = self.state.progress, self.config.train
        every, save_every = self.config.valid.every, train.save_every
        if progress.batch == 0 if every is None else progress.step % every == 0:
            self._validate_and_save(interrupted)
        elif save_every is not None and progress.step % save_every == 0:
            self.checkpointer.save_scheduled(train.keep_last)

    def _validate_and_save(self, interrupted: AgreedStop) -> bool:
        """Have this step validated and saved. Returns False if it was interrupted."""
        if not self.state.progress.is_validated and not self._validate(interrupted):
            return False
        self.checkpointer.save_scheduled(self.config.train.keep_last)
        return True

    def _validate(self, interrupted: AgreedStop) -> bool:
        """Validate, count and report. Returns False, with nothing changed, if interrupted."""
        state, progress = self.state, self.state.progress
        if self.data.validator is None:
            progress.validated_step = progress.step
            return True
        refuse_bad_weights(state.model, progress.step, self.checkpointer.saved_step)
        started = time.monotonic()
        result = self._measure(interrupted)
        interrupted.agree(result is None)
        if result is None:
            return False
        self._begin_change()
        measured, metric = result.measured(), self.config.valid.metric
        is_best = progress.count_validation(measured, metric, self.config.train.keep_best)
        has_fallen = state.schedule.after_validation(measured)
        if has_fallen and self._restores_best and not is_best:
            progress.restore_step = progress.best_step
        state.is_consistent = True
        text = f"{result.describe()}{'  (best so far)' if is_best else ''}\n{result.samples_text()}"
        self._reporter.after_validation(measured, text, time.monotonic() - started)
        if result.samples:
            self.log.write(sample_file(progress.step), samples_text(result.samples))
        collapse = self._attention_watch.report(result.health)
        for report in filter(None, (self._watch.report(result.loss), collapse)):
            self.log.say(report)
        return True

    def _measure(self, interrupted: AgreedStop) -> ValidationResult | None:
        assert self.data.validator is not None
        release_freed_memory()  # a search and an update have no sizes of blocks in common
        try:
            model, device = self.state.final_model, self.state.device
            result = self.data.validator.run(
                model,
                device,
                interrupted.interrupted,
                self._ranks,
                self._loss,
            )
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or self._ranks.world > 1:  # the others cannot save
                raise
            self.checkpointer.save()
            raise validation_memory_error(self.state.progress.step, self.config) from error
        release_freed_memory()
        return result
