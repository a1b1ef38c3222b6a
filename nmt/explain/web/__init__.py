"""Scripts and style sheet of attention maps in browsers, to embed in a page or to serve.

heat_map.js documents the functions of the scripts.
"""

from importlib.resources import files

_SCRIPTS = ("weights", "drawing", "heat_map", "word_lines")  # a script requires those before it


def map_script() -> str:
    """Return the concatenated scripts that draw attention maps and define `nmtAttention`."""
    return "".join(web_file(f"{name}.js") for name in _SCRIPTS)


def map_style() -> str:
    """Return the CSS of the attention maps drawn by `map_script`."""
    return web_file("attention.css")


def web_file(name: str) -> str:
    """Return the text of a file in this folder."""
    return (files(__package__) / name).read_text(encoding="utf-8")
