"""The notebooks: without outputs in the repository, and their code runs, from the first cell on."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

RUNNER = """
import ast, json, sys
space = {"__name__": "__main__"}
for source in json.load(sys.stdin):
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
        for name in ("_repr_html_", "_repr_png_"):
            if shown := getattr(value, name, lambda: None)():
                print(name, len(shown))
        print(repr(value))
"""
"""Runs cells as a notebook does: one namespace, and a last expression is shown."""


def _cells(notebook: Path) -> list[dict[str, Any]]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    return content["cells"]


def _code(notebook: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in _cells(notebook) if cell["cell_type"] == "code"]


def test_notebooks_are_kept_without_outputs() -> None:
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        cells = _cells(notebook)
        assert len({cell["id"] for cell in cells}) == len(cells)
        for cell in cells:
            if cell["cell_type"] == "code":
                assert (cell["outputs"], cell["execution_count"]) == ([], None)
                ast.parse("".join(cell["source"]))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_cells_of_a_notebook_run_in_their_order(notebook: Path, tmp_path: Path) -> None:
    """Without Jupyter: the cells are plain Python, and what they show is asked for as it would."""
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(_code(notebook)),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "_repr_html_" in done.stdout
    assert "_repr_png_" in done.stdout
    for page in ("report.html", "maps.html"):
        assert (tmp_path / page).read_text(encoding="utf-8").startswith("<!doctype html>")
