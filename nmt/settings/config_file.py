"""Load config classes from YAML, overrides or Python values, and report faults by location."""

import functools
import json
import reprlib
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from nmt.errors import ConfigError, missing_file_message, most_similar
from nmt.settings.base import Config
from nmt.settings.keys import config_classes, kind_of, sections, select_classes
from nmt.settings.messages import Place, Places, fault_lines
from nmt.settings.yaml_text import YamlDocument, plain_value, read_text

Tree = dict[str, Any]
"""The values of a config, in the types that YAML can express."""

Model = TypeVar("Model", bound=BaseModel)


class Override(NamedTuple):
    """A new value for `key`, such as `search.beam`. Errors name `origin`, such as `--beam 3`."""

    key: str
    value: object
    origin: str

    @classmethod
    def parse(cls, text: str, origin: str | None = None) -> "Override":
        """Parse `key=value`, with the value in YAML. Raises ConfigError for malformed text."""
        origin = origin or f"override {text}"
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not all(key.split(".")):
            raise ConfigError(f"{origin}: allowed: key=value, such as train.lr=3e-4")
        return cls(key, YamlDocument(value, origin, with_line=False).value, origin)


Overrides = Sequence[Override | str]
"""Overrides, of which the last one for a key wins. A str such as `train.lr=3e-4` is parsed."""


def load_file(path: Path, overrides: Overrides, config_class: type[Model]) -> Model:
    """Load a config from the YAML file at `path`, and apply `overrides`.

    `config_class` is a Config, or a RootModel of a dict of them. Raises ConfigError with a line for
    each fault.
    """
    return load_text(_read(path), path, overrides, config_class)


def load_text(text: str, path: Path, overrides: Overrides, config_class: type[Model]) -> Model:
    """Load a config from `text`, the content of the YAML file at `path`, as `load_file` does."""
    document = YamlDocument(text, str(path))
    tree = document.value
    if tree is None and config_classes(config_class):
        raise ConfigError(f"{path}: the file is empty; a config has at least a name")
    if not isinstance(tree, dict | None):
        got = "a list" if isinstance(tree, list) else "a single value"
        raise ConfigError(f"{path}:1: got {got}, allowed: lines of `key: value`")
    places = {key: Place(document.place(line), line) for key, line in document.lines.items()}
    places[()] = Place(str(path), 0)
    return _validate(tree or {}, overrides, places, config_class)


def load_overrides(overrides: Overrides, config_class: type[Model]) -> Model:
    """Apply `overrides` to the defaults of `config_class`. Raises as `load_file` does."""
    return _validate({}, overrides, {(): Place("overrides", 0)}, config_class)


def with_overrides(config: Model, overrides: Overrides) -> Model:
    """Return a copy of `config` with `overrides` applied. Raises as `load_file` does."""
    if not overrides:
        return config
    values = config.model_dump(mode="json")
    return _validate(values, overrides, {(): Place("overrides", 0)}, type(config))


def load_values(values: Mapping[str, object], config_class: type[Model], where: str) -> Model:
    """Build a config from nested dicts. Raises ConfigError, with `where` before each fault."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: got {reprlib.repr(values)}, allowed: a dict of keys")
    tree: Any = plain_value(dict(values), where)
    return _validate(tree, (), {(): Place(where, 0)}, config_class)


@functools.cache
def load_plugins() -> None:
    """Load the entry points of the group `nmt.plugins`, whose modules register kinds."""
    for plugin in entry_points(group="nmt.plugins"):
        try:
            plugin.load()
        except Exception as error:
            raise ConfigError(f"plugin '{plugin.name}', {plugin.value}: {error!r}") from error


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except FileNotFoundError:
        stems = {other.stem: other for other in path.parent.glob("*.y*ml")}
        if near := most_similar(path.stem, stems):
            raise ConfigError(f"{path}: no such file; did you mean '{stems[near]}'?") from None
        raise ConfigError(missing_file_message(path)) from None


def _validate(tree: Tree, overrides: Overrides, places: Places, config_class: type[Model]) -> Model:
    load_plugins()
    _fill_in(tree, config_class)
    typed = [Override.parse(one) if isinstance(one, str) else one for one in overrides]
    for rank, override in enumerate(sorted(typed, key=_kinds_first), start=10**9):
        _apply(override, rank, tree, places, config_class)
        _fill_in(tree, config_class)
    try:
        # From JSON, pydantic's strict mode accepts text as a path and an int as a float, but not
        # text as a number.
        return config_class.model_validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        lines = fault_lines(error.errors(include_url=False), tree, places, config_class)
        raise ConfigError("\n".join(line.replace("\n", "\\n") for line in lines)) from None


def _fill_in(tree: Tree, root: object) -> None:
    """Expand the short forms of sections, in place.

    `attention: dot` becomes `{kind: dot}`. An empty section becomes `{}`, with the default kind.
    """
    for _, classes, section in sections(root, tree):
        for name, field in select_classes(classes, section)[0].model_fields.items():
            kinds, inner = config_classes(field.annotation), section.get(name)
            if not kinds or name not in section:
                continue
            if isinstance(inner, str) and len(kinds) > 1:
                section[name] = {"kind": inner}
            elif inner is None and NoneType not in get_args(field.annotation):
                section[name] = inner = {}
            if isinstance(inner, dict) and len(kinds) > 1 and isinstance(field.default, Config):
                inner.setdefault("kind", kind_of(type(field.default)))


def _kinds_first(override: Override) -> tuple[bool, int]:
    """Return a sort key that puts kinds first, outermost first, since kinds define the keys."""
    is_kind = override.key.rpartition(".")[2] == "kind"
    return not is_kind, override.key.count(".") if is_kind else 0


def _apply(override: Override, rank: int, tree: Tree, places: Places, root: object) -> None:
    """Set the key of an override, in place. A new kind removes the keys that it lacks."""
    path = tuple(override.key.split("."))
    place = Place(override.origin, rank)
    section = tree
    for depth, part in enumerate(path[:-1], start=1):
        if section.get(part) is None:
            section[part] = {}
            places[path[:depth]] = place
        section = section[part]
        if not isinstance(section, dict):
            raise ConfigError(f"{override.origin}: '{'.'.join(path[:depth])}' is not a section")
    for old_key in [known for known in places if known[: len(path)] == path]:
        del places[old_key]
    places[path] = place
    section[path[-1]] = plain_value(override.value, f"{override.origin}: {override.key}")
    if path[-1] == "kind":
        kinds = next((kinds for at, kinds, _ in sections(root, tree) if at == path[:-1]), ())
        new = select_classes(kinds, section)
        for name in {name for kind in kinds for name in kind.model_fields}:
            if len(new) == 1 and name not in new[0].model_fields:
                section.pop(name, None)
