"""`import nmt` gives the public API, and imports torch only when a name of it is used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import nmt

PROGRAM = """
import nmt, sys
dir(nmt)
before = 'torch' in sys.modules
from nmt import *
print(before, train.__name__, evaluate.__name__, RunConfig.__name__, nmt.Translator.load.__name__)
"""


def test_torch_is_imported_when_a_name_is_used() -> None:
    shown = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True)
    assert shown == "False train evaluate RunConfig load\n"


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
