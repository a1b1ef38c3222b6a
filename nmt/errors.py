"""The errors a user may cause; each message is one line: what, got, allowed, where."""

from collections.abc import Iterable

DISTRIBUTION = "attention-nmt"
"""The name that pip knows; `nmt` on the package index is somebody else's."""


NEAR = 0.65
"""Least similarity of a name that a message suggests: `two` has 0.67 to `tow`, `copper` 0.6 to
`nope`."""


class NMTError(Exception):
    """Base of every error that is the user's to mend; the command line exits with 2."""


class ConfigError(NMTError):
    """A configuration says something that is unknown, malformed or contradictory."""


class DataError(NMTError):
    """A corpus, text or tokenizer file is missing, malformed or not what it should be."""


class CheckpointError(NMTError):
    """A run directory or checkpoint is missing, damaged or does not fit its config."""


def pip_install(extra: str) -> str:
    """The command that installs an extra, as `pip install 'attention-nmt[onnx]'`, for a message."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def counted(number: int | float, noun: str) -> str:
    """`1 step`, `2 steps`, `1,500 steps`, `0.5 minutes`."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun if number == 1 else f'{noun}s'}"


def most_similar(name: str, known: Iterable[str], cutoff: float = NEAR) -> str | None:
    """Return the known name most similar to `name`, or None below a similarity of `cutoff`."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = NEAR) -> str:
    """`; did you mean 'test'?` for the end of a message; empty if no known name is similar enough.

    `cutoff` is as for `most_similar`.
    """
    near = most_similar(name, known, cutoff)
    return f"; did you mean '{near}'?" if near else ""
