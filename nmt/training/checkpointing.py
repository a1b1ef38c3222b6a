"""When a checkpoint is written, and which ones are kept."""

from torch import Tensor

from nmt.runs.checkpoints import CheckpointFolder
from nmt.runs.lock import RunLock
from nmt.training.guards import refuse_bad_weights
from nmt.training.log import RunLog
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

    def save(self) -> None:
        """Write a checkpoint of this step, which a later one may replace.

        All ranks call it together; the first one writes. Before the first validation the last
        checkpoint is the best. Raises DivergedError for weights that are NaN or infinite,
        CheckpointError where the run's lock is gone, OSError where the disk refuses.
        """
        state = self._state
        refuse_bad_weights(state.model, state.step, self.saved_step)
        state.set_records(self._log.n_records)
        tensors, values = state.state_dict()
        if state.ranks.is_first:
            self._write(tensors, values)
        state.ranks.wait()
        self.saved_step = state.step

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
        if not self._state.progress.has_scheduled_checkpoint:
            self._state.keep_step(keep_last)
            self.save()
