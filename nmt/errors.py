"""Errors that a user can fix, and phrases for their messages.

A line of a message says where the fault is, what nmt got, and what is allowed.
"""

from collections.abc import Iterable
from pathlib import Path

DISTRIBUTION = "attention-nmt"
"""The package's name on PyPI, where `nmt` belongs to another project."""

NEAR = 0.65
"""Minimum similarity of a suggested name, as a difflib ratio. `two` and `tow` have 0.67, `copper`
and `nope` 0.6."""


class NMTError(Exception):
    """Base class of errors that the user can fix. The command line exits with status 2."""


class ConfigError(NMTError):
    """Raised if a config, an option or an argument is invalid, or contradicts another."""


class DataError(NMTError):
    """Raised if a corpus, text or tokenizer is missing or invalid, or an output is not writable."""


class CheckpointError(NMTError):
    """Raised if a run or checkpoint is missing, damaged, locked, or does not fit its config."""


def pip_install(extra: str) -> str:
    """Return the command that installs an extra, such as `pip install 'attention-nmt[onnx]'`."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def format_count(number: int | float, noun: str) -> str:
    """Return a number with its noun: `1 step`, `1,500 steps`, `0.5 minutes`."""
    digits = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{digits} {noun if number == 1 else f'{noun}s'}"


def missing_file_message(path: Path) -> str:
    """Return the message for a missing file, with the base folder of a relative path."""
    note = "" if path.is_absolute() else f"; relative paths start in {Path.cwd()}"
    return f"{path}: no such file{note}"


def most_similar(name: str, known: Iterable[str], cutoff: float = NEAR) -> str | None:
    """Return the known name most similar to `name`; None if no similarity reaches `cutoff`."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = NEAR) -> str:
    """Return `; did you mean 'test'?` for the end of a message, or "" without a similar name."""
    near = most_similar(name, known, cutoff)
    return f"; did you mean '{near}'?" if near else ""
