"""YAML text to its tree of nodes, within limits: size, depth, no aliases, printable UTF-8 only.

A node is text and places; what a scalar means is the reader's business. Nothing is constructed,
so no tag can name anything to build.
"""

from pathlib import Path

import yaml

from nmt.errors import ConfigError
from nmt.storage.bounded import read_bytes

MAX_YAML_BYTES = 200_000
"""Forty times the longest config that we know. PyYAML reads about so much in two seconds."""

MAX_DEPTH = 20
"""Sections within sections; those of a config are four deep."""


_COLLECTION_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class NodeLoader(yaml.SafeLoader):
    """PyYAML's safe loader without aliases (a page of them can mean a billion words) and with a
    bound on the depth.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        """As the base class does, where neither limit is passed."""
        if self.check_event(yaml.AliasEvent):
            alias: yaml.AliasEvent = self.get_event()  # type: ignore[no-untyped-call]
            raise _problem(f"aliases (*{alias.anchor}) are not allowed", alias.start_mark)
        if self._depth == MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _problem(f"sections are nested deeper than {MAX_DEPTH} levels", mark)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[arg-type]
        self._depth -= 1
        if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTION_TAGS:
            raise _problem(f"tags are not allowed, got {node.tag[:60]}", node.start_mark)
        return node


def read_text(path: Path, regular: bool = False) -> str:
    """The text of a YAML file, without a byte order mark; `regular` as in `read_bytes`.

    Raises ConfigError where it is too large, not UTF-8 or unreadable; FileNotFoundError is the
    caller's.
    """
    content = read_bytes(path, MAX_YAML_BYTES, ConfigError, regular)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise ConfigError(f"{path}:{line}: byte 0x{byte:02x} is not UTF-8") from None


def compose(
    text: str, where: str, loader: type[NodeLoader] = NodeLoader, with_line: bool = True
) -> yaml.Node | None:
    """The node tree of one YAML document; None where there is nothing but comments.

    Raises ConfigError: `where`, the line in it (unless not `with_line`), and what is wrong.
    """
    line: int | None = None
    try:
        node: yaml.Node | None = loader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character U+{ord(text[error.position]):04X} is not allowed"
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problem = str(error.problem)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
    else:
        return node
    place = f"{where}:{line}" if with_line and line is not None else where
    raise ConfigError(f"{place}: not valid YAML: {problem}")


def _problem(text: str, mark: object) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=text, problem_mark=mark)  # type: ignore[arg-type]
