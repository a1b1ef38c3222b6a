"""Every line arrives as it is, and a malformed file is an error with its place."""

import contextlib
import gzip
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt.data import text_files
from nmt.data.sources import (
    DataConfig,
    SplitConfig,
    group_by_source,
    pairs_of,
    read_aligned,
    read_references,
    read_tsv,
    stream_tsv,
)
from nmt.data.text_files import archive_of, read_lines, stream_lines
from nmt.errors import DataError
from nmt.types import EvalExample, SentencePair

FRENCH = "Ça va ? «\u00a0Oui\u202f!\u00a0»"


PARTS = [
    *(b"a", b"\n", b"\r\n", b"\r", b"\n\n", b"\xef\xbb\xbf", b"\xff", b"\0", b" ", b"\x1f\x8b"),
    *(c.encode() for c in ("é", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "😀", "ح")),
]
"""What lines are made of, and what other programs take for the end of one."""


def write_zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_only_newline_ends_a_line(tmp_path: Path) -> None:
    odd = "a\u2028b\u2029c\u0085d\re\vf\fg\x1ch"
    path = tmp_path / "odd.en"
    path.write_bytes(f"{odd}\n\nlast".encode())
    assert read_lines(path) == [odd, "", "last"]


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))))
@settings(max_examples=50, deadline=None)
def test_any_lines_are_read_back(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.txt"
        # The mark is written because a file that begins with U+FEFF begins with a mark.
        path.write_bytes("\ufeff".encode() + "".join(f"{line}\n" for line in lines).encode())
        assert read_lines(path) == lines


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one", ["one"]),
        (b"\xef\xbb\xbfone\n", ["one"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\r\ntwo", ["one", "two"]),
        (b"one\r\ntwo\nthree\r\n", ["one\r", "two", "three\r"]),
        (b"one\r\r\ntwo\r\n", ["one\r", "two"]),
        (b"one\rtwo", ["one\rtwo"]),
    ],
)
def test_marks_and_line_ends(tmp_path: Path, raw: bytes, expected: list[str]) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(raw)
    assert read_lines(path) == expected


def test_undecodable_bytes_name_file_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "latin.fr"
    path.write_bytes(b"\xef\xbb\xbfun\ndeux\ncaf\xe9 noir\n")
    with pytest.raises(DataError, match=rf"^{path}:3: byte 0xe9 is not UTF-8; save"):
        read_lines(path)


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ("Ça va".encode("utf-16"), "UTF-16"),
        (gzip.compress(b"Go.\tVa !\n", mtime=0), r"should end in \.gz"),
        (b"PK\x03\x04\xff", r"should end in \.zip"),
        (b"PK\x03\x04\x14\0\x06\0\xff" + b"\0" * 21 + b"[Content_Types].xml", "office"),
        (b"PK\x03\x04\xff" + b"\0" * 25 + b"mimetypeapplication/vnd.oasis.x", "office"),
        (b"\xde\x12\x04\x95\0\0\0\0", "gettext"),
        (b"\x7fELF\0\xff", "is not text"),
    ],
)
def test_undecodable_bytes_say_what_the_file_looks_like(
    tmp_path: Path, raw: bytes, hint: str
) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(raw)
    with pytest.raises(DataError, match=rf"{path}:1: .*{hint}"):
        read_lines(path)


@pytest.mark.parametrize("name", ["no.txt", "no.gz", "no.zip", "no.zip/member"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"^{tmp_path / name}: no such file$"):
        read_lines(tmp_path / name)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"^{tmp_path}: cannot be read: Is a directory"):
        read_lines(tmp_path)


def test_gz_is_read_as_plain_text_is(tmp_path: Path) -> None:
    path = tmp_path / "text.fr.gz"
    path.write_bytes(gzip.compress(f"{FRENCH}\nFin.\n".encode()))
    assert read_lines(path) == [FRENCH, "Fin."]


@pytest.mark.parametrize("suffix", [".gz", ".zip"])
@pytest.mark.parametrize("damage", ["cut", "text"])
def test_damaged_archives(tmp_path: Path, suffix: str, damage: str) -> None:
    path = tmp_path / f"file{suffix}"
    whole = gzip.compress(FRENCH.encode() * 50)
    if suffix == ".zip":
        whole = write_zip(path, {"a.txt": FRENCH * 50}).read_bytes()
    path.write_bytes(whole[:-20] if damage == "cut" else b"<html>404</html>")
    with pytest.raises(DataError, match=rf"^{path}: damaged or not a {suffix[1:]} file"):
        read_lines(path)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED_BYTES", 1000)
    monkeypatch.setattr(text_files, "MAX_RATIO", 0)
    gz = tmp_path / "bomb.gz"
    gz.write_bytes(gzip.compress(b"a" * 1001))
    zipped = write_zip(tmp_path / "bomb.zip", {"a.txt": "a" * 1001})
    for path, shown in ((gz, gz), (zipped, zipped / "a.txt")):
        with pytest.raises(DataError, match=rf"^{shown}: unpacks to more than the 1,000 bytes of"):
            read_lines(path)
    gz.write_bytes(gzip.compress(b"a" * 1000))
    assert read_lines(gz) == ["a" * 1000]


def test_a_gigabyte_of_nothing_costs_no_memory(tmp_path: Path) -> None:
    """300 MB in 300 kB, refused once it has passed what a file of its size may hold."""
    gz = tmp_path / "bomb.gz"
    with gzip.open(gz, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b"a" * 999_999 + b"\n")
    limit = max(64 << 20, 100 * gz.stat().st_size)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=f"unpacks to more than the {limit:,} bytes"):
            for _ in stream_lines(gz):
                pass
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_of_what_unpacks_without_bound_is_refused(tmp_path: Path, packing: int) -> None:
    """Of these two zipfile unpacks all that a block holds, however little is asked for."""
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("a.txt", (b"a" * 999 + b"\n") * 100_000)
    assert path.stat().st_size < 20_000
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=rf"^{path}/a\.txt: packed by a method that cannot .*"):
            read_lines(path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^/dev/zero:1: a line of more than 16,777,216 bytes; exp"):
        read_lines(Path("/dev/zero"))
    path = tmp_path / "long"
    path.write_bytes(b"a\n" + b"b" * (16 << 20) + b"\nc")
    assert [len(line) for line in read_lines(path)] == [1, 16 << 20, 1]
    path.write_bytes(b"a\nb\n" + b"c" * ((16 << 20) + 1) + b"\nd")
    with pytest.raises(DataError, match=rf"^{path}:3: a line of more than"):
        read_lines(path)


def test_what_is_known_of_the_size_is_a_limit_too(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * 100))
    assert len(list(stream_tsv(path, 400))) == 100
    with pytest.raises(DataError, match="unpacks to more than the 399 bytes"):
        list(stream_tsv(path, 399))


def test_a_link_in_a_zip_is_its_own_text(tmp_path: Path) -> None:
    """What it points to is never read: members are read in place and none is unpacked."""
    path = tmp_path / "x.zip"
    link = zipfile.ZipInfo("fra.txt")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("../../outside.html", "x")
    assert read_lines(path) == ["/etc/passwd"]
    with pytest.raises(DataError, match=r"x\.zip/fra\.txt:1: expected source<TAB>target"):
        read_tsv(path)
    assert read_lines(path / "../../outside.html") == ["x"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.zip"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zip"])
@given(st.binary(max_size=300) | st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_lines_or_one_error(suffix: str, content: bytes) -> None:
    """What is read are the lines that the definition gives, in whatever chunks they come."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        if suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("x.txt", content)
        else:
            path.write_bytes(gzip.compress(content, 1) if suffix else content)
        try:
            lines = read_lines(path)
        except DataError as error:
            assert " is not UTF-8; " in str(error) and "\n" not in str(error)  # noqa: PT018, PT017
            with pytest.raises(UnicodeDecodeError):
                content.decode()
            return
        assert lines == defined_lines(content)


def defined_lines(content: bytes) -> list[str]:
    """The definition at the head of text_files.py, for a file that fits into memory."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode()
    ends = text.count("\n")
    lines = text.split("\r\n" if ends and text.count("\r\n") == ends else "\n")
    return lines if lines[-1] else lines[:-1]


@given(st.binary(max_size=400), st.sampled_from([".gz", ".zip"]), st.data())
@settings(max_examples=150, deadline=None)
def test_any_damage_to_an_archive_is_text_or_one_error(
    content: bytes, suffix: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        if suffix == ".zip":
            packing = data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
            with zipfile.ZipFile(path, "w", packing) as archive:
                archive.writestr("x.txt", content)
        else:
            path.write_bytes(gzip.compress(content))
        raw = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(0, 3))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
        with contextlib.suppress(DataError):
            read_lines(path)


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.lists(st.sampled_from(PARTS), max_size=12))
@settings(max_examples=150, deadline=None)
def test_pair_i_is_line_i_of_both_files_or_there_are_no_pairs(
    src_parts: list[bytes], tgt_parts: list[bytes]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        src, tgt = Path(folder) / "a.en", Path(folder) / "a.fr"
        src.write_bytes(b"".join(src_parts))
        tgt.write_bytes(b"".join(tgt_parts))
        try:
            pairs = read_aligned(src, tgt)
        except DataError:
            with pytest.raises((UnicodeDecodeError, ValueError)):
                list(zip(*map(defined_lines, (src.read_bytes(), tgt.read_bytes())), strict=True))
            return
        assert [pair.src_text for pair in pairs] == defined_lines(src.read_bytes())
        assert [pair.tgt_text for pair in pairs] == defined_lines(tgt.read_bytes())


@given(st.lists(st.sampled_from([*PARTS, b"\t", b"a\tb\n"]), max_size=14))
@settings(max_examples=150, deadline=None)
def test_pair_i_of_a_tsv_is_its_line_i_or_there_are_no_pairs(parts: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tsv"
        path.write_bytes(b"".join(parts))
        try:
            pairs = read_tsv(path)
        except DataError:
            with contextlib.suppress(UnicodeDecodeError):
                assert any("\t" not in line for line in defined_lines(path.read_bytes()))
            return
        fields = [line.split("\t") for line in defined_lines(path.read_bytes())]
        assert [[pair.src_text, pair.tgt_text] for pair in pairs] == [row[:2] for row in fields]


def test_tsv_takes_two_fields_and_ignores_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "fra.txt"
    path.write_text(f"Go.\t{FRENCH}\tCC-BY 2.0\textra\nRun!\tCours\n\t\n", encoding="utf-8")
    assert read_tsv(path) == [
        SentencePair("Go.", FRENCH),
        SentencePair("Run!", "Cours"),
        SentencePair("", ""),
    ]


@pytest.mark.parametrize(("line", "shown"), [("Go. Va", "'Go. Va'"), ("", "''")])
def test_a_line_with_one_field_names_its_place(tmp_path: Path, line: str, shown: str) -> None:
    path = tmp_path / "fra.txt"
    path.write_text(f"Go.\tVa\n{line}\nRun!\tCours\n")
    with pytest.raises(DataError, match=rf"^{path}:2: expected source<TAB>target.*{shown}$"):
        read_tsv(path)


def test_tsv_in_a_zip_is_the_only_text_in_it(tmp_path: Path) -> None:
    members = {
        "_about.txt": "about",
        "fra-eng/": "",
        "fra-eng/fra.txt": f"Go.\t{FRENCH}\n",
        "__MACOSX/fra-eng/._fra.txt": "no",
        "logo.png": "no",
    }
    path = write_zip(tmp_path / "fra-eng.zip", members)
    assert read_tsv(path) == [SentencePair("Go.", FRENCH)]


def test_an_error_in_a_zip_names_the_member(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"fra.txt": "Go.\tVa\nRun!\n"})
    with pytest.raises(DataError, match=rf"^{path}/fra.txt:2: "):
        read_tsv(path)


def test_several_texts_in_a_zip_are_listed_and_one_can_be_named(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"a.tsv": "a\tb", "d/b.txt": "c\td", "d/x.en": "e"})
    with pytest.raises(DataError, match=rf"holds 2 \.txt/\.tsv.*a\.tsv, d/b\.txt.*{path}/MEMBER"):
        read_tsv(path)
    assert read_tsv(path / "d/b.txt") == [SentencePair("c", "d")]
    assert read_lines(path / "d/x.en") == ["e"]
    assert archive_of(path / "d/x.en") == path
    with pytest.raises(DataError, match=rf"^{path}/c.txt: no such member; it holds: a.tsv"):
        read_tsv(path / "c.txt")


def test_a_zip_without_text_says_what_it_holds(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"a.png": ""})
    with pytest.raises(DataError, match=r"holds 0 .*allowed: 1; it holds: a\.png"):
        read_tsv(path)


def test_aligned_files_keep_empty_lines_in_place(tmp_path: Path) -> None:
    src, tgt = tmp_path / "a.en", tmp_path / "a.fr.gz"
    src.write_text("one\n\nthree\n")
    tgt.write_bytes(gzip.compress(b"un\ndeux\n\n"))
    assert read_aligned(src, tgt) == [
        SentencePair("one", "un"),
        SentencePair("", "deux"),
        SentencePair("three", ""),
    ]


@pytest.mark.parametrize(("n_src", "n_tgt"), [(3, 2), (2, 3), (0, 1)])
def test_unequal_files_name_the_first_missing_line(tmp_path: Path, n_src: int, n_tgt: int) -> None:
    src, tgt = tmp_path / "a.en", tmp_path / "a.fr"
    src.write_text("x\n" * n_src)
    tgt.write_text("y\n" * n_tgt)
    short, long = (src, tgt) if n_src < n_tgt else (tgt, src)
    place = f"{short}:{min(n_src, n_tgt) + 1}: no such line, but {long} has {max(n_src, n_tgt)}"
    for read in (lambda: read_aligned(src, tgt), lambda: read_references(src, [src, tgt])):
        with pytest.raises(DataError, match=f"^{place} lines"):
            read()


def test_several_reference_files(tmp_path: Path) -> None:
    for name, text in {"s": "a\nb\na\n", "r1": "1\n2\n3\n", "r2": "x\n\nz\n"}.items():
        (tmp_path / name).write_text(text)
    assert read_references(tmp_path / "s", [tmp_path / "r1", tmp_path / "r2"]) == [
        EvalExample("a", ("1", "x")),
        EvalExample("b", ("2", "")),
        EvalExample("a", ("3", "z")),
    ]


def test_grouping_keeps_order_and_every_reference() -> None:
    pairs = [SentencePair(*p) for p in [("b", "1"), ("a", "2"), ("b", "3"), ("B", "4"), ("b", "1")]]
    assert group_by_source(pairs) == [
        EvalExample("b", ("1", "3", "1")),
        EvalExample("a", ("2",)),
        EvalExample("B", ("4",)),
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "exactly one of"),
        ({"corpus": "c", "tsv": "t"}, "exactly one of"),
        ({"tgt": "t"}, "exactly one of"),
        ({"tsv": "t", "tgt": "u"}, "go together"),
        ({"src": "s"}, "go together"),
        ({"src": "s", "tgt": []}, "go together"),
        ({"tsv": "t", "split": "train"}, "split needs corpus"),
        ({"tsv": "t", "first": 0}, "greater than or equal to 1"),
        ({"tsv": "t", "frist": 1}, "Extra inputs"),
    ],
)
def test_a_split_has_exactly_one_form(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SplitConfig.model_validate(values)


def test_split_configs_read_from_yaml_values() -> None:
    split = SplitConfig.model_validate({"src": "a.en", "tgt": ["a.fr", "b.fr"], "first": 3})
    assert split.tgt == (Path("a.fr"), Path("b.fr"))
    assert SplitConfig.model_validate(split.model_dump(mode="json")) == split
    assert DataConfig().max_pieces == 100


def test_pairs_of_examples_are_the_pairs_grouped() -> None:
    pairs = [SentencePair("a", "x"), SentencePair("a", "y"), SentencePair("b", "z")]
    assert pairs_of(group_by_source(pairs)) == pairs
