"""The picture of the packages shows the layers of pyproject.toml and the imports of the files."""

import xml.etree.ElementTree as ET
from pathlib import Path

from draw_packages import read_packages, svg

PYPROJECT = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["__main__", "attic", "hall | kitchen", "cellar"]
"""


def test_packages_have_their_layer_phrase_and_imports(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    for name, text in {
        "attic/__init__.py": '"""Old things. And more."""',
        "attic/box.py": "from nmt.hall.door import x\nfrom nmt.attic.other import y\nimport os",
        "hall/__init__.py": '"""Where one enters: & leaves.\n\nMore."""',
        "hall/deep/down.py": "def f():\n    import nmt.cellar\n",
        "kitchen/__init__.py": "from nmt import cellar",
        "cellar.py": '"""Wine."""',
    }.items():
        path = tmp_path / "nmt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    packages = read_packages(tmp_path)
    assert [(r.name, r.layer, r.phrase, r.imports) for r in packages] == [
        ("attic", 1, "Old things", {"hall"}),
        ("hall", 2, "Where one enters: & leaves", {"cellar"}),
        ("kitchen", 2, "", {"cellar"}),
        ("cellar", 3, "Wine", set()),
    ]
    dots = ET.fromstring(svg(packages)).iter("{http://www.w3.org/2000/svg}circle")
    assert len([dot for dot in dots if dot.get("r") == "5.5"]) == 3  # one for each import
