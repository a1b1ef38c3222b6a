"""The files of the server's page."""

from importlib.resources import files

from nmt.explain.web import map_script, map_style


def page_files() -> dict[str, tuple[str, str]]:
    """Return the content and media type of each file of the page, by URL path."""
    folder = files(__package__)
    names = "page.html", "page.js", "page.css"
    html, script, style = ((folder / name).read_text(encoding="utf-8") for name in names)
    return {
        "/": (html, "text/html"),
        "/page.js": (script, "text/javascript"),
        "/page.css": (style, "text/css"),
        "/map.js": (map_script(), "text/javascript"),
        "/map.css": (map_style(), "text/css"),
    }
