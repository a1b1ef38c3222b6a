"""Convert pydantic's errors to lines for users: file and line, key, got, allowed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nmt.settings.keys import KeyPath, all_keys, kind_of, nearest_key, sections, select_classes


class Place(NamedTuple):
    """The location of a key as text, and its rank in the order of reading."""

    shown: str
    rank: int


Places = dict[KeyPath, Place]
"""The location of each key; `()` has the location of the file."""

MAX_KEY_CHARACTERS = 80

MAX_FAULTS = 20
"""Number of faults that are listed. Further faults are only counted."""

_SECTION_TYPES = ("model_type", "model_attributes_type", "dict_type")

ALLOWED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(_SECTION_TYPES, "a section of keys"),
    "string_type": "text (put quotes around it)",
    "path_type": "a path",
    "literal_error": "{expected}",
    "greater_than": "> {gt}",
    "greater_than_equal": ">= {ge}",
    "less_than": "< {lt}",
    "less_than_equal": "<= {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_too_short": "at least {min_length} characters",
    "string_pattern_mismatch": "{pattern}",
}
"""The allowed values for each type of pydantic's errors, as templates for the error's context."""

_PATTERNS = {
    r"^\w[\w.+-]*$": "letters, digits and _ . + -, where the first is a letter, a digit or _",
    "^(auto|cpu|cuda|cuda:[0-9]+|mps)$": "auto, cpu, cuda, cuda:N, mps",
    "^(sha256:[0-9a-f]{64}|sha1:[0-9a-f]{40}|md5:[0-9a-f]{32})$": "sha256:HEX, sha1:HEX, md5:HEX",
}
"""Descriptions of the regular expressions of fields."""


def first_fault(error: ValidationError) -> str:
    """Describe the first fault in one line, for files that nmt wrote itself."""
    fault = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, fault['loc']))[:MAX_KEY_CHARACTERS]!r}: {fault['msg']}"


def fault_lines(
    errors: Sequence[ErrorDetails], tree: object, places: Places, root: object
) -> list[str]:
    """Return a line for each key with faults, in the order of the file, then of the overrides.

    `root` is the class that validated `tree`. A last line counts faults beyond MAX_FAULTS.
    """
    faults = [fault for error in errors for fault in _faults(error, tree)]
    faults.sort(key=lambda fault: _place(fault[0], places).rank)
    problems: dict[KeyPath, list[str]] = {}
    for path, fault in faults[:MAX_FAULTS]:
        if not isinstance(fault, str):
            if fault["type"] == "extra_forbidden":
                fault = _unknown_key(path, tree, root)
            else:
                fault = value_problem(fault, _allowed(path, root))
        problems.setdefault(path, []).append(fault)
    lines = [
        ": ".join(filter(None, (_place(path, places).shown, _dotted(path), _joined(some))))
        for path, some in problems.items()
    ]
    more = len(faults) - MAX_FAULTS
    return [*lines, f"{places[()].shown}: {more:,} more faults"] if more > 0 else lines


def _faults(error: ErrorDetails, tree: object) -> Iterator[tuple[KeyPath, ErrorDetails | str]]:
    """Yield the key of an error with the error; for conflicts, each key with its problem."""
    path, context = _key_path(error, tree), error.get("ctx", {})
    if error["type"] == "conflict":
        for key, problem in context["conflicts"]:
            yield (*path, *(int(k) if k.isdigit() else k for k in key.split("."))), problem
    # pydantic drops invalid items and then also reports that the list is too short: skip that.
    elif error["type"] != "too_short" or context["actual_length"] == len(error["input"]):
        yield path, error


def _allowed(path: KeyPath, root: object) -> Mapping[str, str]:
    """Return `ALLOWED`, with the names of the keys if `path` is a section."""
    keys = (key.rpartition(".") for key in all_keys(root))
    names = dict.fromkeys(name for section, _, name in keys if section == _dotted(path))
    described = f"a section of keys ({', '.join(names)})"
    return ALLOWED | dict.fromkeys(_SECTION_TYPES if names else (), described)


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _place(path: KeyPath, places: Places) -> Place:
    """Return the location of the key, or of the innermost enclosing section with a location."""
    return next(places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in places)


def _joined(problems: list[str]) -> str:
    """Join the problems of one key; for a union, `got 3, allowed: a path or ...`."""
    head, middle, _ = problems[0].partition("allowed: ")
    if middle and all(problem.startswith(head + middle) for problem in problems):
        return head + middle + " or ".join(problem[len(head + middle) :] for problem in problems)
    return "; ".join(problems)


def _key_path(error: ErrorDetails, tree: Any) -> KeyPath:
    """Return pydantic's location of an error without the tags of unions between the keys."""
    path: list[str | int] = []
    tag = None
    for part in error["loc"]:
        keys = tree if isinstance(tree, dict) else range(len(tree) if isinstance(tree, list) else 0)
        if part == tag:
            tag = None  # a key of the section may have the same name
        elif part in keys:
            tree = tree[part]
            path.append(part)
            tag = tree.get("kind") if isinstance(tree, dict) else None
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path.append("kind")
    return tuple(path)


def value_problem(error: ErrorDetails, allowed: Mapping[str, str] = ALLOWED) -> str:
    """Describe the problem of a value without its location: `got 0, allowed: >= 1`.

    `allowed` maps types of pydantic's errors to the allowed values, as `ALLOWED` does.
    """
    kind, context = error["type"], dict(map(_readable, error.get("ctx", {}).items()))
    got = f"got {_shortened(error['input'])}"
    if kind == "missing":
        return "missing, and it has no default"
    if kind == "value_error":
        return str(context["error"])
    if kind == "union_tag_not_found":
        return "missing: the kind defines which keys the section has"
    if kind == "union_tag_invalid":
        return f"got {_shortened(context['tag'])}, allowed: {context['expected_tags']}"
    if kind in allowed:
        return f"{got}, allowed: {allowed[kind].format_map(context)}"
    message = error["msg"]
    return f"{got}: {message[:1].lower()}{message[1:]}"


def _readable(item: tuple[str, Any]) -> tuple[str, object]:
    """Describe the pattern in an entry of pydantic's context, and turn whole floats into ints."""
    name, value = item
    if name == "pattern":
        return name, _PATTERNS.get(value, f"text that matches {value}")
    if isinstance(value, float) and value.is_integer():
        return name, int(value)
    return name, value


def _shortened(value: object) -> str:
    """Return a value as it looks in YAML, cut to 60 characters."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unknown_key(path: KeyPath, tree: object, root: object) -> str:
    *around, key = path
    kinds, section = next(
        (kinds, section) for path, kinds, section in sections(root, tree) if path == tuple(around)
    )
    kind = select_classes(kinds, section)[0]
    for other in kinds:
        if key in other.model_fields:
            return f"unknown key for kind '{kind_of(kind)}'; it is a key of '{kind_of(other)}'"
    names = kind.model_fields
    near = nearest_key(str(key), [_dotted((*around, name)) for name in names], list(all_keys(root)))
    if near:
        return f"unknown key; did you mean '{near}'?"
    return f"unknown key, allowed here: {', '.join(names)}"
