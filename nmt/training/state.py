"""Everything that a resumed run needs, as one value: to tensors and JSON, and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from nmt.config import TrainConfig
from nmt.data.batching import Batcher
from nmt.errors import CheckpointError
from nmt.models.base import Seq2Seq
from nmt.optim.schedules import Schedule
from nmt.runs.checkpoints import CheckpointState
from nmt.runs.trained_run import check_fit
from nmt.training.distributed import ALONE, Ranks
from nmt.training.progress import Progress, total_steps
from nmt.training.rng import pack_rng, unpack_rng
from nmt.training.state_schema import WEIGHTS, SavedValues, check_tensors, of_rank, read_values

Json = dict[Any, Any]


@dataclass
class TrainingState:
    """The state of a training: a run that is restored from it goes on bit for bit as if unbroken.

    The random generators belong to it too. They are global, so they are read when the state is
    saved and set when it is loaded: those of all `ranks`, each of which has a state that is equal
    but for them. `lr` is the configured learning rate, before the schedule.
    `averages` are those of the weights with train.ema, in a model of their own.
    `is_consistent` is False while an update or a validation has changed some parts and not yet
    others; such a state must not be saved.
    """

    model: Seq2Seq
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    scaler: torch.amp.GradScaler
    lr: float
    device: torch.device
    progress: Progress
    averages: AveragedModel | None = None
    is_consistent: bool = True
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
        """The state before the first update."""
        parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        optimizer = train.optimizer.build(parameters, train.lr)
        schedule = Schedule(train.schedule, optimizer, total_steps(train, batcher, ranks.world))
        scaler = torch.amp.GradScaler(device.type, enabled=train.precision == "fp16")
        progress = Progress(batching=(batcher.size, batcher.unit))
        averages = None if train.ema is None else train.ema.build(model)
        return cls(
            model, optimizer, schedule, scaler, train.lr, device, progress, averages, ranks=ranks
        )

    @property
    def final_model(self) -> Seq2Seq:
        """The model that is validated and saved: that of the averages where there are any."""
        return self.model if self.averages is None else cast(Seq2Seq, self.averages.module)

    def state_dict(self) -> tuple[dict[str, Tensor], Json]:
        """All but the weights of `final_model`: tensors by name, and plain values for JSON.

        All ranks call it together, for it gathers their random generators.
        """
        optimizer = self.optimizer.state_dict()
        tensors = {
            f"optimizer.{index}.{name}": torch.as_tensor(value)
            for index, values in optimizer["state"].items()
            for name, value in values.items()
            if value is not None
        }
        if self.averages is not None:
            tensors |= {f"{WEIGHTS}{n}": p.detach() for n, p in self.model.named_parameters()}
        rngs = self.ranks.gather(pack_rng(self.device))
        for rank, (rng_tensors, _) in enumerate(rngs):
            tensors |= {of_rank(rank, name): tensor for name, tensor in rng_tensors.items()}
        values: Json = {
            "progress": asdict(self.progress),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "param_groups": optimizer["param_groups"],
            "lr": self.lr,
            "n_averaged": None if self.averages is None else int(self.averages.n_averaged),
            "rng": rngs[0][1],
            "rng_of_others": [rng_values for _, rng_values in rngs[1:]],
        }
        return tensors, values

    def load_state_dict(
        self, tensors: Mapping[str, Tensor], values: Json, where: str = "training state"
    ) -> None:
        """Restore what `state_dict` gave, but for the weights.

        Hyperparameters are not restored: this run's config decides them, and may have changed
        them. Raises CheckpointError, which names `where`, for anything that `state_dict` would not
        have given of this run; then nothing is changed, except perhaps random generators.
        """
        saved = self._checked(tensors, values, where)
        try:
            self._unpack_rng(tensors, [values["rng"], *values.get("rng_of_others", ())])
        except (CheckpointError, RuntimeError) as error:
            raise CheckpointError(f"{where} does not fit this run: {error}") from None
        self._load_optimizer(tensors, saved)
        self.schedule.load_state_dict(values["schedule"], self.lr / saved.lr)
        if values["scaler"]:  # empty if the precision was not fp16
            self.scaler.load_state_dict(values["scaler"])
        if self.averages is not None:
            self.averages.n_averaged.fill_(saved.n_averaged or 0)
        self.progress = saved.progress

    def load_checkpoint(self, saved: CheckpointState, where: str) -> None:
        """Restore a checkpoint; raises CheckpointError, which names `where`, if it does not fit."""
        batching = self.progress.batching
        check_fit(self.model, saved.model_tensors, where)
        self.load_state_dict(saved.state_tensors, saved.state, f"{where}: training state")
        if self.progress.step != saved.step:
            raise CheckpointError(f"{where}: training state is of step {self.progress.step}")
        self._load_weights(saved)
        self.progress.set_batching(batching)

    def go_back(self, saved: CheckpointState, where: str) -> None:
        """Take the weights, their averages and the optimiser's state of an earlier checkpoint.

        Learning rate, schedule, counters and random generators go on. Raises CheckpointError, with
        nothing changed, if it does not fit.
        """
        check_fit(self.model, saved.model_tensors, where)
        values = self._checked(saved.state_tensors, saved.state, where)
        rates = [group["lr"] for group in self.optimizer.param_groups]
        self._load_optimizer(saved.state_tensors, values)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._load_weights(saved)
        if self.averages is not None:
            self.averages.n_averaged.fill_(values.n_averaged or 0)

    def _checked(self, tensors: Mapping[str, Tensor], values: Json, where: str) -> SavedValues:
        """The values that fit this run; raises CheckpointError, which names `where`, if not."""
        try:
            saved = read_values(values)
            check_tensors(tensors, saved, self.model, self.optimizer, self.device)
        except (CheckpointError, RuntimeError) as error:
            raise CheckpointError(f"{where} does not fit this run: {error}") from None
        return saved

    def _unpack_rng(self, tensors: Mapping[str, Tensor], values: list[Json]) -> None:
        """Restore the generators of this rank; a rank that had none keeps those of its seed."""
        rank, prefix = self.ranks.rank, of_rank(self.ranks.rank, "")
        if rank < len(values):
            own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
            unpack_rng(own, values[rank], self.device)

    def _load_weights(self, saved: CheckpointState) -> None:
        """Take the weights of a checkpoint, and their averages.

        Averages of a run that had none begin with the next update. A run whose config has none any
        more goes on with its weights as they were trained.
        """
        if self.averages is not None:
            self.averages.module.load_state_dict(saved.model_tensors)
        self.model.load_state_dict(saved.model_tensors)
        trained = {
            name.removeprefix(WEIGHTS): tensor
            for name, tensor in saved.state_tensors.items()
            if name.startswith(WEIGHTS)
        }
        self.model.load_state_dict(trained, strict=False)

    def _load_optimizer(self, tensors: Mapping[str, Tensor], saved: SavedValues) -> None:
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, *rest = name.split(".")
            if kind == "optimizer":
                state.setdefault(int(rest[0]), {})[rest[1]] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        for group, saved_group in zip(groups, saved.param_groups, strict=True):
            group["lr"] = saved_group.lr
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
