"""Pages and pictures that scripts generate: fresh, complete, and what they quote is in the code."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import command_reference
import pytest
from config_reference import json_schema, reference
from draw_diagrams import DIAGRAMS, main
from draw_packages import read_packages, svg

from nmt.config import RunConfig

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_tracked_references_are_what_the_classes_say() -> None:
    for name, text in {
        "configuration.md": reference(RunConfig),
        "config.schema.json": json_schema(RunConfig),
        "commands.md": command_reference.reference(),
        "packages.svg": svg(read_packages(ROOT)),
    }.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name} is stale: make docs"


def test_all_are_drawn_and_displayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["draw_diagrams.py", "--out", str(tmp_path)])
    assert main() == 0
    names = {f"{name}.png" for name in DIAGRAMS}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert {path.name for path in (DOCS / "diagrams").iterdir()} == names
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    for name in names:
        assert f"diagrams/{name})" in pages


def test_every_page_has_its_place() -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (*DOCS.glob("*.md"), *(DOCS / "lab").glob("*.md")):
        assert re.search(rf"[ :]{page.relative_to(DOCS).as_posix()}\n", listed), page


def test_every_message_that_is_explained_is_one_of_ours() -> None:
    nodes = (
        node
        for file in (ROOT / "nmt").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    )
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    texts = "\n".join(value for value in constants if isinstance(value, str))
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)` \| .+ \| .+ \|$", page, re.MULTILINE)
    assert len(messages) > 25
    for message in messages:
        parts = [part.strip(" '():,") for part in re.split("…|; ", message)]
        assert [part for part in parts if len(part) > 6], message
        assert not [part for part in parts if part and part not in texts], message


@pytest.mark.slow
def test_the_site_is_strict_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    subprocess.run(command, cwd=ROOT, check=True)
    loaded = re.compile(r'<(?:script|img|iframe)[^>]+src="https?:|<link[^>]+href="https?:|@import')
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert len(pages) > 40
    assert [path for path, text in pages.items() if loaded.search(text)] == []
