"""Draw the packages of nmt, and who imports whom, as an SVG on stdout.

    python scripts/draw_packages.py > docs/packages.svg

Packages have the order of the layers in pyproject.toml, which import-linter enforces. The phrase of
a package is the first sentence of its docstring. A dot means that the package of the row imports
the package of the column; all dots lie right of the diagonal, because imports point down.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "nmt"
ROW, CELL, MARGIN, HEAD = 34, 23, 16, 96
NAME_WIDTH, PHRASE_WIDTH = 140, 560
"""Pixels: a row's height, a column's width, the margin, the columns' names, the parts of a box."""
FONT = "font-family='Helvetica, Arial, DejaVu Sans, sans-serif'"


@dataclass(frozen=True)
class Package:
    """A folder or module right under the package."""

    name: str
    layer: int
    phrase: str
    imports: frozenset[str]


def read_packages(root: Path) -> list[Package]:
    """The packages of `root`, from the top layer down."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    contract = next(contract for contract in contracts if contract["type"] == "layers")
    ignored = [
        [side.split(".")[1] for side in pair.split(" -> ")]  # of nmt.A.x -> nmt.B.**
        for pair in contract.get("ignore_imports", ())
    ]
    packages = []
    for layer, names in enumerate(contract["layers"]):
        for name in filter(lambda name: not name.startswith("__"), names.split(" | ")):
            files = sorted((root / PACKAGE / name).rglob("*.py")) or [root / PACKAGE / f"{name}.py"]
            trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
            phrase = (ast.get_docstring(trees[0]) or "").split("\n\n")[0].split(". ")[0]
            imported = {name for tree in trees for name in _imports(tree)} - {name}
            imported -= {target for source, target in ignored if source == name}
            packages.append(Package(name, layer, phrase.rstrip("."), frozenset(imported)))
    return packages


def _imports(tree: ast.Module) -> Iterator[str]:
    """The packages that a file imports from, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            modules = [f"{PACKAGE}.{alias.name}" for alias in node.names]
        else:
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            package, _, rest = module.partition(".")
            if package == PACKAGE and rest:
                yield rest.partition(".")[0]


def svg(packages: Sequence[Package]) -> str:
    """A box for each package in the order of the layers, and the matrix of imports beside it."""
    n_layers = max(package.layer for package in packages) + 1
    left = 2 * MARGIN + NAME_WIDTH + PHRASE_WIDTH
    width, height = left + CELL * len(packages) + 3 * MARGIN, HEAD + ROW * len(packages) + MARGIN
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' {FONT}>",
        "<title>The packages of nmt, and who imports whom</title>",
        f"<rect width='{width}' height='{height}' rx='8' fill='white'/>",
        f"<text x='{MARGIN}' y='{HEAD - 12}' font-size='12.5' fill='#666'>"
        "Imports point down. A dot: the row's package imports the column's package.</text>",
    ]
    dots = []
    for i, package in enumerate(packages):
        hue = 212 - 60 * package.layer // n_layers
        y, x = HEAD + ROW * i, left + CELL * (i + 0.5)
        middle = y + ROW / 2
        parts += [
            f"<rect x='{MARGIN}' y='{y + 2}' width='{NAME_WIDTH + PHRASE_WIDTH}' "
            f"height='{ROW - 4}' rx='6' fill='hsl({hue}, 55%, 93%)'/>",
            f"<text x='{MARGIN + 10}' y='{middle + 5}' font-size='14' font-weight='bold' "
            f"fill='hsl({hue}, 55%, 32%)'>{package.name}</text>",
            f"<text x='{MARGIN + NAME_WIDTH}' y='{middle + 5}' font-size='12.5' fill='#333'>"
            f"{escape(package.phrase)}</text>",
            f"<line x1='{x}' y1='{HEAD}' x2='{x}' y2='{middle}' stroke='#e8e8e8'/>",
            f"<line x1='{x}' y1='{middle}' x2='{left + CELL * len(packages)}' y2='{middle}' "
            "stroke='#e8e8e8'/>",
            f"<text x='{x}' y='{HEAD - 6}' font-size='12' fill='#444' "
            f"transform='rotate(-50 {x} {HEAD - 6})'>{package.name}</text>",
        ]
        dots.append(f"<circle cx='{x}' cy='{middle}' r='3' fill='#bbb'/>")
        dots += [
            f"<circle cx='{left + CELL * (j + 0.5)}' cy='{middle}' r='5.5' "
            f"fill='hsl({hue}, 55%, 42%)'/>"
            for j, other in enumerate(packages)
            if other.name in package.imports
        ]
    return "\n".join([*parts, *dots, "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(svg(read_packages(ROOT)))
