"""`nmt init`: what it writes is a config that trains, whatever the files are like."""

import gzip
import os
import re
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nmt.cli.app import app
from nmt.config import RunConfig, load_config
from nmt.data.proposal import SIZES
from nmt.data.sources import read_aligned

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "data" / "starter"
CORPORA = os.environ.get("NMT_CORPORA")
needs_corpora = pytest.mark.skipif(not CORPORA, reason="NMT_CORPORA names no folder")
PAIRS = read_aligned(STARTER / "valid.en", STARTER / "valid.fr")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, whose name is not a plain one."""
    place = tmp_path / "mon café 1"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def nmt(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def write_pair(name: str = "news") -> list[str]:
    """Two files of the starter corpus, here."""
    for lang, texts in (("en", [p.src_text for p in PAIRS]), ("fr", [p.tgt_text for p in PAIRS])):
        Path(f"{name}.{lang}").write_text("".join(f"{t}\n" for t in texts), encoding="utf-8")
    return [f"{name}.en", f"{name}.fr"]


def assert_trains(path: str) -> None:
    """The config is right, trains some updates, and the model translates."""
    checked = nmt("config", "check", path)
    assert checked.stdout == f"{path}: right\n", checked.output
    trained = nmt("train", "--config", path, "--steps", "2", "--run", "runs/tried", "--device=cpu")
    assert trained.exit_code == 0, trained.output
    assert "finished at step 2" in trained.stderr
    translated = nmt("translate", "--run", "runs/tried", "--beam", "1", "Good morning.")
    assert translated.exit_code == 0


def test_two_files_give_a_config_that_trains() -> None:
    result = nmt("init", *write_pair("my news"))
    assert result.exit_code == 0, result.output
    assert result.stdout == "en-fr.yaml\n"
    lines = result.stderr.splitlines()
    assert "500 pairs, en to fr; a sentence has 7.1 and 7.5 words" in lines
    assert lines[-1] == "next: nmt train --config en-fr.yaml"
    assert not [line for line in lines if line.startswith("note:")]
    config = load_config("en-fr.yaml")
    train = config.data.train
    assert train is not None
    assert (train.src, train.tgt) == (Path("my news.en"), Path("my news.fr"))
    assert config.data.held_out is not None
    assert (config.data.held_out.valid, config.data.held_out.test) == (10, 10)
    text = Path("en-fr.yaml").read_text(encoding="utf-8")
    assert "written by: nmt init 'my news.en' 'my news.fr'" in text
    (minutes,) = (line for line in text.splitlines() if "epochs:" in line)
    assert re.search(r"# about .+ on \w+.*, .+ each, and validation besides$", minutes)
    assert_trains("en-fr.yaml")


def test_the_text_says_which_column_has_which_language_of_the_name() -> None:
    text = "".join(f"{pair.src_text}\t{pair.tgt_text}\tCC-BY\n" for pair in PAIRS)
    with zipfile.ZipFile("fra-eng.zip", "w") as archive:
        archive.writestr("fra.txt", text)
        archive.writestr("_about.txt", "About")
    assert nmt("init", "fra-eng.zip", "--no-timing").stdout == "en-fr.yaml\n"
    Path("fra-eng.tsv").write_text(text, encoding="utf-8")
    result = nmt("init", "fra-eng.tsv", "--src-lang", "fr", "--out", "forced.yaml", "--no-timing")
    assert result.stdout == "forced.yaml\n"
    assert "note: look at train: the sides look swapped" in result.stderr
    config = load_config("forced.yaml")
    assert (config.data.src_lang, config.data.tgt_lang) == ("fr", "en")


def test_an_order_that_no_text_tells_is_that_of_the_name() -> None:
    Path("lav-lit.tsv").write_text("".join(f"a{n}\tb{n}\n" for n in range(60)), encoding="utf-8")
    assert nmt("init", "lav-lit.tsv", "--no-timing").stdout == "lv-lt.yaml\n"


def test_languages_that_no_name_tells_are_asked_for() -> None:
    src, tgt = (Path(name).rename(f"{name[-2:]}side.txt") for name in write_pair())
    result = nmt("init", str(src), str(tgt))
    assert result.exit_code == 2
    assert result.stderr == (
        "error: enside.txt, frside.txt: the names do not tell the languages; "
        "give --src-lang and --tgt-lang, as in fr\n"
    )
    result = nmt("init", str(src), str(tgt), "--src-lang", "en")
    assert result.stderr.endswith("languages; give --tgt-lang, as in fr\n")
    given = ("--src-lang", "en", "--tgt-lang", "fr", "--no-timing")
    assert nmt("init", str(src), str(tgt), *given).stdout == "en-fr.yaml\n"
    result = nmt("init", str(src), "--src-lang", "en")
    assert result.stderr == (
        "error: enside.txt: the names do not tell the languages; give --tgt-lang, as in fr\n"
    )
    Path("b.en").write_text("x\n", encoding="utf-8")
    result = nmt("init", "b.en", "b.en")
    assert "both look like en; give --src-lang and --tgt-lang" in result.stderr


def test_one_file_of_one_language_lacks_the_other() -> None:
    src, tgt = write_pair()
    result = nmt("init", src)
    assert result.exit_code == 2
    assert "one language, en" in result.stderr
    result = nmt("init", src, tgt, "--valid", src)
    assert result.exit_code == 2
    assert "give --valid twice" in result.stderr


def test_a_config_is_not_overwritten() -> None:
    files = write_pair()
    Path("en-fr.yaml").write_text("mine", encoding="utf-8")
    result = nmt("init", *files)
    assert result.exit_code == 2
    assert result.stderr == (
        "error: en-fr.yaml: is there already; --force replaces it, or --out another file\n"
    )
    assert Path("en-fr.yaml").read_text(encoding="utf-8") == "mine"
    result = nmt("init", *files, "--out", files[0], "--force", "--no-timing")
    assert "--out: news.en is read as well (FILES: news.en)" in result.stderr
    assert nmt("init", *files, "--force", "--no-timing").exit_code == 0
    assert load_config("en-fr.yaml").name == "en-fr"
    text = "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in PAIRS)
    Path("fra-eng.tsv").write_text(text, encoding="utf-8")
    result = nmt(
        "init", "fra-eng.tsv", "--no-timing"
    )  # here the text decides on the name of the file
    assert "is there already" in result.stderr


def test_given_sets_are_taken_and_nothing_is_held_out_for_them() -> None:
    files = write_pair()
    Path("dev.tsv").write_text("A dog.\tUn chien.\n" * 3, encoding="utf-8")
    write_pair("test")
    sets = ("--valid", "dev.tsv", "--test", "test.en", "--test", "test.fr")
    result = nmt("init", *files, *sets, "--name", "mine", "--no-timing")
    assert result.stdout == "mine.yaml\n"
    assert "note: look at test: 500 of its pairs are in train too" in result.stderr
    config = load_config("mine.yaml")
    assert config.data.held_out is None
    assert config.data.valid is not None
    assert config.data.valid.tsv == Path("dev.tsv")
    assert nmt("config", "check", "mine.yaml").exit_code == 0
    result = nmt("init", *files, *["--valid", "dev.tsv"] * 3, "--force")
    assert "--valid: got 3 files, allowed: one of both sides, or two" in result.stderr


def messy(pairs: list[tuple[str, str]]) -> tuple[bytes, bytes]:
    """Two files with every fault at once, which still have as many lines."""
    sides: tuple[list[str], list[str]] = ([], [])
    for number, (src, tgt) in enumerate(pairs):
        if number % 7 == 0:
            tgt = src  # copied
        if number % 11 == 0:
            src = "" if number % 2 else " \t "
        if number % 13 == 0:
            src, tgt = pairs[0]  # again and again
        if number % 5 == 0:
            tgt = unicodedata.normalize("NFD", tgt)
        if number % 17 == 0:
            tgt += "\r"
        if number % 19 == 0:
            src = f"\x1b[31m{src}\x07\ufffd"
        if number % 23 == 0:
            tgt = f"{tgt} " * 60
        sides[0].append(src)
        sides[1].append(tgt)
    del sides[1][300]  # a line is lost in the middle
    sides[1].append("Fin.")
    src_text, tgt_text = ("\n".join(side) for side in sides)
    return b"\xef\xbb\xbf" + src_text.encode(), tgt_text.encode()


def test_messy_files_train_and_what_is_wrong_is_said() -> None:
    src, tgt = messy([(pair.src_text, pair.tgt_text) for pair in PAIRS])
    Path("europarl-v7.fr-en.en.txt").write_bytes(src)
    Path("europarl-v7.fr-en.fr.txt.gz").write_bytes(gzip.compress(tgt))
    files = ["europarl-v7.fr-en.en.txt", "europarl-v7.fr-en.fr.txt.gz"]
    result = nmt("init", *files)
    assert result.exit_code == 0, result.output
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    for sign in (
        "pairs have the same text on both sides",
        "pairs occur again",
        "not in Unicode's NFC",
        "begins with a byte order mark",
        "have an empty side",
        "end in CRLF",
    ):
        assert sum(sign in note for note in notes) == 1, sign
    assert "\x1b" not in result.stderr
    cleaning = notes[-1].partition("the pairs that pass: nmt ")[2].split()
    assert nmt(*cleaning).exit_code == 0
    assert nmt("init", "clean.en", "clean.fr", "--name", "clean", "--no-timing").exit_code == 0
    assert_trains("en-fr.yaml")


def test_swapped_and_shifted_files_are_said() -> None:
    src, tgt = write_pair()
    result = nmt("init", tgt, src, "--src-lang", "en", "--tgt-lang", "fr", "--no-timing")
    assert "note: look at train: the sides look swapped" in result.stderr
    lines = Path(tgt).read_text(encoding="utf-8").splitlines(keepends=True)
    Path(tgt).write_text("".join([*lines[:100], *lines[101:], "Fin.\n"]), encoding="utf-8")
    result = nmt("init", src, tgt, "--no-timing", "--force")
    assert "note: look at train: from about pair 101 on, line n fits line n-1" in result.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "no sentence pairs"),
        ("one field\n", "news.de-en.tsv:1: expected source<TAB>target, got one field"),
        (b"caf\xe9\tcoffee\n", "news.de-en.tsv:1: byte 0xe9 is not UTF-8"),
        (None, "news.de-en.tsv: no such file"),
        ("\t\n" * 5, "there is no de text"),
    ],
)
def test_files_that_hold_no_pairs_are_one_line(content: str | bytes | None, expected: str) -> None:
    path = Path("news.de-en.tsv")
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = nmt("init", str(path))
    assert result.exit_code == 2, result.output
    assert expected in result.stderr
    assert result.stderr.count("error: ") == 1
    assert not list(Path().glob("*.yaml"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("~.en", "~.fr"),
        ("~.tsv", "--src-lang", "en", "--tgt-lang", "fr"),
        ("a.en", "b.fr", "--name", "caf\udce9"),
        ("a.en", "b.fr", "--src-lang", "caf\udce9"),
        ("caf\udce9.en", "b.fr"),
        ("a.en", "b.fr", "--valid", "~.en", "--valid", "b.fr"),
    ],
)
def test_names_that_no_config_can_hold_are_one_line(arguments: tuple[str, ...]) -> None:
    write_pair()
    for name in ("~.en", "~.fr", "~.tsv", "a.en", "b.fr", "caf\udce9.en"):
        Path(name).write_text("a b\tc d\n" * 30, "utf-8")
    result = nmt("init", *arguments, "--no-timing")
    assert result.exit_code == 2, result.output
    assert "allowed: text that is UTF-8" in result.stderr or "no such home" in result.stderr
    assert "Traceback" not in result.output


def test_a_few_lines_get_all_the_pieces_that_they_allow() -> None:
    lines = "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in PAIRS[:30])
    Path("a.en-fr.tsv").write_text(lines, encoding="utf-8")
    assert nmt("init", "a.en-fr.tsv").exit_code == 0
    assert load_config("en-fr.yaml").tokenizer.vocab_size is None  # type: ignore[union-attr]
    assert_trains("en-fr.yaml")


def test_the_page_has_the_sizes() -> None:
    page = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    found = [row for row in rows if row and row[0].startswith(("fewer than", "more"))]
    assert len(found) == len(SIZES)
    for row, sizes in zip(found, SIZES, strict=True):
        assert row[0] == ("more" if sizes.below is None else f"fewer than {sizes.below:,}")
        assert row[1:5] == [
            f"{sizes.vocab_size:,}",
            str(sizes.embedding),
            str(sizes.hidden),
            str(sizes.epochs),
        ]


def proposed(*files: Path) -> RunConfig:
    """The config for files, after it was checked and has trained, in processes as a user has them.

    In this process the checks of types would take most of the time.
    """
    train = ("train", "--config", "en-fr.yaml", "--steps", "2", "--set", "valid.max_examples=10")
    for words in (("init", *map(str, files)), ("config", "check", "en-fr.yaml"), train):
        command = [sys.executable, "-m", "nmt", *words]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
    assert "finished at step 2" in done.stderr
    return load_config("en-fr.yaml")


@pytest.mark.slow
@needs_corpora
def test_tatoeba_s_file() -> None:
    config = proposed(Path(str(CORPORA)) / "tatoeba" / "fra-eng.zip")
    assert (config.data.src_lang, config.data.tgt_lang) == ("en", "fr")
    assert config.model.kind == "rnn"
    assert (config.model.hidden, config.train.epochs) == (256, 10)


@pytest.mark.slow
@needs_corpora
def test_multi30k_s_two_files() -> None:
    folder = Path(str(CORPORA)) / "multi30k"
    config = proposed(folder / "train.en.gz", folder / "train.fr.gz")
    assert config.train.epochs == 30
    assert config.data.max_pieces == 100
