"""The contradictions in a config that has other faults too, so that all are told at once.

pydantic lets a validator look at several keys only where every one of them is right. Here what is
right is put together without the rest, and the same validators look at that. One that reads a key
which is left out says nothing: it might contradict what the key will be once it is mended.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from nmt.settings.base import Absent, Config, Conflict, conflict_error
from nmt.settings.keys import KeyPath, Tree, chosen, config_classes

AnyConfig = TypeVar("AnyConfig", bound=Config)


@dataclass(frozen=True)
class Doubts:
    """What of a tree of keys is not known to be what is meant.

    `wrong`: keys whose value is missing or not allowed. `meant`: keys that an unknown one most
    likely stands for. `vague`: sections with one that is like no other: it may stand for any key
    that they do not give.
    """

    wrong: set[KeyPath] = field(default_factory=set)
    meant: set[KeyPath] = field(default_factory=set)
    vague: set[KeyPath] = field(default_factory=set)


def agree(config: AnyConfig, *checks: Callable[[AnyConfig], Iterator[Conflict]]) -> AnyConfig:
    """`config`; for a validator with several checks, each of which finds what it can.

    Raises conflict_error with all that they find. A check that reads a key which `config` lacks
    says no more.
    """
    conflicts: list[Conflict] = []
    for check in checks:
        with contextlib.suppress(Absent):
            conflicts.extend(check(config))
    if conflicts:
        raise conflict_error(conflicts)
    return config


def contradictions(
    config_class: type[Config], tree: Tree, doubts: Doubts
) -> list[tuple[KeyPath, str]]:
    """Each contradiction between keys that are beyond doubt: at which key, and what it is.

    An empty key is the section, or the file, as a whole.
    """
    found: list[tuple[KeyPath, str]] = []
    _sound_part(config_class, tree, (), doubts, found)
    return found


def _sound_part(
    config_class: type[Config],
    tree: Tree,
    path: KeyPath,
    doubts: Doubts,
    found: list[tuple[KeyPath, str]],
) -> Config:
    """The section at `path` without what is in doubt; its contradictions go into `found`."""
    values: dict[str, Any] = {}
    for name, info in config_class.model_fields.items():
        key = (*path, name)
        given = tree.get(name)
        kinds = config_classes(info.annotation)
        if key in doubts.wrong:
            continue
        if name not in tree:
            if path not in doubts.vague and not _reaches(doubts.meant, key):
                values[name] = info.get_default(call_default_factory=True)
        elif isinstance(given, dict) and kinds:
            known = chosen(kinds, given)
            if len(known) == 1 and (len(kinds) == 1 or (*key, "kind") not in doubts.meant):
                values[name] = _sound_part(known[0], given, key, doubts, found)
        elif not _reaches(doubts.wrong, key):
            values[name] = _value(info, given)
    part = config_class.model_construct(**values)
    for name in config_class.model_fields.keys() - values.keys():
        part.__dict__.pop(name, None)  # the default, which model_construct puts there
    found += [((*path, *key), problem) for key, problem in _faults(part)]
    return part


def _reaches(keys: Set[KeyPath], key: KeyPath) -> bool:
    """Whether `keys` has `key` or one inside it."""
    return any(other[: len(key)] == key for other in keys)


def _value(info: FieldInfo, given: object) -> object:
    """A value that is allowed, as the class holds it: a path, a tuple."""
    annotation: Any = info.annotation
    as_annotated: TypeAdapter[object] = TypeAdapter(annotation)
    return as_annotated.validate_json(json.dumps(given), strict=True)


def _faults(part: Config) -> Iterator[tuple[KeyPath, str]]:
    """What the validators of the class, all of them, have against its keys together."""
    for validator in type(part).__pydantic_decorators__.model_validators.values():
        if validator.info.mode != "after":
            continue
        try:
            validator.func(part)
        except Absent:
            continue
        except ValueError as error:
            conflicts = getattr(error, "context", None) or {}
            for key, problem in conflicts.get("conflicts", [("", str(error))]):
                yield tuple(key.split(".")) if key else (), problem
