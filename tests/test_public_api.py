"""`import nmt` gives the public API; test_app.py of the commands shows that it loads no torch."""

import ast
import importlib
from pathlib import Path

import pytest

import nmt


def test_every_name_of_the_api_is_that_of_its_module() -> None:
    for name in nmt.__all__:
        value = getattr(nmt, name)
        assert name in dir(nmt)
        assert value is getattr(importlib.import_module(value.__module__), name)
    with pytest.raises(AttributeError, match="module 'nmt' has no attribute 'translate'"):
        _ = nmt.translate


def test_type_checkers_see_the_names_that_are_there_at_run_time() -> None:
    stub = ast.parse(Path(nmt.__file__).with_name("__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = {alias.name: node.module for node in imports for alias in node.names}
    assert names == nmt._MODULES
    assert sorted(names) == nmt.__all__
