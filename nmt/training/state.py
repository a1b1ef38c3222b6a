"""The full state of a training, and its conversion to and from the content of a checkpoint."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from nmt.batches.batching import Batcher
from nmt.batches.plan import EpochPlan
from nmt.config import TrainConfig
from nmt.errors import CheckpointError
from nmt.models.base import Seq2Seq
from nmt.optim.schedules import Schedule, check_same_structure
from nmt.runs.checkpoints import CheckpointState
from nmt.runs.trained_run import check_fit
from nmt.storage.tensor_file import check_specs, specs_of
from nmt.training.distributed import ALONE, Ranks
from nmt.training.progress import Progress, total_steps
from nmt.training.rng import pack_rng, restore_rng
from nmt.training.step import StepResult

Json = dict[str, Any]

WEIGHTS_PREFIX = "weights."  # prefix of the trained weights, saved only beside averages (train.ema)

_MISFITS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, CheckpointError)
"""Errors raised while loading a checkpoint that does not fit the run."""


@dataclass
class TrainingState:
    """The state of a training. A restored training continues bit for bit as if uninterrupted.

    The states of torch's random generators differ between the `ranks`. `state_dict` collects them,
    and `load_checkpoint` restores this rank's. Everything else is equal on all ranks. `averages`
    holds a copy of the model with averaged weights, or is None without train.ema. Only methods of
    this class change `progress`.
    """

    model: Seq2Seq
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    scaler: torch.amp.GradScaler
    device: torch.device
    progress: Progress
    averages: AveragedModel | None = None
    ranks: Ranks = ALONE

    @classmethod
    def new(
        cls,
        model: Seq2Seq,
        train: TrainConfig,
        batcher: Batcher,
        device: torch.device,
        ranks: Ranks = ALONE,
    ) -> "TrainingState":
        parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        optimizer = train.optimizer.build(parameters, train.lr)
        schedule = Schedule(train.schedule, optimizer, total_steps(train, batcher, ranks.world))
        scaler = torch.amp.GradScaler(device.type, enabled=train.precision == "fp16")
        averages = None if train.ema is None else train.ema.build(model)
        return cls(model, optimizer, schedule, scaler, device, Progress(), averages, ranks)

    @property
    def final_model(self) -> Seq2Seq:
        """The model to validate and save: with averaged weights if train.ema is set."""
        return self.model if self.averages is None else cast(Seq2Seq, self.averages.module)

    def start_epoch(self, plan: EpochPlan) -> bool:
        """Record the plan of this epoch. Return whether an interrupted epoch must start again.

        It must if the plan differs from the recorded plan, in which `progress.batch` is a position.
        Other batch sizes or noise change the plan.
        """
        batch, fingerprint = self.progress.batch, plan.fingerprint
        is_valid = self.progress.plan == fingerprint and batch < len(plan)
        self.progress = replace(self.progress, batch=batch if is_valid else 0, plan=fingerprint)
        return batch > 0 and not is_valid

    def after_update(self, n_batches: int, is_last: bool) -> None:
        """Advance schedule, averages and progress; `is_last` marks the epoch's last update."""
        self.schedule.after_update()
        if self.averages is not None:
            self.averages.update_parameters(self.model)
        step, epoch = self.progress.step + 1, self.progress.epoch + is_last
        batch = 0 if is_last else self.progress.batch + n_batches
        self.progress = replace(self.progress, step=step, epoch=epoch, batch=batch)

    def after_result(self, result: StepResult) -> None:
        nll_sum = self.progress.window_nll_sum + result.nll_sum
        n_tokens = self.progress.window_tokens + result.n_tokens
        self.progress = replace(self.progress, window_nll_sum=nll_sum, window_tokens=n_tokens)

    def after_validation(
        self, measured: Mapping[str, float], metric: str, train: TrainConfig
    ) -> bool:
        """Record a validation of this step. Return whether it is the best so far by `metric`."""
        self.progress = self.progress.after_validation(measured, metric, train.keep_best)
        self.schedule.after_validation(measured)
        return self.progress.best_step == self.step

    def record_kept_step(self, keep_last: int) -> None:
        """Add this step to `progress.kept_steps`, which are limited to the newest `keep_last`."""
        steps = (*self.progress.kept_steps, self.step)[-keep_last:]
        self.progress = replace(self.progress, kept_steps=steps)

    def reset_log_window(self) -> None:
        self.progress = replace(self.progress, window_nll_sum=0.0, window_tokens=0)

    def set_seconds(self, seconds: float) -> None:
        self.progress = replace(self.progress, seconds=seconds)

    @property
    def step(self) -> int:
        return self.progress.step

    def state_dict(self) -> tuple[dict[str, Tensor], Json]:
        """Return the tensors and JSON values of the state, without the weights of `final_model`.

        All ranks must call this together, because it gathers their random generators.
        """
        optimizer = self.optimizer.state_dict()
        tensors = {
            f"optimizer.{index}.{name}": torch.as_tensor(value)
            for index, values in optimizer["state"].items()
            for name, value in values.items()
            if value is not None
        }
        if self.averages is not None:
            weights = self.model.named_parameters()
            tensors |= {f"{WEIGHTS_PREFIX}{name}": weight.detach() for name, weight in weights}
        for rank, generators in enumerate(self.ranks.gather(pack_rng(self.device))):
            tensors |= {f"{_prefix(rank)}{name}": state for name, state in generators.items()}
        values: Json = {
            "progress": asdict(self.progress),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "param_groups": optimizer["param_groups"],
            "n_averaged": None if self.averages is None else int(self.averages.n_averaged),
            "world": self.ranks.world,
        }
        return tensors, values

    def load_checkpoint(self, saved: CheckpointState, where: str) -> list[str]:
        """Restore a checkpoint, and return a line for the log if the number of processes changed.

        Hyperparameters come from the config of this run, not from the checkpoint. Raises
        CheckpointError, beginning with `where`, if the checkpoint does not fit.
        """
        check_fit(self.model, saved.model_tensors, where)
        try:
            self._load(saved)
        except _MISFITS as error:
            reason = error if isinstance(error, CheckpointError) else repr(error)[:200]
            raise CheckpointError(
                f"{where}: training state does not fit this run: {reason}"
            ) from None
        if saved.state["world"] == self.ranks.world:
            return []
        return [
            f"processes     {saved.state['world']} -> {self.ranks.world}: from now on an update "
            f"has {self.ranks.world} x train.accumulate batches, and dropout differs"
        ]

    def _load(self, saved: CheckpointState) -> None:
        values = cast(Json, saved.state)
        trained, moments = _below(WEIGHTS_PREFIX, saved.state_tensors), self._moments(saved)
        expected = {} if self.averages is None else dict(self.model.named_parameters())
        check_specs(specs_of(expected), specs_of(trained), "weights")
        if self.ranks.rank < values["world"]:  # a new rank keeps its seed
            restore_rng(_below(_prefix(self.ranks.rank), saved.state_tensors), self.device)
        progress = Progress.from_json(values["progress"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.model.load_state_dict(saved.model_tensors, strict=False)  # check_fit knows the names
        if self.averages is not None:
            self.averages.module.load_state_dict(saved.model_tensors, strict=False)
            self.averages.n_averaged.fill_(values["n_averaged"])
            self.model.load_state_dict(trained, strict=False)
        self.schedule.load_state_dict(values["schedule"], values["param_groups"])
        scaler = self.scaler.state_dict()
        if values["scaler"] and scaler:  # empty unless the precision is fp16
            check_same_structure("scaler", values["scaler"], scaler)
            self.scaler.load_state_dict(values["scaler"])
        self.progress = progress

    def _moments(self, saved: CheckpointState) -> dict[int, Json]:
        """Return the saved tensors of the optimiser by parameter index."""
        moments: dict[int, Json] = {}
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        for name, tensor in _below("optimizer.", saved.state_tensors).items():
            number, key = name.split(".")
            index = int(number)
            shape = torch.Size() if key == "step" else parameters[index].shape
            if tensor.shape != shape or tensor.dtype != torch.float32:
                raise CheckpointError(
                    f"'optimizer.{name}': got {tensor.dtype} {tuple(tensor.shape)}, allowed: "
                    f"torch.float32 {tuple(shape)}"
                )
            moments.setdefault(index, {})[key] = tensor
        for group in self.optimizer.state_dict()["param_groups"]:
            names = [moments.get(index, {}).keys() for index in group["params"]]
            if any(other != names[0] for other in names):
                raise CheckpointError("'optimizer': a parameter lacks tensors that others have")
        return moments


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, under the names without the prefix."""
    n = len(prefix)
    return {name[n:]: x for name, x in tensors.items() if name.startswith(prefix)}


def _prefix(rank: int) -> str:
    return f"rank{rank}.rng." if rank else "rng."
