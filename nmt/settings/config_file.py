"""A config as YAML: a place for every key, `--set` overrides, and the way back to text.

It knows no particular config class: the class comes as an argument. YAML is read by its 1.2
core rules, where `3e-4` is a number, `no` is a word (Norwegian) and `010` is ten.
"""

import difflib
import json
import math
import os
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import NamedTuple, TypeVar, get_args

import yaml
from pydantic import ValidationError

from nmt.errors import ConfigError
from nmt.settings.base import Config
from nmt.settings.keys import KeyPath, Tree, chosen, config_classes, kind_of, sections_at
from nmt.settings.messages import Place, Places, explain
from nmt.settings.yaml_nodes import NodeLoader, compose, read_text

AnyConfig = TypeVar("AnyConfig", bound=Config)

_MAX_DIGITS = 40
"""More than any number of a config needs; Python refuses to read thousands of them."""

_NUMBERS_END = 2**63
"""What no tensor's size, nor torch's seed, can be."""

_MAX_NAME = 100

_RESOLVERS = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+(?:_[0-9]+)*", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
)


class Flag(NamedTuple):
    """A key that a flag of its own sets; `shown` is what was typed, such as `--beam 3`."""

    key: str
    value: object
    shown: str


Override = str | Flag
"""What takes the place of a key's value in the file: `a.b=value`, its value in YAML, or a Flag."""


class _Loader(NodeLoader):
    """The bounded loader with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either YAML 1.1 or 1.2 would not read as text."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Left to itself PyYAML writes these line ends bare, and reads them back as spaces.
        style = '"' if re.search("[\r\x85\u2028\u2029]", data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


for _name, _pattern, _first in _RESOLVERS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}",
            re.compile(rf"^(?:{_pattern})$"),
            ["" if letter == "\0" else letter for letter in _first],
        )


def load_tree(
    path: Path, overrides: Sequence[Override], config_class: type[AnyConfig]
) -> AnyConfig:
    """The config of `config_class` in the file at `path`, with `overrides` on top.

    Raises ConfigError: all faults at once, a line each.
    """
    return parse_tree(_read(path), path, overrides, config_class)


def parse_tree(
    text: str, path: Path, overrides: Sequence[Override], config_class: type[AnyConfig]
) -> AnyConfig:
    """`load_tree` of a file that was read already."""
    places: Places = {(): Place(str(path), 0)}
    node = _compose(text, str(path))
    if node is None:
        raise ConfigError(f"{path}: the file says nothing; a config needs at least a name")
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{path}:1: got {_KINDS[type(node)]}, allowed: lines of `key: value`")
    tree: Tree = {}
    _fill(tree, node, (), places, lambda line: Place(f"{path}:{line}", line))
    return _load(tree, overrides, places, config_class)


def load_overrides(overrides: Sequence[Override], config_class: type[AnyConfig]) -> AnyConfig:
    """The defaults of `config_class` with `overrides` on top; raises ConfigError likewise."""
    return _load({}, overrides, {(): Place("--set", 0)}, config_class)


def load_values(
    values: Mapping[str, object], config_class: type[AnyConfig], where: str
) -> AnyConfig:
    """The config of nested dicts; raises ConfigError likewise, with `where` before each fault."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: got {reprlib.repr(values)}, allowed: a dict of keys")
    try:
        tree: Tree = json.loads(json.dumps(dict(values), default=_as_said))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: {error}") from None
    return _load(tree, (), {(): Place(where, 0)}, config_class)


def _as_said(value: object) -> object:
    """What YAML would say for a value of Python: a path, a config, a scalar of numpy."""
    if isinstance(value, Config):
        return value.model_dump(mode="json")
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    raise TypeError(
        f"got {reprlib.repr(value)}, allowed: text, a number, true, false, null, a list or a dict"
    )


def _load(
    tree: Tree, overrides: Sequence[Override], places: Places, config_class: type[AnyConfig]
) -> AnyConfig:
    _spell_out(tree, config_class)
    for number, override in enumerate(sorted(overrides, key=_kinds_first)):
        _override(tree, override, number, places, config_class)
        _spell_out(tree, config_class)
    _complete(tree, config_class)
    try:
        # By way of JSON, pydantic's strict mode takes a string for a path and an int for a
        # float, but no string for a number.
        return config_class.model_validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        lines = explain(error.errors(include_url=False), tree, places, config_class)
        raise ConfigError("\n".join(lines)) from None


def dump_tree(config: Config) -> str:
    """YAML of every field of `config`, in the order of its class; paths as text."""
    text: str = yaml.dump(
        config.model_dump(mode="json"), Dumper=_Dumper, sort_keys=False, allow_unicode=True
    )
    return text


_KINDS = {yaml.ScalarNode: "a single value", yaml.SequenceNode: "a list"}

PlaceOf = Callable[[int], Place]
"""From a line number to where that is, in words."""


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except FileNotFoundError:
        stems = {other.stem: other for other in path.parent.glob("*.y*ml")}
        near = difflib.get_close_matches(path.stem, list(stems), n=1)
        hint = f"; did you mean '{stems[near[0]]}'?" if near else ""
        raise ConfigError(f"{path}: no such file{hint}") from None


def _compose(text: str, where: str, with_line: bool = True) -> yaml.Node | None:
    return compose(text, where, _Loader, with_line)


def _plain(node: yaml.Node, path: KeyPath, places: Places, place_of: PlaceOf) -> object:
    """The value of a node; the place of every key under it goes into `places`."""
    if isinstance(node, yaml.MappingNode):
        section: Tree = {}
        _fill(section, node, path, places, place_of)
        return section
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            places[*path, index] = place_of(item.start_mark.line + 1)
            items.append(_plain(item, (*path, index), places, place_of))
        return items
    return _scalar(node, path, place_of)


def _fill(
    section: Tree, node: yaml.MappingNode, path: KeyPath, places: Places, place_of: PlaceOf
) -> None:
    """Put what a mapping node says into `section`."""
    for key_node, value_node in node.value:
        place = place_of(key_node.start_mark.line + 1)
        key = key_node.value
        if key_node.tag != "tag:yaml.org,2002:str" or not _is_name(key):
            raise ConfigError(f"{place.shown}: keys are plain names, got {reprlib.repr(key)}")
        dotted = ".".join(map(str, (*path, key)))
        if key in section:
            raise ConfigError(
                f"{place.shown}: {dotted}: given twice, first in {places[*path, key].shown}"
            )
        places[*path, key] = place
        section[key] = _plain(value_node, (*path, key), places, place_of)


def _is_name(key: object) -> bool:
    """Whether it can be shown in a line and be a key."""
    return isinstance(key, str) and len(key) <= _MAX_NAME and key.isprintable()


def _scalar(node: yaml.Node, path: KeyPath, place_of: PlaceOf) -> object:
    tag, text = node.tag.rpartition(":")[2], node.value
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() == "true"
    where = f"{place_of(node.start_mark.line + 1).shown}: {'.'.join(map(str, path))}"
    if tag == "int":
        if len(text) > _MAX_DIGITS:
            raise ConfigError(f"{where}: got a number of {len(text)} digits")
        return _bounded(int(text.replace("_", "")), where)
    if tag == "float":
        if not math.isfinite(float(text)):
            raise ConfigError(f"{where}: got {text[:_MAX_DIGITS]}, which is too large for a number")
        return float(text)
    if tag != "str":
        raise ConfigError(f"{where}: YAML tags are not allowed, got {node.tag}")
    return text


def _bounded(value: object, where: str) -> object:
    if isinstance(value, int) and abs(value) >= _NUMBERS_END:
        raise ConfigError(f"{where}: got {value}, allowed: less than 2^63")
    return value


def _kinds_first(override: Override) -> tuple[bool, int]:
    """Sort key: a new kind settles which keys its section may have, the outermost first."""
    key = override.key if isinstance(override, Flag) else override.partition("=")[0]
    return key.rpartition(".")[2] != "kind", key.count(".") if key.endswith("kind") else 0


def _override(
    tree: Tree, override: Override, number: int, places: Places, config_class: type[Config]
) -> None:
    """Set the key that an override names; a new kind drops what only other kinds know."""
    if isinstance(override, Flag):
        place = Place(override.shown, 10**9 + number)
        (*parents, last), node = override.key.split("."), None
    else:
        place = Place(f"--set {override}", 10**9 + number)
        (*parents, last), node = _setting(override)
    section = tree
    for depth, part in enumerate(parents, start=1):
        if section.get(part) is None:
            section[part] = {}
            places[tuple(parents[:depth])] = place
        inner = section[part]
        if not isinstance(inner, dict):
            raise ConfigError(f"{place.shown}: '{'.'.join(parents[:depth])}' is no section here")
        section = inner
    path = (*parents, last)
    for stale in [known for known in places if known[: len(path)] == path]:
        del places[stale]
    places[path] = place
    if isinstance(override, Flag):
        section[last] = _bounded(override.value, f"{place.shown}: {override.key}")
    else:
        section[last] = None if node is None else _plain(node, path, places, lambda _: place)
    if last == "kind":
        _drop_other_kinds(section, sections_at(config_class, tuple(parents), tree, every=True))


def _setting(override: str) -> tuple[list[str], yaml.Node | None]:
    """The parts of the key in `a.b=value`, and its value."""
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {override}: allowed: key=value, such as --set train.lr=3e-4")
    return parts, _compose(text, f"--set {override}", with_line=False)


def _drop_other_kinds(section: Tree, classes: tuple[type[Config], ...]) -> None:
    now = chosen(classes, section)
    if len(now) == 1:
        foreign = {name for other in classes for name in other.model_fields}
        for name in foreign - set(now[0].model_fields):
            section.pop(name, None)


def _spell_out(tree: Tree, config_class: type[Config]) -> None:
    """`attention: dot` is short for `attention: {kind: dot}`, wherever there are kinds."""
    for name, field in config_class.model_fields.items():
        classes = config_classes(field.annotation)
        if len(classes) > 1 and isinstance(tree.get(name), str):
            tree[name] = {"kind": tree[name]}
        section = tree.get(name)
        if isinstance(section, dict):
            for inner in chosen(classes, section):
                _spell_out(section, inner)


def _complete(tree: Tree, config_class: type[Config]) -> None:
    """An empty section means its defaults, and one that names no kind means the default kind."""
    for name, field in config_class.model_fields.items():
        classes = config_classes(field.annotation)
        if not classes or name not in tree:
            continue
        if tree[name] is None and NoneType not in get_args(field.annotation):
            tree[name] = {}
        section = tree[name]
        if not isinstance(section, dict):
            continue
        if "kind" not in section and len(classes) > 1 and isinstance(field.default, Config):
            section["kind"] = kind_of(type(field.default))
        for inner in chosen(classes, section)[:1]:
            _complete(section, inner)
