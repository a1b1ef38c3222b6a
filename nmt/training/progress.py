"""Where a run is: every plain number that a resumed run needs to go on as if unbroken."""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Strict

Count = Annotated[int, Strict(), Field(ge=0, le=2**53)]
Finite = Annotated[float, Strict(), Field(allow_inf_nan=False)]


def _check_batching(value: list[Any]) -> list[Any]:
    if value and not (
        len(value) == 2
        and type(value[0]) is int
        and 0 < value[0] <= 2**53
        and value[1] in ("sentences", "tokens")
    ):
        raise ValueError("expected a size and its unit")
    return value


def _check_earlier(value: list[Any]) -> list[Any]:
    if not _check_batching(value[:2]) or len(value) != 3 or type(value[2]) is not int:
        raise ValueError("expected a size, its unit and a number of batches")
    return value


@dataclass
class Progress:
    """Counters of a run; the one mutable value of training, saved as JSON in a checkpoint.

    `epoch` and `batch` say which micro-batch comes next in the plan of the epoch, which
    `batching` (size and unit) decides; where it was changed on the way, `earlier` holds each
    earlier batching with the number of its batches that were done.

    `window_*` sum over the updates since the last line of the log; times are seconds of training,
    validation included.
    `n_records` counts the lines of metrics.jsonl up to here.
    `validated_step` is the last step that was measured, `kept_steps` are those whose checkpoints
    stay. A checkpoint that only a stop made is not among these: the run that goes on is to
    leave what the unbroken one leaves. The types are what a checkpoint may hold (saved.py).
    """

    step: Count = 0
    epoch: Count = 0
    batch: Count = 0
    batching: Annotated[list[Any], AfterValidator(_check_batching)] = field(default_factory=list)
    earlier: list[Annotated[list[Any], AfterValidator(_check_earlier)]] = field(
        default_factory=list
    )
    seconds: Annotated[Finite, Field(ge=0)] = 0.0
    window_nll_sum: Finite = 0.0
    window_tokens: Count = 0
    best_bleu: Annotated[Finite, Field(ge=0, le=101)] | None = None
    best_loss: Annotated[float, Strict()] | None = None
    best_step: Count | None = None
    bad_validations: Count = 0
    validated_step: Count | None = None
    n_records: Count = 0
    kept_steps: list[Count] = field(default_factory=list)

    @property
    def is_validated(self) -> bool:
        """Whether the weights were measured as they are."""
        return self.validated_step == self.step

    @property
    def is_kept(self) -> bool:
        """Whether this step has a checkpoint that stays."""
        return self.step in self.kept_steps

    def rebatch(self, size: int, unit: str) -> None:
        """Have what is left of the epoch cut into batches of `size`."""
        if self.batching and self.batching != [size, unit] and self.batch:
            self.earlier.append([*self.batching, self.batch])
            self.batch = 0
        self.batching = [size, unit]

    def next_epoch(self) -> None:
        """An epoch is over."""
        self.epoch, self.batch, self.earlier = self.epoch + 1, 0, []

    def judge(self, bleu: float, loss: float) -> bool:
        """Count a validation of this step; whether it is the best so far.

        By BLEU, and by loss where BLEU is the same (0 in the first minutes).
        """
        self.validated_step = self.step
        if self.best_bleu is None or self.best_loss is None:
            better = True
        else:
            better = (bleu, -loss) > (self.best_bleu, -self.best_loss)
        if better:
            self.best_bleu, self.best_loss = bleu, loss
            self.best_step, self.bad_validations = self.step, 0
        else:
            self.bad_validations += 1
        return better

    def to_json(self) -> dict[str, object]:
        """All fields by name."""
        return asdict(self)
