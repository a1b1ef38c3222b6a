"""TMX, CSV, JSON lines and PO hold pairs written to them; hostile files end in a one-line error."""

import csv
import gzip
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.corpora.readers import PairFile, reader_of
from nmt.corpora.readers.aligned import read_references
from nmt.errors import DataError

Pairs = list[tuple[str, str]]
TMX = "<tmx><body>{}</body></tmx>"
UNIT = '<tu><tuv xml:lang="{}"><seg>{}</seg></tuv><tuv xml:lang="{}"><seg>{}</seg></tuv></tu>'


def unit(src: str) -> str:
    return TMX.format(UNIT.format("en", src, "fr", "b"))


def as_csv(pairs: Pairs) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([("id", "en", "fr"), *(("1", *pair) for pair in pairs)])
    return text.getvalue()


def as_po(pairs: Pairs) -> str:
    polib = pytest.importorskip("polib")
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Language": "fr"}
    catalogue.extend(polib.POEntry(msgid=src, msgstr=tgt) for src, tgt in pairs)
    return str(catalogue)


WRITERS: dict[str, Callable[[Pairs], str]] = {
    "x.tmx": lambda pairs: TMX.format(
        "".join(UNIT.format("en", escape(src), "fr", escape(tgt)) for src, tgt in pairs)
    ),
    "x.csv": as_csv,
    "x.jsonl": lambda pairs: "".join(json.dumps({"en": s, "fr": t}) + "\n" for s, t in pairs),
    "x.json": lambda pairs: "".join(
        json.dumps({"translation": {"fr": t, "en": s}}, ensure_ascii=False) + "\n" for s, t in pairs
    ),
    "x.po": as_po,
}


def read(name: str, content: str | bytes, *languages: str, **keys: object) -> Pairs:
    """Return the pairs of a file of this content, from English to French by default."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        file = PairFile(path, languages or ("en", "fr"), **keys)  # type: ignore[arg-type]
        return [(pair.src_text, pair.tgt_text) for pair in reader_of(path).stream(file)]


def fault(name: str, content: str | bytes, *languages: str) -> str:
    with pytest.raises(DataError) as caught:
        read(name, content, *languages)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()
    return str(caught.value).partition(name)[2]


texts = st.text(st.sampled_from("aé ,;\"'<>&{}\\%\u2028😀"), min_size=1, max_size=8)


@pytest.mark.parametrize("name", WRITERS)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None)
def test_a_file_holds_the_pairs_that_were_written_to_it(name: str, pairs: Pairs) -> None:
    content = WRITERS[name](pairs)
    assert read(name, content) == pairs
    assert read(name, content, "fr", "en") == [(tgt, src) for src, tgt in pairs]
    assert read(f"{name}.gz", gzip.compress(f"\ufeff{content}".encode())) == pairs


@pytest.mark.parametrize("name", WRITERS)
def test_a_line_end_or_tab_becomes_a_space(name: str, tmp_path: Path) -> None:
    """Other languages, and a use as plain text, are errors."""
    content = WRITERS[name]([("two \n\n lines", "a\tb\n"), (" c ", "d")])
    assert read(name, content) == [("two lines", "a b"), (" c ", "d")]
    message = fault(name, content, "de", "nl")
    assert "de" in message
    assert "fr" in message
    path = tmp_path / name
    path.write_text(content, "utf-8")
    with pytest.raises(DataError, match="has both sides"):
        read_references(path, [path])


def test_tags_with_a_region_name_a_language() -> None:
    units = UNIT.format("en-GB", "colour", "FR_ca", "x") + UNIT.format("en-US", "color", "de", "y")
    both = '<tu><tuv lang="en-GB"><seg>a</seg></tuv>{}</tu>'
    units += both.format('<tuv lang="en-US"><seg>b</seg></tuv><tuv lang="fra"><seg>z</seg></tuv>')
    assert read("x.tmx", TMX.format(units)) == [("colour", "x"), ("a", "z")]
    assert read("x.tmx", TMX.format(units), "en-US", "fr") == [("b", "z")]
    assert read("x.tmx", TMX.format(units), "en-US", "en-GB") == [("b", "a")]
    assert read("x.tmx", TMX.format(units), "x", "y", columns=("en", "de")) == [("color", "y")]
    assert read("x.csv", "English,French\na,b\n") == [("a", "b")]
    assert read("x.csv", "fr;target;source\n1;2;3\n") == [("3", "2")]


def test_inline_elements_keep_their_text() -> None:
    inner = "<bpt i='1'>&lt;b&gt;</bpt>a <hi>b</hi><ph/>"
    doctype = '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    content = doctype + TMX.format(UNIT.format("en", inner, "fr", "c"))
    assert read("x.tmx", content) == [("<b>a b", "c")]
    assert read("x.tmx", content.encode("utf-16")) == [("<b>a b", "c")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tmx", '<!DOCTYPE t [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><t>&b;</t>', "declarations"),
        ("x.tmx", f'<!DOCTYPE t SYSTEM "t.dtd">{unit("&x;")}', "&x;"),
        ("x.tmx", TMX.format("<tu><tuv><seg/></tuv></tu>"), "without xml:lang"),
        ("x.tmx", unit("&#xD800;"), "not XML"),
        ("x.tmx", '<?xml version="1.0" encoding="hex"?><tmx/>', "not XML"),
        ("x.tmx", unit("a").removesuffix("</tmx>"), "not XML"),
        ("x.tmx", "<tmx>" + "<a>" * 10_000, "nested"),
        ("x.tmx", "<tmx><tu><tuv xml:lang='en'><seg>" + "x" * (6 << 20), "without the end"),
        ("x.tmx", "<tmx><tu>" + "<tuv xml:lang='a'/>" * 400_000, "without the end"),
        ("x.csv", "en,fr\na,b\nc\n", ":3: 1 fields"),
        ("x.csv", 'en,fr\n"a\nb",c\n"d\n' + "x\n" * 100_000, ":4: not CSV: field larger"),
        ("x.csv", "en,fr\n" + '"\n",' * 4_500_000, ":2: not CSV: a row of more than"),
        ("x.csv", "en,en,fr\n1,2,3\n", "en, en, fr"),
        ("x.csv", b"en,fr\na,\xff\n", ":2: byte 0xff"),
        ("x.jsonl", "\n" + '{"a":' * 100_000 + "}", ":2: damaged"),
        ("x.json", '[\n{"en": "a", "fr": "b"}\n]', ":1: expected a JSON object in each line"),
        ("x.jsonl", '{"en": "a", "fr": "\\ud800"}', ":1: no text in fr"),
        ("x.jsonl", '{"en": "a", "fr": "b"}\n{"\\ud800\\n": 1}', r":2: got columns \ud800\n,"),
        ("x.jsonl", "x" * (17 << 20), ":1: a line of more than"),
        ("x.po", 'msgid ""\nmsgstr ""\n' + '"x"\n' * 100_000, "more than 1000 lines"),
        ("x.po", "# c\n\n" * 100_000, "more than 1000 lines"),
        ("x.po", 'msgid "a\nmsgstr ""\n', "line 1: expected one string"),
        ("x.po", "/etc/passwd", "not a message catalogue"),
    ],
)
def test_a_faulty_record_names_its_place(name: str, content: str | bytes, message: str) -> None:
    assert message in fault(name, content)


def test_only_finished_messages_are_pairs() -> None:
    """Without the header `Language` the translations are the target."""
    pytest.importorskip("polib")
    content = """#, fuzzy
msgid "a"
msgstr "b"

msgid "no"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d fichier"
msgstr[1] "%d fichiers"

#~ msgid "old"
#~ msgstr "vieux"
"""
    assert read("x.po", content) == [("%d file", "%d fichier"), ("%d files", "%d fichiers")]
