"""Where a run is: every plain number that a resumed run needs to go on as if unbroken."""

from dataclasses import asdict, dataclass, field


@dataclass
class Progress:
    """Counters of a run; the one mutable value of training, saved as JSON in a checkpoint.

    `epoch` and `batch` say which micro-batch comes next; `window_*` sum over the updates since
    the last line of the log; times are seconds of training, validation included.
    `validated_step` is the last step that was measured, `kept_steps` are those whose checkpoints
    stay. A checkpoint that only a stop made is not among these: the run that goes on is to
    leave what the unbroken one leaves.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    window_nll_sum: float = 0.0
    window_tokens: int = 0
    best_bleu: float | None = None
    best_loss: float | None = None
    best_step: int | None = None
    bad_validations: int = 0
    validated_step: int | None = None
    kept_steps: list[int] = field(default_factory=list)

    @property
    def is_validated(self) -> bool:
        """Whether the weights were measured as they are."""
        return self.validated_step == self.step

    @property
    def is_kept(self) -> bool:
        """Whether this step has a checkpoint that stays."""
        return self.step in self.kept_steps

    def to_json(self) -> dict[str, object]:
        """All fields by name."""
        return asdict(self)
