"""A hook of mkdocs.yml: pages of the site that stand outside of docs/, and links to code.

README.md becomes the first page; CONTRIBUTING.md, SECURITY.md and CHANGELOG.md get a page each.
Their links into docs/ are rewritten. A link to a source file, which the site does not have,
becomes its text. On GitHub all of these links work as they are written.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""The files of the repository's root, and the name of each in the site."""

_CODE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:nmt|scripts|tests|configs)/[^)]*\)")
_FILE = re.compile(r"\[([^\]]+)\]\((?:CITATION\.cff|LICENSE|NOTICE)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root (mkdocs calls this once the files of docs/ are known)."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=site_text(text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page without links to code (mkdocs calls this for each page)."""
    return _link_root_pages(_CODE.sub(r"\1", markdown), "../")


def site_text(text: str) -> str:
    """The text of a page in the root, with the links that it has in the site."""
    return _link_root_pages(_FILE.sub(r"\1", text.replace("](docs/", "](")), "")


def _link_root_pages(text: str, folder: str) -> str:
    for name, page in PAGES.items():
        text = re.sub(rf"\]\({re.escape(folder + name)}(?=[)#])", f"]({page}", text)
    return text
