"""Text that comes from files must not steer the terminal that shows it.

Escape sequences, other control characters and those that turn the order of a line (bidirectional
embeddings, overrides and isolates) are shown as escapes instead.
"""

import contextlib
import io
import os
import re
from typing import TextIO

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    r"""`text` with `\u001b` and the like for what would steer a terminal; newlines and tabs stay.

    JSON keeps its meaning, for these escapes are JSON's own.
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """`text` for a message: all that is not printable is escaped, line ends and rare spaces too."""
    return "".join(c if c.isprintable() or c in "\t " else ascii(c)[1:-1] for c in text)


class TerminalStream(io.TextIOWrapper):
    """A text stream that escapes controls in all that is written to it."""

    def write(self, text: str) -> int:
        """As the base class, of the escaped text."""
        # A progress bar begins its writes with a carriage return: back to the start of its line.
        start = "\r" if text.startswith("\r") else ""
        return super().write(start + escape_controls(text.removeprefix(start)))


def terminal_stream(descriptor: int, errors: str, line_buffering: bool) -> TerminalStream:
    """Such a stream to a descriptor, which it does not close; UTF-8, whatever the locale says."""
    buffer = open(descriptor, "wb", closefd=False)  # noqa: SIM115
    return TerminalStream(buffer, "utf-8", errors, line_buffering=line_buffering)


def give_up(stream: TextIO) -> None:
    """Redirect a standard stream whose reader is gone to /dev/null: Python flushes it at exit.

    A stream without a descriptor stays as it is.
    """
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
