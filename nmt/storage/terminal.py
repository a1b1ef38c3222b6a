"""Protection of the terminal against control characters in text that comes from files.

Control characters and bidirectional embeddings, overrides and isolates are shown as escapes.
"""

import contextlib
import io
import os
import re
from typing import TextIO

_STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|\r(?!\n)")


def escape_controls(text: str) -> str:
    r"""Replace control characters, except line ends and tabs, by escapes such as `\u001b`.

    JSON text keeps its meaning, because JSON has the same escapes.
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """Escape all characters that are not printable, including newlines but not tabs."""
    return "".join(c if c.isprintable() or c in "\t " else ascii(c)[1:-1] for c in text)


class TerminalStream(io.TextIOWrapper):
    """A text stream that escapes control characters (`escape_controls`) in its output."""

    def write(self, text: str) -> int:
        # A progress bar begins each write with a carriage return, to overwrite its line.
        start = "\r" if text.startswith("\r") else ""
        return super().write(start + escape_controls(text.removeprefix(start)))


def terminal_stream(descriptor: int, errors: str, line_buffering: bool) -> TerminalStream:
    """Return a UTF-8 TerminalStream on `descriptor`. Closing it leaves the descriptor open."""
    buffer = open(descriptor, "wb", closefd=False)  # noqa: SIM115
    return TerminalStream(buffer, "utf-8", errors, line_buffering=line_buffering)


def discard_output(stream: TextIO) -> None:
    """Redirect a standard stream to /dev/null, after a write to it has failed.

    The reader may have closed the pipe, or the disk may be full. Without the redirection, Python's
    flush at exit would fail again. A stream without a descriptor is unchanged.
    """
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
