"""An extension of mkdocstrings' reader: examples in docstrings become code blocks of the site."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)+", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts fences around what stands from `>>>` to the next empty line."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """A docstring whose examples are code blocks of Markdown."""
    shown = docstring.replace("  # doctest: +SKIP", "")
    return _EXAMPLE.sub(lambda node: f"```pycon\n{node[0].rstrip()}\n```\n", shown)
