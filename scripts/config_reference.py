"""Print the reference of all configuration keys, in Markdown, or with --schema the JSON Schema.

    python scripts/config_reference.py > docs/configuration.md
    python scripts/config_reference.py --schema > docs/config.schema.json

`make docs` runs it, and a test compares.
"""

import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from nmt.config import RunConfig
from nmt.settings.base import Config
from nmt.settings.keys import config_classes, kind_of

_HEAD = """\
# Configuration

<!-- Written by `make docs`; a test keeps it true. The words are in the config classes. -->

A run is one YAML file: `nmt train --config FILE`. It says only what differs from the defaults
below; a section left out, or left empty, has all its defaults, and one of which only the kind
matters may be given as its name: `optimizer: sgd` means `optimizer: {kind: sgd}`.
`nmt config show FILE` prints a file with every default filled in, `nmt config check FILE` says
what is wrong in one, and docs/config.schema.json is the JSON Schema for your editor.

On the command line, `--set KEY=VALUE` sets any key over the file: `--set train.lr=3e-4`,
`--set data.train.file=pairs.tsv`, `--set valid.patience=null`. VALUE is YAML. Setting a `kind`
keeps the keys of that section which the new kind has too, and drops the others.

YAML is read by the rules of YAML 1.2: `3e-4` is a number, `no` is a language. Unknown keys, keys
given twice, aliases and tags are errors. Paths are relative to where `nmt` is started, and `~` is a
home folder.
"""

_TYPES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true, false",
    Path: "path",
    NoneType: "null",
}

_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "multiple_of": "multiple of"}


def json_schema(config_class: type[Config]) -> str:
    """The JSON Schema of a configuration class, as text with a final newline."""
    schema = config_class.model_json_schema()
    _allow_names(schema)
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _allow_names(schema: object) -> None:
    """In place: a section that has kinds may be given as the name of one."""
    if isinstance(schema, list):
        for part in schema:
            _allow_names(part)
    elif isinstance(schema, dict):
        for part in schema.values():
            _allow_names(part)
        if "discriminator" in schema:
            family = {key: schema.pop(key) for key in ("discriminator", "oneOf")}
            names = {"enum": sorted(family["discriminator"]["mapping"])}
            schema["anyOf"] = [family, names]


def reference(config_class: type[Config]) -> str:
    """The Markdown page: a table of key, type, default and meaning for every section and kind."""
    return "".join([_HEAD, *_table(config_class, ""), *_inner([config_class], "")])


def _table(config_class: type[Config], path: str) -> Iterator[str]:
    """The keys of one class, a line each."""
    kind = kind_of(config_class)
    yield f"\n## {path or 'The file'}{f', kind: {kind}' if kind else ''}\n"
    yield f"\n{inspect.cleandoc(config_class.__doc__ or '')}\n\n"
    yield "| key | type | default | meaning |\n|---|---|---|---|\n"
    for name, field in config_class.model_fields.items():
        cells = (f"`{name}`", _type(field), _default(field), field.description or "")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _inner(kinds: Sequence[type[Config]], path: str) -> Iterator[str]:
    """The sections inside a section that may be of these kinds, each once."""
    # Fields of the same classes (train, valid, test) share their tables, and so do the kinds of
    # a family that have a field in common. A dict keeps the order of the names.
    sections: dict[tuple[type[Config], ...], dict[str, None]] = {}
    for config_class in kinds:
        for name, field in config_class.model_fields.items():
            names = sections.setdefault(config_classes(field.annotation), {})
            names[f"{path}.{name}".lstrip(".")] = None
    for classes, names in sections.items():
        for inner in classes:
            yield from _table(inner, ", ".join(names))
        yield from _inner(classes, ", ".join(names))
    # The sections inside the items of a list (data.stages) have their tables elsewhere.
    for config_class in kinds:
        for name, field in config_class.model_fields.items():
            for item in _item_classes(field.annotation):
                yield from _table(item, f"{path.partition(',')[0]}.{name}")


def _item_classes(annotation: object) -> tuple[type[Config], ...]:
    """The config classes of the items of a list, which may be one arm of a union."""
    if get_origin(annotation) in (list, tuple):
        return config_classes(get_args(annotation)[0])
    return tuple(one for arm in get_args(annotation) for one in _item_classes(arm))


def _type(field: FieldInfo) -> str:
    arms = get_args(field.annotation)
    null = ", or null" if NoneType in arms else ""
    if classes := config_classes(field.annotation):
        kinds = ", ".join(f"`{kind}`" for kind in map(kind_of, classes) if kind)
        return f"section, kind: {kinds}{null}" if kinds else f"section{null}"
    bounds = ", ".join(
        f"{sign} {getattr(rule, name)}"
        for rule in field.metadata
        for name, sign in _BOUNDS.items()
        if getattr(rule, name, None) is not None
    )
    types = [arm for arm in arms if arm is not NoneType] if null else [field.annotation]
    text = ", or ".join(map(_type_words, types))
    return f"{text} ({bounds}){null}" if bounds else f"{text}{null}"


def _type_words(annotation: object) -> str:
    arms = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _type_words(arms[0])
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in arms)
    if config_classes(annotation):
        return "sections"
    if isinstance(annotation, type) and annotation in _TYPES:
        return _TYPES[annotation]
    if get_origin(annotation) in (list, tuple):
        return f"list of {_type_words(arms[0])}"
    return ", or ".join(map(_type_words, arms))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Config):
        kind = kind_of(type(default))
        return f"`{kind}`" if kind else "its defaults"
    if default is None or isinstance(default, bool):
        return f"`{json.dumps(default)}`"
    return f"`{default}`"


if __name__ == "__main__":
    text = json_schema(RunConfig) if "--schema" in sys.argv else reference(RunConfig)
    sys.stdout.write(text)
