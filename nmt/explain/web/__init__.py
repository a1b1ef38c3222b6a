"""Attention maps for browsers: scripts and styles, which a page has in itself or a server serves.

heat_map.js describes what the scripts offer: data in, element out.
"""

from importlib.resources import files

_SCRIPTS = (
    "weights.js",
    "drawing.js",
    "heat_map.js",
    "word_lines.js",
)  # each needs those before it


def map_script() -> str:
    """The scripts that draw maps, as one: the global `nmtAttention`."""
    return "".join(map(web_file, _SCRIPTS))


def map_style() -> str:
    """The style that `map_script` needs."""
    return web_file("attention.css")


def web_file(name: str) -> str:
    """The text of a file in this folder."""
    return (files(__package__) / name).read_text(encoding="utf-8")
