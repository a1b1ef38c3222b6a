"""One table of colours for pictures, one for pages."""

import re
from pathlib import Path

NMT = Path(__file__).parents[2] / "nmt"
COLOUR = re.compile(r"#[0-9a-f]{3}(?:[0-9a-f]{3})?\b", re.IGNORECASE)
TABLES = {"explain/colours.py", "explain/web/attention.css"}
CONTENT = {"lab/captioning/scenes.py"}
"""The colours of things in drawn scenes."""


def test_colours_stand_in_their_tables() -> None:
    files = [path for folder in ("explain", "lab") for path in (NMT / folder).rglob("*.*")]
    coloured = {
        str(path.relative_to(NMT))
        for path in files
        if path.suffix in (".py", ".css", ".js") and COLOUR.search(path.read_text("utf-8"))
    }
    assert TABLES <= coloured <= TABLES | CONTENT
