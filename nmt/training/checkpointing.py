"""When a checkpoint is written, which ones are kept, and what is saved after an error."""

import contextlib

from torch import Tensor

from nmt.runs.checkpoints import CheckpointFolder
from nmt.runs.lock import RunLock
from nmt.training.guards import refuse_bad_weights
from nmt.training.log import RunLog
from nmt.training.rng import set_torch_rng, torch_rng
from nmt.training.state import TrainingState


class Checkpointer:
    """Writes `state` to the run's checkpoints. `saved_step` is the last step that was written."""

    def __init__(
        self,
        state: TrainingState,
        folder: CheckpointFolder,
        log: RunLog,
        saved_step: int | None,
        lock: RunLock | None,
    ) -> None:
        self.saved_step = saved_step
        self._state = state
        self._folder = folder
        self._log = log
        self._lock = lock
        self._rng_before_update: dict[str, Tensor] | None = None

    def save(self) -> None:
        """Write a checkpoint of this step, which a later one may replace.

        All ranks call it together; the first one writes. Before the first validation the last
        checkpoint is the best. Raises DivergedError for
        weights that are NaN or infinite, CheckpointError where the run's lock is gone, OSError
        where the disk refuses.
        """
        state, progress = self._state, self._state.progress
        refuse_bad_weights(state.model, progress.step, self.saved_step)
        tensors, values = state.state_dict()
        if state.ranks.is_first:
            self._write(tensors, values)
        state.ranks.wait()
        self.saved_step = progress.step

    def _write(self, tensors: dict[str, Tensor], values: dict[str, object]) -> None:
        state, progress = self._state, self._state.progress
        if self._lock is not None:
            self._lock.check()
        self._log.sync()
        self._folder.save(progress.step, state.final_model.state_dict(), tensors, values)
        is_best = progress.best_step is None or progress.best_step == progress.step
        labels = ("best", "last") if is_best else ("last",)
        self._folder.point(dict.fromkeys(labels, progress.step))
        self._folder.prune(progress.kept)

    def save_scheduled(self, keep_last: int) -> None:
        """Write a checkpoint that stays while it is among the `keep_last` newest or the best."""
        progress = self._state.progress
        if not progress.has_scheduled_checkpoint:
            progress.kept_steps = [*progress.kept_steps, progress.step][-keep_last:]
            self.save()

    def begin_update(self) -> None:
        """Note the random generators, so that an update that fails can be taken back."""
        self._rng_before_update = torch_rng(self._state.device)

    def end_update(self) -> None:
        """Mark the state as consistent: weights, optimiser and counters are of one step again."""
        self._state.is_consistent, self._rng_before_update = True, None

    @property
    def step_after_error(self) -> int | None:
        """The last saved step once `rescue` has run, or None if nothing is saved then."""
        state = self._state
        can_rescue = state.is_consistent and state.progress.step > 0 and state.ranks.world == 1
        return state.progress.step if can_rescue else self.saved_step

    def rescue(self) -> None:
        """After an error: save what was learned since the last checkpoint, if it is consistent.

        An update that failed before it changed a weight is taken back. The run that goes on is
        then, bit for bit, the run that did not fail. Among several ranks nothing is saved: the
        others may be gone, and with them their generators.
        """
        state, step = self._state, self._state.progress.step
        if self.step_after_error in (None, self.saved_step):
            return
        with contextlib.suppress(Exception):  # the first error is the one to report
            if self._rng_before_update is not None:
                set_torch_rng(self._rng_before_update, state.device)
            self.save()
            self._log.say(f"saved at step {step:,}, before an error")
