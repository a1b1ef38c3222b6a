"""Each format holds the pairs of its files, in order, within limits; a fault has its place."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora.test_text_files import PARTS, defined_lines, write_zip
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt.corpora import text_files
from nmt.corpora.corpora import read_examples, read_split, split_files, split_key
from nmt.corpora.readers import PairFile, base, parquet
from nmt.corpora.readers.aligned import read_references, stream_aligned
from nmt.corpora.sources import DataConfig, SplitConfig
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


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.lists(st.sampled_from(PARTS), max_size=12))
@settings(max_examples=60, deadline=None)
def test_pair_i_is_line_i_of_both_files(src_parts: list[bytes], tgt_parts: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        src, tgt = Path(folder) / "a.en", Path(folder) / "a.fr"
        src.write_bytes(b"".join(src_parts))
        tgt.write_bytes(b"".join(tgt_parts))
        try:
            pairs = list(stream_aligned(src, tgt))
        except DataError:
            with pytest.raises((UnicodeDecodeError, ValueError)):
                list(zip(*map(defined_lines, (src.read_bytes(), tgt.read_bytes())), strict=True))
            return
        assert [pair.src_text for pair in pairs] == defined_lines(src.read_bytes())
        assert [pair.tgt_text for pair in pairs] == defined_lines(tgt.read_bytes())


def test_a_line_with_one_field_names_its_place() -> None:
    """Of more than two fields, the first two are read."""
    Path("x.txt").write_text("\t\nGo.\u2028\tVa\r\tCC-BY\tx\n", newline="")
    pairs = [SentencePair("", ""), SentencePair("Go.\u2028", "Va\r")]
    assert read_split(split(file="x.txt"), DATA) == pairs
    Path("x.txt").write_text(f"Go.\tVa\n{'x' * 50}\nRun!\tCours\n")
    with pytest.raises(DataError, match=rf"^x\.txt:2: expected source<TAB>target.*'{'x' * 39}…'$"):
        read_split(split(file="x.txt"), DATA)
    write_zip(Path("x.zip"), {"fra.txt": "Go.\tVa\nRun!\n"})
    with pytest.raises(DataError, match=r"^x\.zip/fra\.txt:2: "):
        read_split(split(file="x.zip"), DATA)


@pytest.mark.parametrize(("n_src", "n_tgt"), [(3, 2), (0, 1)])
def test_unequal_files_name_the_first_missing_line(n_src: int, n_tgt: int) -> None:
    src, tgt = Path("x.en"), Path("x.fr")
    src.write_text("x\n" * n_src)
    tgt.write_text("y\n" * n_tgt)
    short, long = (src, tgt) if n_src < n_tgt else (tgt, src)
    place = f"{short}:{min(n_src, n_tgt) + 1}: no such line, but {long} has {max(n_src, n_tgt)}"
    for read in (lambda: list(stream_aligned(src, tgt)), lambda: read_references(src, [src, tgt])):
        with pytest.raises(DataError, match=f"^{place} lines"):
            read()


def test_references_of_many_files() -> None:
    examples = read_examples(split(src="*.en", tgt=["*.fr", "*.en"]), DATA)
    assert examples == [EvalExample(p.src_text, (p.tgt_text, p.src_text)) for p in PAIRS]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "exactly one of"),
        ({"corpus": "c", "file": "t"}, "exactly one of"),
        ({"file": "t", "tgt": "u"}, "src requires tgt"),
        ({"file": "t", "split": "train"}, "split requires corpus"),
        ({"src": "s", "tgt": "t", "columns": ["x", "y"]}, "columns requires file"),
        ({"mix": [{"file": "a"}], "file": "b"}, "exactly one of: .*, mix"),
        ({"mix": [{"file": "a", "weight": 1}, {"file": "b"}]}, "a weight for each corpus, or for"),
        ({"mix": [{"file": "a", "weight": 1}], "temperature": 2}, "exclude each other"),
        ({"mix": [{"file": "a"}], "first": 3}, "set it for each corpus of mix"),
        ({"file": "a", "temperature": 2}, "temperature requires mix"),
        ({"mix": [{"file": "a", "mix": []}]}, "Extra inputs"),
    ],
)
def test_a_split_has_exactly_one_form(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SplitConfig.model_validate(values)


def test_only_the_training_set_is_mixed() -> None:
    mixed = split(mix=[{"file": "a"}])
    assert SplitConfig.model_validate(mixed.model_dump(mode="json")) == mixed
    with pytest.raises(ValidationError, match=r"only data\.train may be a mixture"):
        DataConfig(train=mixed, valid=mixed)


@pytest.mark.parametrize(
    "keys",
    [{"src": "[a-c].en", "tgt": "?.fr"}, {"file": "*.tsv"}, {"file": "**/*.tsv"}],
)
def test_wildcards_name_the_files_in_sorted_order(keys: dict[str, str]) -> None:
    source = split(**keys)
    assert read_split(source, DATA) == PAIRS
    assert read_split(split(**keys, first=5), DATA) == PAIRS[:5]
    assert [path.stem for path in split_files(source, DATA)][:1] == ["a"]
    assert "b" in split_key(source, DATA)


def test_a_file_whose_name_has_a_wildcard_is_itself() -> None:
    Path("[a].tsv").write_text("x\ty\n")
    assert read_split(split(file="[a].tsv"), DATA) == [SentencePair("x", "y")]


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"file": "no*.tsv"}, r"^no\*\.tsv: no such file; .*; no file matches$"),
        ({"src": "*.en", "tgt": "[ab].fr"}, r"^\[ab\]\.fr: 2 files, but \*\.en names 3"),
        ({"src": "*.en", "tgt": "*.tsv"}, r"^bb\.tsv: paired with b\.en by sorted order"),
    ],
)
def test_sides_that_do_not_match_are_an_error(keys: dict[str, str], fault: str) -> None:
    Path("b.tsv").rename("bb.tsv")
    with pytest.raises(DataError, match=fault):
        read_split(split(**keys), DATA)


def write_parquet(name: str, columns: dict[str, list[object]], **options: object) -> None:
    pyarrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    writer.write_table(pyarrow.table(columns), name, **options)


def test_parquet_holds_the_pairs_of_its_columns() -> None:
    en: list[object] = [p.src_text for p in PAIRS]
    fr: list[object] = [p.tgt_text for p in PAIRS]
    both: list[object] = [{"en": a, "fr": b} for a, b in zip(en, fr, strict=True)]
    numbers: list[object] = list(range(10))
    write_parquet("1.parquet", {"id": numbers, "fr": fr, "en": en}, row_group_size=2)
    write_parquet("2.parquet", {"translation": both}, row_group_size=2)
    write_parquet("3.parquet", {"x": en, "y": fr})
    for keys in (
        {"file": "1.parquet"},
        {"file": "2.parquet"},
        {"file": "3.parquet", "columns": ["x", "y"]},
        {"file": "2.parquet", "columns": ["translation.en", "translation.fr"]},
    ):
        source = split(**keys)
        assert read_split(source, DATA) == PAIRS
    assert read_split(split(file="[12].parquet"), DATA) == PAIRS * 2
    with pytest.raises(DataError, match=r"a\.tsv: columns: "):
        read_split(split(file="a.tsv", columns=["x", "y"]), DATA)


def test_a_faulty_parquet_file_names_row_or_column() -> None:
    pyarrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    write_parquet("3.parquet", {"x": ["a"], "y": ["b"]})
    write_parquet("4.parquet", {"en": ["a", None], "fr": ["b", "c"]})
    write_parquet("5.parquet", {"en": [1], "fr": [2]})
    Path("6.parquet").write_bytes(b"PAR1 no")
    columns = [pyarrow.array([text]) for text in "abc"]
    writer.write_table(pyarrow.Table.from_arrays(columns, names=["en", "en", "fr"]), "8.parquet")
    for name, fault in (
        ("3", "got columns x, y, allowed: en and fr, each once; name two with columns"),
        ("4", "row 2: no text"),
        ("5", "row 1: no text"),
        ("6", "cannot be read as parquet: "),
        ("7", "no such file"),
        ("8", "got columns en, en, fr, allowed: en and fr, each once"),
    ):
        with pytest.raises(DataError, match=rf"^{name}\.parquet: {fault}"):
            read_split(split(file=f"{name}.parquet"), DATA)


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
    pyarrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numbers = pyarrow.array([0]).take(pyarrow.array([0] * n_rows))
    column = pyarrow.DictionaryArray.from_arrays(numbers, [text]).dictionary_decode()
    table = pyarrow.table({"en": column, "fr": column})
    writer.write_table(table, "b.parquet", compression="zstd", **options)
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED_BYTES", 1 << 20)
    monkeypatch.setattr(base, "MAX_LINE_BYTES", 1 << 17)
    sizes = [0]
    read = parquet._pairs

    def measured(file: PairFile, tables: Iterator[Any], names: list[str]) -> Iterator[Any]:
        return read(file, (sizes.append(table.nbytes) or table for table in tables), names)

    monkeypatch.setattr(parquet, "_pairs", measured)
    with pytest.raises(DataError, match=r"^b\.parquet: (unpacks to more|row 1: a text of more)"):
        read_split(split(file="b.parquet"), DATA)
    assert max(sizes) < 3 << 20


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    Path("a.parquet").touch()
    with pytest.raises(DataError, match=r"a\.parquet: .*pyarrow.*attention-nmt\[parquet\]'"):
        read_split(split(file="a.parquet"), DATA)
