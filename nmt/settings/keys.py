"""The keys and sections of a config class, and the kinds of each section."""

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import RootModel

from nmt.errors import most_similar
from nmt.settings.base import Config

KeyPath = tuple[str | int, ...]
"""A key preceded by its sections, outermost first; an int is an index of a list."""


def config_classes(annotation: object) -> tuple[type[Config], ...]:
    """Return the config classes in an annotation: none, one, or one for each kind of a union."""
    members = _alternatives(annotation)
    return tuple(one for one in members if isinstance(one, type) and issubclass(one, Config))


def _alternatives(annotation: object) -> tuple[object, ...]:
    """Return the members of a union; for any other annotation, the annotation alone."""
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        return _alternatives(annotation.model_fields["root"].annotation)
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(one for member in get_args(annotation) for one in _alternatives(member))
    return (annotation,)


def kind_of(config_class: type[Config]) -> str | None:
    """Return the value of `kind` that selects this class; None for a class without `kind`."""
    field = config_class.model_fields.get("kind")
    return None if field is None else str(field.default)


def select_classes(classes: tuple[type[Config], ...], section: object) -> tuple[type[Config], ...]:
    """Return the class that `kind` in `section` selects, or all `classes` if it selects none."""
    kind = section.get("kind") if isinstance(section, dict) else None
    named = tuple(c for c in classes if kind_of(c) == kind)
    return named if len(classes) > 1 and named else classes


def sections(
    annotation: object, tree: object, path: KeyPath = ()
) -> Iterator[tuple[KeyPath, tuple[type[Config], ...], dict[str, object]]]:
    """Yield the key, the possible classes and the values of each section, outermost first.

    `tree` holds the values of a config, and `annotation` is its type. `path` is the key of `tree`.
    The caller may change the values of a section before it takes the next section.
    """
    kinds = config_classes(annotation)
    if kinds and isinstance(tree, dict):
        yield path, kinds, tree
        for name, field in select_classes(kinds, tree)[0].model_fields.items():
            yield from sections(field.annotation, tree.get(name), (*path, name))
    for member in _alternatives(annotation):
        if get_origin(member) in (list, tuple) and isinstance(tree, list):
            for index, item in enumerate(tree):
                yield from sections(get_args(member)[0], item, (*path, index))
        if get_origin(member) is dict and isinstance(tree, dict):
            for key, item in tree.items():
                yield from sections(get_args(member)[1], item, (*path, key))


def all_keys(root: object, prefix: str = "") -> Iterator[str]:
    """Yield every full key of the config class `root`, such as `train.lr`, for all kinds."""
    for config_class in config_classes(root):
        for name, field in config_class.model_fields.items():
            yield f"{prefix}{name}"
            yield from all_keys(field.annotation, f"{prefix}{name}.")


def nearest_key(key: str, here: Sequence[str], everywhere: Sequence[str]) -> str | None:
    """Return the known key that the unknown name `key` most likely means, or None.

    `here` are the full keys of the section with the unknown key, `everywhere` all full keys. The
    same name in another section is preferred, then the initials (`lr` for `learning_rate`) or a
    similar spelling in `here`, then a similar spelling in `everywhere`.
    """
    by_name: dict[str, str] = {}
    for known in sorted(everywhere, key=lambda known: known.count(".")):
        by_name.setdefault(known.rpartition(".")[2], known)
    if key in by_name:
        return by_name[key]
    names = {known.rpartition(".")[2]: known for known in here}
    for name, known in names.items():
        if key in (_initials(name), name.replace("_", "")) or name == _initials(key):
            return known
    for candidates, cutoff in ((names, 0.65), (by_name, 0.8)):
        if (near := most_similar(key, candidates, cutoff)) is not None:
            return candidates[near]
    return None


def differences(old: object, new: object, key: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield (dotted key, old value, new value) for every difference between nested dicts."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            below = f"{key}.{name}" if key else str(name)
            yield from differences(old.get(name), new.get(name), below)
    elif old != new:
        yield key, old, new


def _initials(name: str) -> str:
    return "".join(word[0] for word in name.split("_") if word)
