"""Where a run is: every plain number that a resumed run needs to go on as if unbroken."""

from dataclasses import asdict, dataclass


@dataclass
class Progress:
    """Counters of a run; the one mutable value of training, saved as JSON in a checkpoint.

    `epoch` and `batch` say which micro-batch comes next; `window_*` sum over the updates since
    the last line of the log; times are seconds of training, validation included.
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

    def to_json(self) -> dict[str, float | int | str | None]:
        """All fields by name."""
        return asdict(self)
