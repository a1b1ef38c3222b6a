"""YAML to config within limits: scalars, places, overrides, and each fault of a file."""

import time
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from nmt.errors import ConfigError
from nmt.settings.base import Config
from nmt.settings.config_file import Override, load_file, with_overrides
from nmt.settings.yaml_text import (
    MAX_DEPTH,
    MAX_YAML_BYTES,
    YamlDocument,
    flow_yaml,
    read_text,
)


class Round(Config):
    kind: Literal["round"] = "round"
    radius: float = 1.0
    colour: str = "red"


class Square(Config):
    kind: Literal["square"] = "square"
    side: float = 1.0
    colour: str = "red"


class Inner(Config):
    size: int = 3
    flag: bool = False
    paths: tuple[Path, ...] = ()
    shape: Annotated[Round | Square, Field(discriminator="kind")] = Square()


class Outer(Config):
    name: str
    rate: float = Field(default=0.5, gt=0)
    inner: Inner = Inner()
    other: Inner | None = None


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("x.yaml")


def load(file: Path, text: str, *overrides: str) -> Outer:
    file.write_text(text, encoding="utf-8")
    parsed = [Override.parse(text, f"--set {text}") for text in overrides]
    return load_file(file, parsed, Outer)


def error(file: Path, text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, text, *overrides)
    return str(caught.value)


def test_numbers_and_words_are_not_those_of_yaml_1_1(file: Path) -> None:
    for written, value in {"3e-4": 3e-4, ".5": 0.5, "1.": 1.0, "010": 10.0, "1_000": 1e3}.items():
        assert load(file, f"name: x\nrate: {written}").rate == value
    for written in ("no", "off", "2020-01-01", "12:30", "1e", "0x1F", "="):
        assert load(file, f"name: {written}").name == written


BILLION_WORDS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(f'*{old}' for _ in range(9))}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: 12", "1: name: got 12, allowed: text"),
        ("name: x\nrate: '3e-4'", "2: rate: got '3e-4', allowed: a number"),
        ("name: x\nrate: 1e999", "2: rate: got 1e999, which is too large for a number"),
        ("name: x\ninner:\n  paths:\n  - a\n  - 3\n", "5: inner.paths.1: got 3, allowed: "),
        ("# only words\n", " the file is empty"),
        ("name: x\ninner:\n  size: 1\n  size: 1", "4: inner.size: given twice, first in x.yaml:3"),
        ("name: x\n3: 4", "2: keys are plain names, got '3'"),
        (BILLION_WORDS, "2: not valid YAML: aliases (*a) are not allowed"),
        ("a:\n  !!python/object/apply:os.system [ls]", "2: not valid YAML: tags are not allowed"),
        ("name: x\n  rate: 3", "2: not valid YAML: got '  rate: 3'"),
        ("a: 1\nb: \x07", "2: not valid YAML: the character U+0007 is not allowed"),
        ("name: " + "[" * 190_000, "1: not valid YAML: sections are nested deeper than 20 levels"),
        ("".join(f"{' ' * n}a:\n" for n in range(100)), "20: not valid YAML: sections are nested"),
        (
            f"name: x\nrate: {'9' * 5000}",
            "2: rate: got a number of 5000 digits, allowed: at most 40",
        ),
        (f"name: x\nrate: {2**63}", f"2: rate: got {2**63}, allowed: less than 2^63"),
    ],
)
def test_each_fault_of_a_file_has_its_line(file: Path, text: str, message: str) -> None:
    started = time.monotonic()
    line = error(file, text)
    assert line.startswith(f"x.yaml:{message}")
    assert "\n" not in line
    assert time.monotonic() - started < 5


def test_the_deepest_and_the_largest_that_are_allowed(file: Path) -> None:
    text = "".join(f"{' ' * n}a:\n" for n in range(MAX_DEPTH - 2)) + " " * MAX_DEPTH + "a: 1"
    assert isinstance(YamlDocument(text, "x").value, dict)
    assert YamlDocument("# nothing\n", "x").value is None
    # Depth is counted again from the next sibling on.
    assert YamlDocument("[" + "[[]]," * 100 + "]", "x").value == [[[]]] * 100
    with pytest.raises(ConfigError, match=r"U\+DC80"):
        YamlDocument("a: \udc80", "x")
    file.write_bytes(b"#" * MAX_YAML_BYTES)
    assert len(read_text(file)) == MAX_YAML_BYTES
    with file.open("ab") as huge:
        huge.truncate(1 << 40)  # more than can be read
    with pytest.raises(ConfigError, match=r"x\.yaml: larger than the 200,000 bytes"):
        read_text(file)


def test_all_faults_are_reported_in_the_order_of_the_file(file: Path) -> None:
    text = "rate: 0\ninner:\n  sise: 3\n  flag: 1\nnmae: x\n"
    assert error(file, text, "inner.size=a").splitlines() == [
        "x.yaml: name: missing, and it has no default",
        "x.yaml:1: rate: got 0, allowed: > 0",
        "x.yaml:3: inner.sise: unknown key; did you mean 'inner.size'?",
        "x.yaml:4: inner.flag: got 1, allowed: true or false",
        "x.yaml:5: nmae: unknown key; did you mean 'name'?",
        "--set inner.size=a: inner.size: got 'a', allowed: a whole number",
    ]


def test_what_is_no_config_file_is_named(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfname: x")
    assert load_file(file, (), Outer).name == "x"  # without the byte order mark
    Path("folder").mkdir()
    Path("latin.yaml").write_bytes(b"name:\n \xff")
    for name, message in (
        ("x.yml", r"x.yml: no such file; did you mean 'x.yaml'\?"),
        ("nowhere/zzzzzz.yaml", "nowhere/zzzzzz.yaml: no such file; relative paths start in .*"),
        ("folder", "folder: cannot be read: Is a directory"),
        ("latin.yaml", "latin.yaml:2: byte 0xff is not UTF-8; save the file as UTF-8"),
    ):
        with pytest.raises(ConfigError, match=f"^{message}$"):
            load_file(Path(name), (), Outer)


def test_overrides_reach_into_what_the_file_does_not_say(file: Path) -> None:
    """And apply to a config that was read already."""
    config = load(file, "name: x", "rate=3e-4", "inner.paths=[a, b]", "other={}")
    inner = Inner(paths=(Path("a"), Path("b")))
    assert config == Outer(name="x", rate=3e-4, inner=inner, other=Inner())
    config = Outer(name="x", rate=2)
    size, text = Override("inner.size", 7, "--size 7"), Override.parse("inner.size=3", "--set")
    for overrides, value in (([size], 7), ([size, text], 3), ([text, size], 7)):
        changed = with_overrides(config, overrides)
        assert changed == Outer(name="x", rate=2, inner=Inner(size=value))
    with pytest.raises(ConfigError, match=r"^--size x: inner.size: got 'x', allowed: a whole num"):
        with_overrides(config, [Override("inner.size", "x", "--size x")])


def test_the_last_override_of_a_key_wins_and_may_be_odd(file: Path) -> None:
    assert load(file, "name: x\nrate: 1", "rate=2", "rate=3").rate == 3
    assert load(file, "name: x", "name=a=b").name == "a=b"
    assert load(file, "name: x\nother: {size: 1}", "other=").other is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rate", "allowed: key=value, such as train.lr=3e-4"),
        ("rate.x=3", "'rate' is not a section"),
        ("inner.zzz=3", "inner.zzz: unknown key, allowed here: size, flag, pa"),
        ("inner.shape.kind=sqare", "inner.shape.kind: got 'sqare', allowed: 'round', 'square'"),
        ("inner.shape.radius=1", "inner.shape.radius: unknown key for kind 'square'; it is a key"),
    ],
)
def test_each_fault_of_an_override_names_it(file: Path, override: str, message: str) -> None:
    line = error(file, "name: x\nrate: 1", override)
    assert line.startswith(f"--set {override}: {message}")
    assert "\n" not in line


def test_a_kind_may_be_left_out_or_given_as_its_name(file: Path) -> None:
    assert load(file, "name: x\ninner: {shape: {side: 2}}").inner.shape == Square(side=2)
    assert load(file, "name: x", "inner.shape=round").inner.shape == Round()
    changed = load(file, "name: x\ninner: {shape: round}", "inner.shape.radius=9")
    assert changed.inner.shape == Round(radius=9)
    wrong = error(file, "name: x\ninner:\n  shape: rond")
    assert wrong == "x.yaml:3: inner.shape.kind: got 'rond', allowed: 'round', 'square'"
    assert load(file, "name: x\ninner:\n  # nothing yet\nother:\n") == Outer(name="x")


def test_a_new_kind_keeps_what_it_knows_and_drops_the_rest(file: Path) -> None:
    """But for a key that no kind knows."""
    text = "name: x\ninner: {shape: {kind: square, side: 2, colour: blue}}"
    overrides = ("inner.shape.kind=round", "inner.shape.radius=5")
    for order in (overrides, overrides[::-1]):
        assert load(file, text, *order).inner.shape == Round(radius=5, colour="blue")
    text = "name: x\ninner: {shape: {kind: square, sied: 2}}"
    assert "inner.shape.sied: unknown key" in error(file, text, "inner.shape.kind=round")


@given(st.dictionaries(st.sampled_from("abc"), st.text()))
def test_a_value_in_one_line_reads_back(value: dict[str, str]) -> None:
    line = flow_yaml(value)
    assert "\n" not in line
    assert YamlDocument(f"key: {line}  # comment", "x").value == {"key": value}
