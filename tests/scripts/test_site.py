"""The site: its generated page is fresh, no page is missing, and what it quotes is in the code."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MKDOCS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
TROUBLE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def test_the_reference_of_commands_is_what_the_commands_say() -> None:
    from command_reference import reference

    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert page == reference(), "docs/commands.md is stale: make docs"


def test_every_page_has_its_place() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "lab").glob("*.md")]
    for page in pages:
        assert re.search(rf"[ :]{page.relative_to(ROOT / 'docs').as_posix()}\n", MKDOCS), page


MESSAGES = re.findall(r"^\| `([^`]+)` \| .+ \| .+ \|$", TROUBLE, re.MULTILINE)


def test_every_message_that_is_explained_is_one_of_ours() -> None:
    nodes = (
        node
        for file in (ROOT / "nmt").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    )
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    texts = "\n".join(value for value in constants if isinstance(value, str))
    assert len(MESSAGES) > 25
    for message in MESSAGES:
        parts = [part.strip(" '():,") for part in re.split("…|; ", message)]
        assert [part for part in parts if len(part) > 6], message
        assert not [part for part in parts if part and part not in texts], message


def test_the_pages_of_the_root_link_as_the_site_does() -> None:
    pytest.importorskip("mkdocs")
    from site_pages import PAGES, on_page_markdown, site_text

    text = "[a](docs/lab.md#x), [b](CHANGELOG.md), [c](LICENSE), [d](https://x.org)"
    assert site_text(text) == "[a](lab.md#x), [b](changelog.md), c, [d](https://x.org)"
    assert on_page_markdown("see [scores.py](../nmt/models/scores.py).") == "see scores.py."
    assert all((ROOT / name).is_file() for name in PAGES)


@pytest.mark.slow
def test_the_site_is_strict_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    loaded = re.compile(r'<(?:script|img|iframe)[^>]+src="https?:|<link[^>]+href="https?:|@import')
    for page in pages:
        assert not loaded.search(page.read_text(encoding="utf-8")), page
    assert "attention" in (tmp_path / "search" / "search_index.json").read_text(encoding="utf-8")
