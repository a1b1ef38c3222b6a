"""The configuration reference and the JSON Schema say what the classes say."""

from pathlib import Path

import pytest
from config_reference import json_schema, reference
from pydantic.fields import FieldInfo

from nmt.config import RunConfig
from nmt.settings.base import Config
from nmt.settings.keys import config_classes

DOCS = Path(__file__).parents[2] / "docs"


def fields(config_class: type[Config], path: str = "") -> list[tuple[str, FieldInfo]]:
    keys = []
    for name, field in config_class.model_fields.items():
        keys.append((f"{path}{name}", field))
        for inner in config_classes(field.annotation):
            keys += fields(inner, f"{path}{name}.")
    return keys


@pytest.mark.parametrize(
    ("name", "text"),
    [("configuration.md", reference(RunConfig)), ("config.schema.json", json_schema(RunConfig))],
)
def test_the_tracked_file_is_what_the_classes_say(name: str, text: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == text, "run `make docs`"


def test_every_key_has_a_row_that_says_what_it_means() -> None:
    page = reference(RunConfig)
    for key, field in fields(RunConfig):
        if not key.endswith("kind"):
            assert field.description, f"{key} has no description"
            assert f"`{key.rpartition('.')[2]}` |" in page
    assert "| `clip_norm` | number (> 0), or null | `1.0` |" in page
