"""Sources of many files and other formats hold the pairs of the plain file."""

import builtins
import sys
from pathlib import Path

import pytest

from nmt.data import parquet_files, text_files
from nmt.data.corpora import read_examples, read_split, split_files, split_part, text_paths
from nmt.data.file_patterns import matching_files
from nmt.data.parquet_pages import Page, pages
from nmt.data.sources import DataConfig, SplitConfig
from nmt.data.text_files import read_lines
from nmt.errors import DataError
from nmt.types import EvalExample, SentencePair

PAIRS = [SentencePair(f"line {n} é", f"ligne {n}\u2028") for n in range(10)]
DATA = DataConfig(src_lang="en", tgt_lang="fr")


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts a, b and c, of other lengths, written in another order than they are read."""
    monkeypatch.chdir(tmp_path)
    for name, part in (("c", PAIRS[7:]), ("a", PAIRS[:3]), ("b", PAIRS[3:7])):
        Path(f"{name}.en").write_text("".join(f"{p.src_text}\n" for p in part), "utf-8")
        Path(f"{name}.fr").write_text("".join(f"{p.tgt_text}\n" for p in part), "utf-8")
        rows = "".join(f"{p.src_text}\t{p.tgt_text}\n" for p in part)
        Path(f"{name}.tsv").write_text(rows, "utf-8")


def split(**keys: object) -> SplitConfig:
    return SplitConfig.model_validate(keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"src": "*.en", "tgt": "*.fr"},
        {"src": "[a-c].en", "tgt": "?.fr"},
        {"tsv": "*.tsv"},
        {"tsv": "**/*.tsv"},
    ],
)
def test_wildcards_name_the_files_in_sorted_order(keys: dict[str, str]) -> None:
    found = split(**keys)
    assert read_split(found, DATA) == PAIRS
    assert read_split(split(**keys, first=5), DATA) == PAIRS[:5]
    assert [path.stem for path in split_files(found, DATA)][:1] == ["a"]
    assert all("b" in split_part(found, DATA) for _ in keys)
    assert set(text_paths(found, DATA).values()) == {"tsv" in keys}


def test_references_of_many_files() -> None:
    examples = read_examples(split(src="*.en", tgt=["*.fr", "*.fr"]), DATA)
    assert examples == [EvalExample(p.src_text, (p.tgt_text, p.tgt_text)) for p in PAIRS]


def test_a_file_whose_name_has_a_wildcard_is_itself() -> None:
    Path("[a].tsv").write_text("x\ty\n")
    assert read_split(split(tsv="[a].tsv"), DATA) == [SentencePair("x", "y")]


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"tsv": "no*.tsv"}, r"^no\*\.tsv: no such file; .*; no file matches$"),
        (
            {"src": "*.en", "tgt": "[ab].fr"},
            r"^\[ab\]\.fr: 2 files, but \*\.en names 3; allowed: as many for each side$",
        ),
        (
            {"src": "*.en", "tgt": "*.tsv"},
            r"^bb\.tsv: stands beside b\.en in sorted order, but 'bb' is not 'b'; ",
        ),
    ],
)
def test_sides_that_do_not_match_are_said(keys: dict[str, str], fault: str) -> None:
    Path("b.tsv").rename("bb.tsv")
    with pytest.raises(DataError, match=fault):
        read_split(split(**keys), DATA)


def test_zst_holds_the_lines_of_the_plain_file() -> None:
    zstandard = pytest.importorskip("zstandard")
    content = Path("a.tsv").read_bytes() * 5000
    frames = [zstandard.ZstdCompressor().compress(part) for part in (content, content[:100])]
    Path("x.tsv.zst").write_bytes(b"".join(frames))
    Path("x.tsv").write_bytes(content + content[:100])
    assert read_lines(Path("x.tsv.zst")) == read_lines(Path("x.tsv"))
    assert read_split(split(tsv="x.tsv.zst", first=3), DATA) == PAIRS[:3]
    for damaged in (frames[0][:-1], frames[0] + b"x", frames[0][:20] + b"x" * 50):
        Path("d.zst").write_bytes(damaged)
        with pytest.raises(DataError, match=r"^d\.zst: damaged or not a zst file: "):
            read_lines(Path("d.zst"))
    bomb = zstandard.ZstdCompressor().compress(b"a\n" * (40 << 20))
    Path("b.zst").write_bytes(bomb)
    with pytest.raises(DataError, match=r"^b\.zst: unpacks to more than the 67,108,864 bytes"):
        read_lines(Path("b.zst"))
    Path("a.txt").write_bytes(frames[0])
    with pytest.raises(DataError, match=r"looks like zstd, its name should end in \.zst$"):
        read_lines(Path("a.txt"))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("lp/**/*.tsv", ["lp/a.tsv", "lp/deep/b.tsv", "lp/other/c.tsv"]),
        ("lp/*/*.tsv", ["lp/deep/b.tsv", "lp/here/a.tsv", "lp/other/c.tsv", "lp/there/a.tsv"]),
        ("lp/**/.*.tsv", ["lp/.hidden.tsv"]),
        ("lp/**/deep/[ab].tsv", ["lp/deep/b.tsv"]),
        ("**/lp/**/b.tsv", ["lp/deep/b.tsv"]),
    ],
)
def test_a_pattern_ends_where_links_lead_in_a_circle(pattern: str, expected: list[str]) -> None:
    for name in ("lp/a.tsv", "lp/deep/b.tsv", "lp/.hidden.tsv", "elsewhere/c.tsv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    for name, goal in (("here", "."), ("there", "."), ("deep/up", ".."), ("other", "../elsewhere")):
        Path("lp", name).symlink_to(goal)
    assert list(map(str, matching_files(Path(pattern)))) == expected
    absolute = matching_files(Path(pattern).absolute())
    assert [str(path.relative_to(Path.cwd())) for path in absolute] == expected


def test_a_pattern_longer_than_any_name_matches_nothing() -> None:
    with pytest.raises(DataError, match="no file matches"):
        matching_files(Path("?" * 5000))


def test_a_pattern_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        Path(name).symlink_to(".")
    with pytest.raises(DataError, match="matches more than 100,000"):
        matching_files(Path(*["*"] * 40, "a.tsv"))


def test_parquet_holds_the_pairs_of_the_plain_file() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(name: str, **columns: list[object]) -> None:
        parquet.write_table(pyarrow.table(columns), name, row_group_size=2)

    en, fr = [p.src_text for p in PAIRS], [p.tgt_text for p in PAIRS]
    both = [{"en": a, "fr": b} for a, b in zip(en, fr, strict=True)]
    write("1.parquet", id=list(range(10)), fr=fr, en=en)
    write("2.parquet", translation=both)
    write("3.parquet", source=en, target=fr)
    for keys in (
        {"parquet": "1.parquet"},
        {"parquet": "2.parquet"},
        {"parquet": "3.parquet", "columns": ["source", "target"]},
        {"parquet": "2.parquet", "columns": ["translation.en", "translation.fr"]},
    ):
        found = split(**keys)
        assert read_split(found, DATA) == PAIRS
        assert text_paths(found, DATA) == {}
    assert read_split(split(parquet="[12].parquet"), DATA) == PAIRS * 2
    assert read_examples(split(parquet="1.parquet", first=1), DATA) == [
        EvalExample(PAIRS[0].src_text, (PAIRS[0].tgt_text,))
    ]
    write("4.parquet", en=["a", None], fr=["b", "c"])
    write("5.parquet", en=[1], fr=[2])
    Path("6.parquet").write_bytes(b"PAR1 no")
    for name, fault in (
        ("3", "no columns en, fr; it has source, target; name two with columns"),
        ("4", "row 2: no text"),
        ("5", "row 1: no text"),
        ("6", "damaged or not a parquet file: "),
        ("7", "no such file"),
    ):
        with pytest.raises(DataError, match=rf"^{name}\.parquet: {fault}"):
            read_split(split(parquet=f"{name}.parquet"), DATA)


@pytest.mark.parametrize(
    ("text", "n_rows", "options"),
    [
        ("a" * (1 << 16), 200, {}),
        ("a" * (1 << 16), 100, {"use_dictionary": False}),
        ("a" * (1 << 16), 99, {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}),
        ("", 35_000, {}),
        ("a" * (1 << 18), 1, {}),
    ],
)
def test_a_small_parquet_file_takes_little_memory(
    text: str, n_rows: int, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One text in every row, by a dictionary, compression or shared prefixes."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numbers = pyarrow.array([0]).take(pyarrow.array([0] * n_rows))
    column = pyarrow.DictionaryArray.from_arrays(numbers, [text]).dictionary_decode()
    table = pyarrow.table({"en": column, "fr": column})
    parquet.write_table(table, "b.parquet", compression="zstd", **options)
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED_BYTES", 1 << 20)
    monkeypatch.setattr(parquet_files, "_BATCH_BYTES", 1 << 20, raising=False)
    monkeypatch.setattr(parquet_files, "MAX_LINE_BYTES", 1 << 17, raising=False)
    sizes = [0]
    real = parquet_files._texts

    def measured(batch: "pyarrow.RecordBatch", name: str) -> list[object]:
        sizes.append(batch.nbytes)
        return real(batch, name)

    monkeypatch.setattr(parquet_files, "_texts", measured)
    with pytest.raises(DataError, match=r"^b\.parquet: (unpacks to more|row 1: a text of more)"):
        read_split(split(parquet="b.parquet"), DATA)
    assert max(sizes) < 3 << 20


def test_sizes_are_those_of_pages_and_not_of_metadata() -> None:
    """A page's header says what a reader allocates; the metadata may say anything."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = ["a" * (1 << 14)] * 70
    table = pyarrow.table({"en": column, "fr": column})
    parquet.write_table(table, "b.parquet", compression="zstd", use_dictionary=False)
    with parquet.ParquetFile("b.parquet") as file:
        chunk = file.metadata.row_group(0).column(0)
        first, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
        total = chunk.total_uncompressed_size
    content = Path("b.parquet").read_bytes()
    sizes = [page.n_bytes for page in pages(content, first, end)]
    assert 70 << 14 < sum(sizes) <= total
    # A field that is named and not counted, a truth value, and a number where a struct should be.
    header = b"\x05\x02\x06\x15\x02\x15\x04\x25\x06\x11\x00"
    assert list(pages(header, 0, 1)) == [Page(1, False)]
    for bad in (
        content[: first + 5],
        bytes(end),
        b"\x1c" * end,
        b"\xff" * end,
        b"\x15" + b"\xff" * 20,
    ):
        with pytest.raises((ValueError, IndexError)):
            list(pages(bad, first, end))


@pytest.mark.parametrize(
    ("path", "package", "extra"),
    [("a.zst", "zstandard", "zstd"), ("a.parquet", "pyarrow", "parquet")],
)
def test_a_package_that_is_not_installed_is_named(
    path: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    Path(path).write_bytes(b"x")
    kind = "parquet" if path.endswith("parquet") else "tsv"
    with pytest.raises(DataError) as caught:
        read_split(split(**{kind: path}), DATA)
    wanted = f"{path}: needs the package {package}: pip install 'attention-nmt[{extra}]'"
    assert str(caught.value) == wanted


def test_two_parquet_columns_of_one_name_are_an_error(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = [pyarrow.array([text]) for text in "abc"]
    path = tmp_path / "twice.parquet"
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["en", "en", "fr"]), path)
    with pytest.raises(DataError, match=r"twice\.parquet: two columns"):
        read_split(split(parquet=str(path)), DATA)
