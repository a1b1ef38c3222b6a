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
from nmt.corpora.corpora import read_split, split_files, split_key
from nmt.corpora.readers import PairFile, base, parquet
from nmt.corpora.readers.aligned import read_references, stream_aligned
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.errors import DataError
from nmt.types import SentencePair

PAIRS = [SentencePair(f"line {n} é", f"ligne {n}\u2028") for n in range(10)]
DATA = DataConfig(src_lang="en", tgt_lang="fr")
CONTENTS = st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join)


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


@given(CONTENTS, CONTENTS)
@settings(max_examples=60, deadline=None)
def test_pair_i_is_line_i_of_both_files(src_content: bytes, tgt_content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        src, tgt = Path(folder) / "a.en", Path(folder) / "a.fr"
        src.write_bytes(src_content)
        tgt.write_bytes(tgt_content)
        try:
            pairs = list(stream_aligned(src, tgt))
        except DataError:
            with pytest.raises(ValueError, match=r"decode|argument"):
                list(zip(*map(defined_lines, (src_content, tgt_content)), strict=True))
            return
        assert [pair.src_text for pair in pairs] == defined_lines(src_content)
        assert [pair.tgt_text for pair in pairs] == defined_lines(tgt_content)


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


def test_unequal_files_name_the_first_missing_line() -> None:
    """In pairs and in references, whichever is shorter."""
    three, two = Path("x.en"), Path("x.fr")
    three.write_text("x\n" * 3)
    two.write_text("y\n" * 2)
    problem = "^x.fr:3: no such line, but x.en has 3 lines"
    for src, tgt in ((three, two), (two, three)):
        with pytest.raises(DataError, match=problem):
            list(stream_aligned(src, tgt))
        with pytest.raises(DataError, match=problem):
            read_references(src, [src, tgt])


def test_a_split_has_exactly_one_form() -> None:
    a: dict[str, object] = {"file": "a"}
    for values, message in (
        ({}, "exactly one of"),
        ({**a, "corpus": "c"}, "exactly one of"),
        ({**a, "split": "train"}, "split requires corpus"),
        ({**a, "mix": [a]}, "exactly one of: .*, mix"),
        ({**a, "tgt": "u"}, "src requires tgt"),
        ({"src": "s", "tgt": "t", "columns": ["x", "y"]}, "columns requires file"),
        ({**a, "temperature": 2}, "temperature requires mix"),
        ({"mix": [{**a, "weight": 1}, a]}, "a weight for each corpus, or for"),
        ({"mix": [{**a, "weight": 1}], "temperature": 2}, "exclude each other"),
        ({"mix": [a], "first": 3}, "set it for each corpus of mix"),
        ({"mix": [{**a, "mix": []}]}, "Extra inputs"),
    ):
        with pytest.raises(ValidationError, match=message):
            split(**values)
    mixed = split(mix=[a])
    assert SplitConfig.model_validate(mixed.model_dump(mode="json")) == mixed
    with pytest.raises(ValidationError, match=r"only data\.train may be a mixture"):
        DataConfig(train=mixed, valid=mixed)


def test_wildcards_name_the_files_in_sorted_order() -> None:
    """But a file whose name has a wildcard is itself."""
    for keys in ({"src": "[a-c].en", "tgt": "?.fr"}, {"file": "*.tsv"}, {"file": "**/*.tsv"}):
        source = split(**keys)
        assert read_split(source, DATA) == PAIRS
        assert read_split(split(**keys, first=5), DATA) == PAIRS[:5]
        assert split_files(source, DATA)[0].stem == "a"
        assert "b" in split_key(source, DATA)
    Path("[a].tsv").write_text("x\ty\n")
    assert read_split(split(file="[a].tsv"), DATA) == [SentencePair("x", "y")]
    Path("[a].tsv").unlink()
    Path("b.tsv").rename("bb.tsv")
    for keys, problem in (
        ({"file": "no*.tsv"}, r"^no\*\.tsv: no such file; .*; no file matches$"),
        ({"src": "*.en", "tgt": "[ab].fr"}, r"^\[ab\]\.fr: 2 files, but \*\.en matches 3"),
        ({"src": "*.en", "tgt": "*.tsv"}, r"^bb\.tsv: paired with b\.en by sorted order"),
    ):
        with pytest.raises(DataError, match=problem):
            read_split(split(**keys), DATA)


def write_parquet(name: str, columns: Any, names: Any = None, **options: object) -> None:
    pyarrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    writer.write_table(pyarrow.table(columns, names), name, **options)


def test_parquet_holds_the_pairs_of_its_columns() -> None:
    en, fr = [p.src_text for p in PAIRS], [p.tgt_text for p in PAIRS]
    both = [{"en": p.src_text, "fr": p.tgt_text} for p in PAIRS]
    write_parquet("1.parquet", {"id": range(10), "fr": fr, "en": en}, row_group_size=2)
    write_parquet("2.parquet", {"translation": both}, row_group_size=2)
    write_parquet("3.parquet", {"x": en, "y": fr})
    for keys in (
        {"file": "1.parquet"},
        {"file": "2.parquet"},
        {"file": "3.parquet", "columns": ["x", "y"]},
    ):
        assert read_split(split(**keys), DATA) == PAIRS
    assert read_split(split(file="[12].parquet"), DATA) == PAIRS * 2
    with pytest.raises(DataError, match=r"a\.tsv: columns: "):
        read_split(split(file="a.tsv", columns=["x", "y"]), DATA)


def test_a_faulty_parquet_file_names_row_or_column() -> None:
    write_parquet("3.parquet", {"x": ["a"], "y": ["b"]})
    write_parquet("4.parquet", {"en": ["a", None], "fr": ["b", "c"]})
    write_parquet("5.parquet", {"en": [1], "fr": [2]})
    Path("6.parquet").write_bytes(b"PAR1 no")
    write_parquet("8.parquet", [["a"], ["b"], ["c"]], ["en", "en", "fr"])
    for name, fault in (
        ("3", "got columns x, y, allowed: en and fr, each once; or set columns"),
        ("4", "row 2: no text"),
        ("5", "row 1: no text"),
        ("6", "cannot be read as parquet: "),
        ("7", "no such file"),
        ("8", "got columns en, en, fr, allowed: en and fr, each once"),
    ):
        with pytest.raises(DataError, match=rf"^{name}\.parquet: {fault}"):
            read_split(split(file=f"{name}.parquet"), DATA)


LARGE = "a" * (1 << 16)


@pytest.mark.parametrize(
    ("text", "n_rows", "options"),
    [
        (LARGE, 200, {}),
        (LARGE, 100, {"use_dictionary": False}),
        (LARGE, 99, {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}),
        ("", 35_000, {}),
        (LARGE * 4, 1, {}),
    ],
)
def test_a_small_parquet_file_takes_little_memory(
    text: str, n_rows: int, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One text in every row, by a dictionary, compression or shared prefixes."""
    pyarrow = pytest.importorskip("pyarrow")
    numbers = pyarrow.array([0]).take(pyarrow.array([0] * n_rows))
    column = pyarrow.DictionaryArray.from_arrays(numbers, [text]).dictionary_decode()
    write_parquet("b.parquet", {"en": column, "fr": column}, compression="zstd", **options)
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
