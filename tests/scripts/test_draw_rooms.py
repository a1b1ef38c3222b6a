"""The picture of the rooms shows the layers of pyproject.toml and the imports of the files."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from draw_rooms import ROOT, read_rooms, svg

PYPROJECT = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["__main__", "attic", "hall | kitchen", "cellar"]
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
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
    return tmp_path


def test_rooms_have_their_layer_phrase_and_imports(house: Path) -> None:
    found = [(r.name, r.layer, r.phrase, r.imports) for r in read_rooms(house)]
    assert found == [
        ("attic", 1, "Old things", {"hall"}),
        ("hall", 2, "Where one enters: & leaves", {"cellar"}),
        ("kitchen", 2, "", {"cellar"}),
        ("cellar", 3, "Wine", set()),
    ]


def test_the_picture_has_a_box_for_each_room_and_a_dot_for_each_import(house: Path) -> None:
    root = ET.fromstring(svg(read_rooms(house)))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("kitchen") == 2  # its box, and its column
    assert "Where one enters: & leaves" in texts
    dots = [c for c in root.iter("{http://www.w3.org/2000/svg}circle") if c.get("r") == "5.5"]
    assert len(dots) == 3


def test_every_room_of_the_package_has_a_phrase_that_fits_its_box() -> None:
    rooms = read_rooms(ROOT)
    assert [room.name for room in rooms if not 0 < len(room.phrase) <= 84] == []


def test_imports_point_down() -> None:
    rooms = read_rooms(ROOT)
    layer = {room.name: room.layer for room in rooms}
    up = [(r.name, name) for r in rooms for name in r.imports if layer[name] <= r.layer]
    assert up == []
