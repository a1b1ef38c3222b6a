"""Parse YAML to plain values with the line of each key, and write plain values as YAML.

Scalars follow the core schema of YAML 1.2: `3e-4` is a number, `no` is text (Norwegian), and `010`
is ten. Aliases and tags are errors, because a page of aliases can expand to a billion words and a
tag can name code. Size and depth are bounded.
"""

import json
import math
import os
import re
import reprlib
from pathlib import Path
from typing import Any

import yaml

from nmt.errors import ConfigError
from nmt.settings.base import Config
from nmt.settings.keys import KeyPath
from nmt.storage.bounded import read_bytes

MAX_YAML_BYTES = 200_000
"""Forty times the longest known config. PyYAML reads this much in about two seconds."""

MAX_DEPTH = 20
"""Maximum depth of nested sections; a config has four levels."""

_MAX_DIGITS = 40
"""Maximum number of digits; Python refuses to parse thousands of digits."""

_MAX_INT = 2**63
"""Exclusive bound of integers, as for tensor sizes and torch's seeds."""

_MAX_NAME = 100

_TAG = "tag:yaml.org,2002:"

_RESOLVERS = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+(?:_[0-9]+)*", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2 scalars. Rejects aliases, tags and deep nesting."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        """Compose a node as the base class does. Raises MarkedYAMLError beyond the limits."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        problem = None
        if isinstance(event, yaml.AliasEvent):
            problem = f"aliases (*{event.anchor}) are not allowed"
        elif event.tag is not None:
            problem = f"tags are not allowed, got {event.tag[:60]}"
        elif self._depth == MAX_DEPTH:
            problem = f"sections are nested deeper than {MAX_DEPTH} levels"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[arg-type]
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper. Quotes text that YAML 1.1 or 1.2 would not read as text."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # PyYAML writes some line ends unquoted by default, and reads them back as spaces.
        style = '"' if re.search("[\n\r\x85\u2028\u2029]", data) else None
        return self.represent_scalar(f"{_TAG}str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)

for _name, _pattern, _first in _RESOLVERS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"{_TAG}{_name}",
            re.compile(rf"^(?:{_pattern})$"),
            ["" if letter == "\0" else letter for letter in _first],
        )


def read_text(path: Path, regular: bool = False) -> str:
    """Read a YAML file without its byte order mark; `regular` is as in `read_bytes`.

    Raises FileNotFoundError, or ConfigError if the file is too large, not UTF-8 or unreadable.
    """
    content = read_bytes(path, MAX_YAML_BYTES, ConfigError, regular)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise ConfigError(
            f"{path}:{line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
        ) from None


class YamlDocument:
    """A YAML document: `value` in dicts, lists and scalars, and the line of each key in `lines`.

    Raises ConfigError for invalid YAML. The message begins with `where`, followed by the line of
    the fault if `with_line` is True.
    """

    def __init__(self, text: str, where: str, *, with_line: bool = True) -> None:
        self._where, self._with_line = where, with_line
        self.lines: dict[KeyPath, int] = {}
        node = self._compose(text)
        self.value = None if node is None else self._plain(node, ())

    def place(self, line: int) -> str:
        """Return the location of a line as text: `x.yaml:3`."""
        return f"{self._where}:{line}" if self._with_line else self._where

    def _compose(self, text: str) -> yaml.Node | None:
        try:
            node: yaml.Node | None = _Loader(text).get_single_node()
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            problem = f"the character U+{ord(text[error.position]):04X} is not allowed"
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            if error.context_mark and (mark is None or not text[mark.index :].strip("\0 \n")):
                mark = error.context_mark  # the start of the unclosed construct
            line = mark.line + 1 if mark else 1
            if type(error) is yaml.MarkedYAMLError:  # raised by _Loader
                problem = str(error.problem)
            else:
                got = reprlib.repr(text.split("\n")[line - 1])
                problem = f"got {got}, allowed: `key: value`, indented by spaces; quote other text"
        else:
            return node
        raise ConfigError(f"{self.place(line)}: not valid YAML: {problem}")

    def _plain(self, node: yaml.Node, path: KeyPath) -> object:
        if isinstance(node, yaml.MappingNode):
            return self._section(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[*path, index] = item.start_mark.line + 1
            return [self._plain(item, (*path, index)) for index, item in enumerate(node.value)]
        try:
            return _scalar(node)
        except ValueError as error:
            place = self.place(node.start_mark.line + 1)
            raise ConfigError(f"{place}: {'.'.join(map(str, path))}: {error}") from None

    def _section(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        section: dict[str, object] = {}
        for key_node, value_node in node.value:
            line, key = key_node.start_mark.line + 1, key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{self.place(line)}: keys are plain names")
            is_text = key_node.tag == f"{_TAG}str"
            if not (is_text and len(key) <= _MAX_NAME and key.isprintable()):
                raise ConfigError(
                    f"{self.place(line)}: keys are plain names, got {reprlib.repr(key)}"
                )
            if key in section:
                first = self.place(self.lines[*path, key])
                dotted = ".".join(map(str, (*path, key)))
                raise ConfigError(f"{self.place(line)}: {dotted}: given twice, first in {first}")
            self.lines[*path, key] = line
            section[key] = self._plain(value_node, (*path, key))
        return section


def _scalar(node: yaml.Node) -> object:
    """Convert a scalar by its tag. Raises ValueError if a number is too large."""
    tag, text = node.tag.removeprefix(_TAG), node.value
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() == "true"
    if tag == "int":
        return _int(text.replace("_", ""))
    if tag == "float":
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"got {text[:_MAX_DIGITS]}, which is too large for a number")
        return number
    return text


def _int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"got a number of {len(text)} digits, allowed: at most {_MAX_DIGITS}")
    number = int(text)
    if abs(number) >= _MAX_INT:
        raise ValueError(f"got {number}, allowed: less than 2^63")
    return number


def plain_value(value: object, where: str) -> object:
    """Convert a Python value to values of YAML: paths become text, and configs become dicts.

    Raises ConfigError, beginning with `where`, if YAML cannot express a value.
    """
    try:
        text = json.dumps(value, default=_as_plain, ensure_ascii=False)
        parsed: object = json.loads(text.encode(), parse_int=_int)
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.end]
        raise ConfigError(f"{where}: got {around!a}, allowed: text that is UTF-8") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: {error}") from None
    return parsed


def _as_plain(value: object) -> object:
    if isinstance(value, Config):
        return value.model_dump(mode="json")
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()  # a scalar of NumPy or torch
    raise TypeError(
        f"got {reprlib.repr(value)}, allowed: text, a number, true, false, null, a list or a dict"
    )


_STYLE: dict[str, Any] = {"Dumper": _Dumper, "sort_keys": False, "allow_unicode": True}


def dump_config(config: Config) -> str:
    """Return every field of `config`, in order, as YAML that `load_text` reads; paths are text."""
    return str(yaml.dump(config.model_dump(mode="json"), **_STYLE))


def flow_yaml(value: object) -> str:
    """Return a plain value as YAML in one line, for use after a key."""
    text = str(yaml.dump(value, default_flow_style=True, width=math.inf, **_STYLE))
    return text.removesuffix("\n").removesuffix("\n...")
