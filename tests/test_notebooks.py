"""The notebooks: they have no outputs, and their code runs from the first cell on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

RUNNER = """
import ast, json, sys
for cells in json.load(sys.stdin):
    space = {"__name__": "__main__"}
    for source in cells:
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
"""Runs cells as a notebook does: one namespace each, and a last expression is shown."""

TRAINED = ("attention", "seq2seq")
"""The notebooks that train; the others take seconds."""


def _code(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        assert (cell.get("outputs", []), cell.get("execution_count")) == ([], None)
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def _shown(notebooks: list[Path], folder: Path) -> str:
    """Return the output of the cells, run without Jupyter: they are plain Python."""
    cells = json.dumps([_code(notebook) for notebook in notebooks])
    environment = {**os.environ, "MPLBACKEND": "agg"}
    return subprocess.check_output(
        [sys.executable, "-c", RUNNER], input=cells, text=True, cwd=folder, env=environment
    )


def test_the_cells_of_short_notebooks_run_in_their_order(tmp_path: Path) -> None:
    notebooks = [notebook for notebook in NOTEBOOKS if notebook.stem not in TRAINED]
    assert _shown(notebooks, tmp_path).count("_repr_png_") >= len(notebooks)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_the_cells_of_a_notebook_that_trains_run(name: str, tmp_path: Path) -> None:
    shown = _shown([ROOT / "docs" / "notebooks" / f"{name}.ipynb"], tmp_path)
    assert "_repr_png_" in shown
    if name == "attention":
        assert "_repr_html_" in shown
        for page in ("report.html", "maps.html"):
            assert (tmp_path / page).read_text(encoding="utf-8").startswith("<!doctype html>")
