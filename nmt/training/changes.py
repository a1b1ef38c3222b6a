"""The keys of a configuration that may change in a run that continues: always, on demand, never."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from nmt.config import RunConfig


class Verdict(Enum):
    """Whether a run may continue with another value of a key."""

    SAFE = "may change"
    ASK = "needs `allow_change`: from here on it is neither the one run nor the other"
    NEVER = "cannot change: use another `run`, or the old value"


_SAFE = (
    "name",
    "data.folder",
    "data.cache",
    "data.test",
    # The same files may lie elsewhere: their content is checked.
    *(f"data.{split}.{side}" for split in ("train", "valid") for side in ("file", "src", "tgt")),
    "train.loss.links",
    "train.loss.valid_links",
    "train.epochs",
    "train.steps",
    "train.max_minutes",
    "train.device",
    "train.deterministic",
    "train.log_every",
    "train.save_every",
    "train.keep_last",
    "train.keep_best",
    "train.tensorboard",
    "valid.samples",
    "valid.attention_health",
    "valid.patience",
    # Validation decodes by the other keys of search: they decide which checkpoint is the best.
    *(
        f"search.{key}"
        for key in (
            "beam",
            "n_best",
            "batch_size",
            "sampling",
            "mbr",
        )
    ),
)
"""Keys that change no update: where the run ends, what is logged and kept, on which device."""

_ASK = (
    "data.noise",
    "data.sampling",
    "train.lr",
    "train.optimizer",
    "train.schedule",
    "train.ema",
    "train.batch_by",
    "train.batch_size",
    "train.accumulate",
    "train.clip_norm",
    "train.loss",
    "train.precision",
    "valid.every",
    "valid.beam",
    "valid.max_examples",
    "valid.bleu_tokenize",
    "search",
)
"""Keys that change later updates, or make later scores not comparable with earlier ones."""


@dataclass(frozen=True)
class Change:
    """A key whose value differs from that of the run so far."""

    key: str
    old: object
    new: object
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.key}: {self.old} -> {self.new}"


def config_changes(old: RunConfig, new: RunConfig) -> list[Change]:
    """Every key that differs, in the order of the config, with its verdict.

    A key in none of the lists above, such as a size or the corpus, cannot change.
    """
    return [
        Change(key, before, after, _verdict(key, new))
        for key, before, after in differences(old.model_dump(), new.model_dump())
    ]


def _verdict(key: str, new: RunConfig) -> Verdict:
    if key in ("train.epochs", "train.steps") and new.train.schedule.kind == "cosine":
        return Verdict.ASK  # the cosine falls to its floor at the new end
    if _is_under(key, _SAFE):
        return Verdict.SAFE
    section, _, last = key.rpartition(".")
    if last in ("kind", "metric"):
        return Verdict.NEVER
    is_dropout = section.startswith("model") and last.endswith("dropout")
    return Verdict.ASK if is_dropout or _is_under(key, _ASK) else Verdict.NEVER


def _is_under(key: str, prefixes: Sequence[str]) -> bool:
    return any(f"{key}.".startswith(f"{prefix}.") for prefix in prefixes)


def differences(old: object, new: object, key: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield the dotted key, old and new value of every difference between nested dicts."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            below = f"{key}.{name}" if key else str(name)
            yield from differences(old.get(name), new.get(name), below)
    elif old != new:
        yield key, old, new
