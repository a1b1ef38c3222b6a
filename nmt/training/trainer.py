"""The training loop itself: update, log, validate, save, stop."""

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nmt.config import RunConfig
from nmt.data.batching import Batch, Batcher
from nmt.device import autocast
from nmt.errors import CheckpointError
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.optim.optimizers import Schedule, clip_gradients
from nmt.runs.checkpoints import CheckpointState
from nmt.runs.directory import RunDirectory, check_fit
from nmt.storage.process_memory import release_freed_memory
from nmt.training.guards import (
    DivergedError,
    DivergenceWatch,
    is_out_of_memory,
    memory_for_update,
    memory_for_validation,
    refuse_bad_weights,
    refuse_nan,
)
from nmt.training.limits import end_reason, total_steps
from nmt.training.loss import cross_entropy
from nmt.training.meter import MemoryUse, Meter
from nmt.training.progress import Progress
from nmt.training.rng import set_torch_rng, torch_rng
from nmt.training.runlog import Record, RunLog
from nmt.training.state import Engine, pack, unpack
from nmt.training.update_plan import groups, plan_of
from nmt.training.validation import Validator

_ESTIMATE_AFTER = 20
"""Updates of this process before the time of an epoch is estimated from them."""

_RELEASE_EVERY = 200
"""Updates until freed memory goes back to the system (docs/log/2026-11-22-memory.md). After
the first of these releases memory is estimated: by then most shapes of products have been seen
and cached."""


@dataclass(frozen=True)
class Parts:
    """What a run is assembled from."""

    model: Seq2Seq
    batcher: Batcher
    validator: Validator | None
    tgt_vocab_size: int
    device: torch.device


class Trainer:
    """Trains `parts.model` as `config` says, from where `progress` stands."""

    def __init__(self, config: RunConfig, parts: Parts, run: RunDirectory, log: RunLog) -> None:
        self.config = config
        self.parts = parts
        self.run = run
        self.log = log
        self.progress = Progress()
        self.progress.rebatch(parts.batcher.size, parts.batcher.unit)
        train = config.train
        self.parameters = [p for p in parts.model.parameters() if p.requires_grad]
        self.optimizer = train.optimizer.build(self.parameters, train.lr)
        self.schedule = Schedule(train.schedule, self.optimizer, total_steps(train, parts.batcher))
        self.scaler = torch.amp.GradScaler(parts.device.type, enabled=train.precision == "fp16")
        self._engine = Engine(self.optimizer, self.schedule, self.scaler, parts.device, train.lr)
        self.saved_step: int | None = None
        self._watch = DivergenceWatch(parts.tgt_vocab_size)
        # What `_rescue` has to know: whether weights, optimiser and counters belong together, and
        # the random generators as they were before an update that did not end.
        self._is_whole = True
        self._rng_before: dict[str, torch.Tensor] | None = None

    def restore(self, saved: CheckpointState) -> None:
        """Continue from a checkpoint; CheckpointError where it does not fit."""
        where = f"{self.run.path}: step {saved.step}"
        check_fit(self.parts.model, saved.model_tensors, where)
        progress = unpack(
            saved.state_tensors, saved.state, self._engine, f"{where}: training state"
        )
        if progress.step != saved.step:
            raise CheckpointError(f"{where}: training state is of step {progress.step}")
        self.parts.model.load_state_dict(saved.model_tensors)
        self.progress = progress
        self.progress.rebatch(self.parts.batcher.size, self.parts.batcher.unit)
        self.saved_step = saved.step

    def end_reason(self) -> str | None:
        """Why the run is over, or None."""
        return end_reason(self.config, self.progress)

    def fit(self, interrupted: Callable[[], bool]) -> str | None:
        """Train to the end and return why it ended, or None where `interrupted()` came first.

        Either way the last checkpoint holds the very state in which this returns. Raises
        NMTError where the loss or a weight is NaN or infinite, OSError where the disk refuses;
        earlier checkpoints stay as they were. Whatever else is raised, the state after the last
        whole update is saved first, if it can be.
        """
        try:
            return self._fit(interrupted)
        except BaseException as error:
            if not isinstance(error, DivergedError):
                self._rescue()
            raise

    def _fit(self, interrupted: Callable[[], bool]) -> str | None:
        self.parts.model.train()
        self.meter = Meter(self.progress)
        self._first_step, self._first_time = self.progress.step, time.monotonic()
        self._most_positions = 0
        if self.progress.step:
            self._after_step(interrupted)  # what a stop cut off
        while (reason := self.end_reason()) is None and not interrupted():
            self._run_epoch(interrupted)
        self.log.close_bar()
        if reason is not None and not self._measure_and_keep(interrupted):
            reason = None
        if self.saved_step != self.progress.step:
            self._save()
        return reason

    def _rescue(self) -> None:
        """Save what was learned since the last checkpoint, if the error left it whole.

        An update that failed before it changed a weight is as if it had not begun: the run that
        goes on is, bit for bit, the one that did not fail.
        """
        if not self._is_whole or self.saved_step == self.progress.step or not self.progress.step:
            return
        with contextlib.suppress(Exception):  # the first error is the one to be told of
            self.optimizer.zero_grad(set_to_none=True)
            if self._rng_before is not None:
                set_torch_rng(self._rng_before, self.parts.device)
            self._save()
            self.log.say(f"saved at step {self.progress.step:,}, before an error")

    def _run_epoch(self, interrupted: Callable[[], bool]) -> None:
        """Updates until this epoch or the run ends."""
        progress = self.progress
        plan = plan_of(self.parts.batcher, progress)
        n_batches = len(plan)
        if progress.batch >= n_batches:
            raise CheckpointError(
                f"{self.run.path}: step {progress.step}: training state is at batch "
                f"{progress.batch} of an epoch that has {n_batches}"
            )
        self.log.open_bar(progress.epoch, n_batches, progress.batch)
        batches = map(self.parts.batcher.corpus.batch, plan[progress.batch :])  # made when needed
        for group in groups(batches, self.config.train.accumulate):
            with memory_for_update(group, progress.step + 1, self.config.train):
                self._rng_before = torch_rng(self.parts.device)
                self._update(group)
            progress.step += 1
            progress.batch += len(group)
            if progress.batch == n_batches:
                progress.next_epoch()
            self._is_whole, self._rng_before = True, None
            self.log.advance_bar(len(group), self.meter.loss, self.meter.tokens_per_second)
            self._report(n_batches)
            self._after_step(interrupted)
            if self.end_reason() is not None or interrupted():
                return

    def _update(self, group: Sequence[Batch]) -> None:
        """One optimiser step over the micro-batches of `group`, exact in tokens."""
        train, parts = self.config.train, self.parts
        n_tokens = sum(batch.n_tokens for batch in group)
        nll_sum = 0.0
        for cpu_batch in group:
            self._most_positions = max(self._most_positions, cpu_batch.n_positions)
            batch = cpu_batch.to(parts.device)
            keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
            with autocast(parts.device, train.precision):
                output = parts.model(batch.src_ids, keep, batch.tgt_in)
                loss = cross_entropy(
                    output, batch.tgt_out, parts.tgt_vocab_size, train.label_smoothing
                )
            self.scaler.scale(loss.loss_sum / n_tokens).backward()  # type: ignore[no-untyped-call]
            nll_sum += float(loss.nll_sum)
        self.scaler.unscale_(self.optimizer)
        self.grad_norm = clip_gradients(self.parameters, train.clip_norm or math.inf)
        step, is_scaled = self.progress.step + 1, self.scaler.is_enabled()
        refuse_nan(nll_sum, self.grad_norm, step, is_scaled, self.saved_step)
        self._is_whole = False  # until the counters are those of this update
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.after_update()
        self.optimizer.zero_grad(set_to_none=True)
        self._watch.update(nll_sum / n_tokens)
        self.meter.add(nll_sum, n_tokens, sum(batch.n_src_tokens for batch in group))

    def _report(self, n_batches: int) -> None:
        progress, train = self.progress, self.config.train
        n_updates = progress.step - self._first_step
        if n_updates == _ESTIMATE_AFTER:
            self._say_estimate(math.ceil(n_batches / train.accumulate))
        if n_updates % _RELEASE_EVERY == 0:
            release_freed_memory()
        if n_updates == _RELEASE_EVERY:
            self._say_memory()
        if progress.step % train.log_every == 0:
            measured: Record = {
                "loss": self.meter.loss,
                "grad_norm": self.grad_norm,
                "tokens_per_second": self.meter.tokens_per_second,
            }
            self.meter.next_window()  # first: a record that cannot be written is still counted
            self._record("train", measured)

    def _after_step(self, interrupted: Callable[[], bool]) -> None:
        """Validate and save where it is time and not yet done."""
        progress, every, save = self.progress, self.config.valid.every, self.config.train.save_every
        if progress.batch == 0 if every is None else progress.step % every == 0:
            self._measure_and_keep(interrupted)
        elif save is not None and progress.step % save == 0 and not progress.is_kept:
            self._keep()

    def _measure_and_keep(self, interrupted: Callable[[], bool]) -> bool:
        """Whether this step is measured and has its checkpoint; not so where interrupted."""
        if not self.progress.is_validated and not self._validate(interrupted):
            return False
        if not self.progress.is_kept:
            self._keep()
        return True

    def _keep(self) -> None:
        """Save a checkpoint that stays as long as it is among the last ones or the best."""
        kept = [*self.progress.kept_steps, self.progress.step]
        self.progress.kept_steps = kept[-self.config.train.keep_last :]
        self._save()

    def _say_estimate(self, updates_per_epoch: int) -> None:
        seconds = (time.monotonic() - self._first_time) / _ESTIMATE_AFTER
        memory = MemoryUse.of(self.parts.device)
        in_use = "" if memory is None else f", {memory.peak / 2**30:.2f} GiB of memory so far"
        self.log.say(f"about {updates_per_epoch * seconds:,.0f} s an epoch{in_use}")

    def _say_memory(self) -> None:
        memory = MemoryUse.of(self.parts.device)
        if memory is not None:
            peak = memory.peak_for(self.parts.batcher.max_positions, self._most_positions)
            self.log.say(f"about {peak / 2**30:.2f} GiB of memory with the largest batch")

    def _record(self, kind: str, measured: Record) -> None:
        progress = self.progress
        progress.n_records += 1
        self.log.record(
            {
                "type": kind,
                "step": progress.step,
                "epoch": progress.epoch,
                "seconds": progress.seconds,
                "lr": float(self.optimizer.param_groups[0]["lr"]),
                **measured,
            }
        )

    def _validate(self, interrupted: Callable[[], bool]) -> bool:
        """Measure, report, and keep the count that early stopping reads; whether it was done.

        Interrupted, it leaves everything as it was before.
        """
        progress = self.progress
        if self.parts.validator is None:
            progress.validated_step = progress.step
            return True
        self._refuse_bad_weights()
        started = time.monotonic()
        release_freed_memory()  # a search and an update have no sizes of blocks in common
        try:
            result = self.parts.validator.run(self.parts.model, self.parts.device, interrupted)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self._save()
            raise memory_for_validation(progress.step, self.config) from error
        release_freed_memory()
        if result is None:
            return False
        self._is_whole = False  # until the schedule and the counters both know of it
        self.schedule.after_validation(result.loss)
        better = progress.judge(result.bleu, result.loss)
        self._is_whole = True
        self.meter.leave_out(time.monotonic() - started)
        self._record("valid", result.measured())
        self.log.say(
            f"step {progress.step:,}  epoch {progress.epoch}  {progress.seconds / 60:.1f} min  "
            f"{result.describe()}{'  (best so far)' if better else ''}\n{result.samples_text()}"
        )
        if words := self._watch.words(result.loss):
            self.log.say(words)
        return True

    def _refuse_bad_weights(self) -> None:
        """Raise DivergedError for weights that are NaN or infinite."""
        refuse_bad_weights(self.parts.model, self.progress.step, self.saved_step)

    def _save(self) -> None:
        """Write this step's checkpoint; without a validation yet, the last one is the best."""
        self._refuse_bad_weights()
        progress = self.progress
        tensors, values = pack(self._engine, progress)
        self.log.sync()
        self.run.save_checkpoint(progress.step, self.parts.model.state_dict(), tensors, values)
        is_best = progress.best_step is None or progress.best_step == progress.step
        labels = ("best", "last") if is_best else ("last",)
        self.run.point(dict.fromkeys(labels, progress.step))
        self.run.prune(progress.kept_steps)
        self.saved_step = progress.step
