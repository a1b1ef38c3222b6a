"""`import nmt` gives the public API, and imports torch only when a name of it is used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import nmt


def _run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_importing_nmt_imports_no_torch() -> None:
    assert _run("import nmt, sys; dir(nmt); print('torch' in sys.modules)") == "False\n"


def test_a_name_of_the_api_is_imported_when_it_is_used() -> None:
    code = "import nmt, sys; print(nmt.Translator.load.__name__, 'torch' in sys.modules)"
    assert _run(code) == "load True\n"


def test_a_star_import_gives_all_names() -> None:
    names = "from nmt import *; print(train.__name__, evaluate.__name__, RunConfig.__name__)"
    assert _run(names) == "train evaluate RunConfig\n"


@pytest.mark.parametrize("name", nmt.__all__)
def test_every_name_of_the_api_is_that_of_its_module(name: str) -> None:
    value = getattr(nmt, name)
    assert name in dir(nmt)
    assert value is getattr(importlib.import_module(value.__module__), name)


def test_type_checkers_see_the_names_that_are_there_at_run_time() -> None:
    stub = ast.parse(Path(nmt.__file__).with_name("__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = {alias.name: node.module for node in imports for alias in node.names}
    assert names == nmt._MODULES
    assert sorted(names) == nmt.__all__


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'nmt' has no attribute 'translate'"):
        _ = nmt.translate
