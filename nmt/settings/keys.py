"""Which keys a config class knows, through its sections and the kinds a section may be of."""

import difflib
from collections.abc import Iterator, Sequence
from typing import get_args

from nmt.settings.base import Config

Tree = dict[str, object]
"""A section as YAML gives it."""

KeyPath = tuple[str | int, ...]
"""A key with the sections it is in, outermost first; an int is a place in a list."""


def config_classes(annotation: object) -> tuple[type[Config], ...]:
    """The config classes in a field's annotation: none, one, or the members of a union."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return (annotation,)
    return tuple(c for inner in get_args(annotation) for c in config_classes(inner))


def kind_of(config_class: type[Config]) -> str | None:
    """What `kind` says for this class; None for a class that is no member of a family."""
    field = config_class.model_fields.get("kind")
    return None if field is None else str(field.default)


def chosen(classes: tuple[type[Config], ...], section: object) -> tuple[type[Config], ...]:
    """The one of `classes` that the section's `kind` names, or all of them if it names none."""
    kind = section.get("kind") if isinstance(section, dict) else None
    named = tuple(c for c in classes if kind_of(c) == kind)
    return named if len(classes) > 1 and named else classes


def sections_at(
    root: type[Config], path: KeyPath, tree: object, every: bool = False
) -> tuple[type[Config], ...]:
    """The classes that the section at `path` may be of, given the kinds that `tree` names.

    `every`: all kinds of that section, whichever the tree names.
    """
    classes: tuple[type[Config], ...] = (root,)
    for part in path:
        fields = [c.model_fields[str(part)] for c in classes if str(part) in c.model_fields]
        tree = tree.get(part) if isinstance(tree, dict) else None
        family = tuple(c for field in fields for c in config_classes(field.annotation))
        classes = chosen(family, tree)
    return family if every and path else classes


def all_keys(config_class: type[Config], prefix: str = "") -> Iterator[str]:
    """Every key with its sections, `train.lr`; of a family, the keys of all its kinds."""
    for name, field in config_class.model_fields.items():
        yield f"{prefix}{name}"
        for inner in config_classes(field.annotation):
            yield from all_keys(inner, f"{prefix}{name}.")


def nearest(key: str, here: Sequence[str], everywhere: Sequence[str]) -> str | None:
    """The known key that an unknown one most likely means, or None.

    `here` are the full keys of the section it stands in. In this order: the same name in
    another section; initials (`learning_rate` and `lr`) or a like spelling here; a like
    spelling anywhere.
    """
    by_leaf: dict[str, str] = {}
    for known in sorted(everywhere, key=lambda known: known.count(".")):
        by_leaf.setdefault(known.rpartition(".")[2], known)
    if key in by_leaf:
        return by_leaf[key]
    leaves = {known.rpartition(".")[2]: known for known in here}
    for leaf, known in leaves.items():
        if key in (_initials(leaf), leaf.replace("_", "")) or leaf == _initials(key):
            return known
    for candidates, cutoff in ((leaves, 0.6), (by_leaf, 0.8)):
        found = difflib.get_close_matches(key, list(candidates), n=1, cutoff=cutoff)
        if found:
            return candidates[found[0]]
    return None


def _initials(name: str) -> str:
    return "".join(word[0] for word in name.split("_") if word)
