"""From pydantic's errors to lines a user can act on: where, which key, what was got, allowed."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from pydantic_core import ErrorDetails

from nmt.settings.base import Config
from nmt.settings.conflicts import Doubts, contradictions
from nmt.settings.keys import KeyPath, Tree, all_keys, kind_of, nearest, sections_at


class Place(NamedTuple):
    """Where a key was given, in words, and its rank in the order of reading."""

    shown: str
    rank: int


Places = dict[KeyPath, Place]
"""The place of every key; of `()`, the file as a whole."""

MAX_FAULTS = 20
"""Faults beyond these are only counted: most likely it is another kind of file."""

_ALLOWED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "string_type": "text (put it in quotes if it is)",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": "a section of keys",
    "model_attributes_type": "a section of keys",
    "dict_type": "a section of keys",
    "literal_error": "{expected}",
    "greater_than": "> {gt}",
    "greater_than_equal": ">= {ge}",
    "less_than": "< {lt}",
    "less_than_equal": "<= {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_too_short": "at least {min_length} characters",
    "string_pattern_mismatch": "{pattern}",
}
"""What is allowed where pydantic found this type of error; filled in from its context."""

_PATTERNS = {
    r"^\w[\w.+-]*$": "letters, digits and _ . + -, where the first is a letter, a digit or _",
}
"""Patterns of text in words."""


def explain(
    errors: Sequence[ErrorDetails], tree: Tree, places: Places, root: type[Config]
) -> list[str]:
    """A line for each fault, in the order of the file, then of the overrides; after MAX_FAULTS of
    them, how many more there are.
    """
    faults: dict[KeyPath, list[str]] = {}
    doubts = Doubts()
    found = [(_key_path(error, tree), error) for error in errors]
    found = [(path, error) for path, error in found if not _is_contradiction(error, path)]
    found.sort(key=lambda item: _place(item[0], places).rank)
    for path, error in found[:MAX_FAULTS]:
        if error["type"] == "extra_forbidden":
            problem = _unknown_key(path, tree, places, root, doubts)
        else:
            problem = _problem(error)
            doubts.wrong.add(path)
        faults.setdefault(path, []).append(problem)
    # pydantic finds only those in sections where nothing else is wrong. They are left out where
    # faults are only counted, since it is not known then which keys are in doubt.
    if len(found) <= MAX_FAULTS:
        for path, problem in contradictions(root, tree, doubts):
            faults.setdefault(path, []).append(problem)
    ranked = sorted(faults, key=lambda path: _place(path, places).rank)
    more = len(found) - MAX_FAULTS
    return [
        f"{_place(path, places).shown}: {_dotted(path)}{': ' if path else ''}"
        f"{_joined(faults[path])}"
        for path in ranked
    ] + ([f"{places[()].shown}: {more:,} more such faults"] if more > 0 else [])


def _is_contradiction(error: ErrorDetails, path: KeyPath) -> bool:
    """Whether a validator of a whole section found it; in a list, it counts as a value's."""
    of_section = error["type"] == "value_error" and isinstance(error["input"], dict)
    in_list = any(isinstance(part, int) for part in path)
    return error["type"] == "conflict" or (of_section and not in_list)


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _place(path: KeyPath, places: Places) -> Place:
    """Where the key is, or the innermost section around it that was given."""
    return next(places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in places)


def _joined(problems: list[str]) -> str:
    """The branches of a plain union fail one by one: `got 3, allowed: a path or a list`."""
    head, middle, _ = problems[0].partition("allowed: ")
    if middle and all(problem.startswith(head + middle) for problem in problems):
        return head + middle + " or ".join(problem[len(head + middle) :] for problem in problems)
    return "; ".join(problems)


def _key_path(error: ErrorDetails, tree: object) -> KeyPath:
    """pydantic's location without the union branches that it names between the keys."""
    path: list[str | int] = []
    *outer, last = error["loc"] or ("",)
    at_family = False
    for part in outer:
        if isinstance(tree, dict) and at_family and part == tree.get("kind"):
            at_family = False
        elif isinstance(tree, dict) and part in tree:
            tree, at_family = tree[part], True
            path.append(part)
        elif isinstance(tree, list) and isinstance(part, int):
            tree = tree[part]
            path.append(part)
    known = isinstance(tree, dict) and (last in tree or error["type"] == "missing")
    branch = at_family and isinstance(tree, dict) and last == tree.get("kind")
    if (known and not branch) or (isinstance(tree, list) and isinstance(last, int)):
        path.append(last)
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path.append("kind")
    return tuple(path)


def _problem(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "missing, and it has no default"
    return value_problem(error)


def value_problem(error: ErrorDetails) -> str:
    """What is wrong with a value, without saying where: `got 0, allowed: >= 1`."""
    kind, got = error["type"], error["input"]
    context = {
        # A bound is an int as the class has it, a float as pydantic reports it.
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in error.get("ctx", {}).items()
    }
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        pattern = str(context["pattern"])
        context["pattern"] = _PATTERNS.get(pattern, f"what matches {pattern}")
    if kind == "union_tag_not_found":
        return "missing: it says which keys the section has"
    if kind == "union_tag_invalid":
        return f"got {_shown(context['tag'])}, allowed: {context['expected_tags']}"
    if kind in _ALLOWED:
        return f"got {_shown(got)}, allowed: {_ALLOWED[kind].format(**context)}"
    message = error["msg"]
    return f"got {_shown(got)}: {message[:1].lower()}{message[1:]}"


def _shown(value: object) -> str:
    """A value as YAML would have it, cut if it is long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unknown_key(
    path: KeyPath, tree: Tree, places: Places, root: type[Config], doubts: Doubts
) -> str:
    """What is said of a key that nobody knows; what it may stand for goes into `doubts`."""
    *section, key = path
    classes = sections_at(root, tuple(section), tree)
    kind = (*section, "kind")
    for other in sections_at(root, tuple(section), tree, every=True):
        if key in other.model_fields:
            doubts.meant.add(kind)
            return f"unknown key for kind '{kind_of(classes[0])}', '{kind_of(other)}' has it"
    names = dict.fromkeys(name for c in classes for name in c.model_fields)
    here = [_dotted((*section, name)) for name in names]
    near = nearest(str(key), here, list(all_keys(root)))
    if near:
        doubts.meant.add(tuple(near.split(".")))
        return f"unknown key; did you mean '{near}'?"
    doubts.vague.add(tuple(section))
    if kind not in places:
        doubts.meant.add(kind)
    return f"unknown key, allowed here: {', '.join(names)}"
