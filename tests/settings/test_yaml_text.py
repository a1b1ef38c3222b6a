"""YAML within limits: each way to make a small file large, and the line that refuses it."""

import time
from pathlib import Path

import pytest

from nmt.errors import ConfigError
from nmt.settings.yaml_text import MAX_DEPTH, MAX_YAML_BYTES, YamlDocument, read_text

BILLION_WORDS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(f'*{old}' for _ in range(9))}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BILLION_WORDS, "x:2: not valid YAML: aliases (*a) are not allowed"),
        ("a: b\n<<: *b", "x:2: not valid YAML: aliases (*b) are not allowed"),
        ("a: " + "[" * 190_000, "x:1: not valid YAML: sections are nested deeper than 20 levels"),
        ("- " * 90_000, "x:1: not valid YAML: sections are nested deeper than 20 levels"),
        ("a: 1\nb: \x07", "x:2: not valid YAML: the character U+0007 is not allowed"),
        ("a: \udc80", "x:1: not valid YAML: the character U+DC80 is not allowed"),
        (
            "a:\n  !!python/object/apply:os.system [ls]",
            "x:2: not valid YAML: tags are not allowed, got "
            "tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("a: !secret {b: c}", "x:1: not valid YAML: tags are not allowed, got !secret"),
        ("a: 1\n\tb: 2", "x:2: not valid YAML: got '\\tb: 2'"),
        ("a: 'b\nc: d\n\n", 'x:1: not valid YAML: got "a: \'b"'),
        ("Fine.\nHe said: no: never", "x:2: not valid YAML: got 'He said: no: never'"),
    ],
)
def test_each_is_refused_with_its_line_and_at_once(text: str, message: str) -> None:
    started = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        YamlDocument(text, "x")
    assert str(caught.value).startswith(message)
    assert time.monotonic() - started < 5


def test_the_deepest_that_is_allowed() -> None:
    text = "".join(f"{' ' * n}a:\n" for n in range(MAX_DEPTH - 2)) + " " * MAX_DEPTH + "a: 1"
    assert isinstance(YamlDocument(text, "x").value, dict)
    assert YamlDocument("# nothing\n", "x").value is None
    # Depth is counted again from the next sibling on.
    assert YamlDocument("[" + "[[]]," * 100 + "]", "x").value == [[[]]] * 100


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.write(b"name: x\n")
        file.truncate(1 << 30)
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"huge\.yaml: larger than the 200,000 bytes"):
        read_text(path)
    assert time.monotonic() - started < 1
    path.write_bytes(b"#" * MAX_YAML_BYTES)
    assert len(read_text(path)) == MAX_YAML_BYTES


def test_what_is_not_utf_8_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes("é: 1\nb: é".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"x\.yaml:1: byte 0xe9 is not UTF-8$"):
        read_text(path)
    path.write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_text(path) == "a: 1"
