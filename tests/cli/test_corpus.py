"""`nmt corpus` as typed: results on stdout, words on stderr, codes."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nmt.cli.corpus import app
from nmt.errors import ConfigError, DataError

CONFIG = """
name: small
data: {corpus: small}
tokenizer: {kind: word, min_freq: 1}
train: {epochs: 1}
"""


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a catalogue, a shelf of files and a run's config."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shelf").mkdir()
    files, splits = {}, {}
    for name, lines in {"train": 4, "valid": 2, "test": 1, "extra": 1}.items():
        splits[name] = {"src": f"{name}.en.gz", "tgt": f"{name}.fr.gz"}
        for lang in ("en", "fr"):
            text = "".join(f"{name} {n}\n" for n in range(lines))
            path = tmp_path / "shelf" / f"{name}.{lang}.gz"
            path.write_bytes(gzip.compress(text.encode(), mtime=0))
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            files[path.name] = {"sources": [{"url": "http://127.0.0.1:9/x", "sha256": sha256}]}
    entry = {"src_lang": "en", "tgt_lang": "fr", "splits": splits, "files": files}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "catalog.yaml").write_text(json.dumps({"small": entry}))
    (tmp_path / "run.yaml").write_text(CONFIG)
    return tmp_path


def nmt_corpus(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def run_without_error(arguments: Sequence[str]) -> Result:
    result = nmt_corpus(*arguments)
    assert result.exception is None, result.output
    return result


@pytest.mark.usefixtures("workplace")
def test_list_shows_builtin_and_own_corpora_and_what_is_on_disk() -> None:
    result = run_without_error(["list"])
    assert "tatoeba-en-fr (en, fr): short everyday sentences" in result.stdout
    assert "licence: CC BY 2.0 FR; attribution: www.manythings.org/anki and" in result.stdout
    small = result.stdout.split("small (en, fr)")[1]
    assert "not on disk; pairs as published: train, valid, test, extra" in small

    (Path("shelf") / "extra.fr.gz").unlink()
    run_without_error(["fetch", "small", "--from", "shelf"])
    small = run_without_error(["list"]).stdout.split("small (en, fr)")[1]
    assert "on disk but for extra; pairs" in small


@pytest.mark.usefixtures("workplace")
def test_list_as_json() -> None:
    rows = {row["name"]: row for row in json.loads(run_without_error(["list", "--json"]).stdout)}
    assert set(rows) == {"starter", "tatoeba-en-fr", "multi30k-en-fr", "wmt14-en-fr", "small"}
    assert rows["multi30k-en-fr"]["splits"][:3] == ["train", "valid", "test"]
    assert rows["multi30k-en-fr"]["pairs"]["train"] == 29_000
    assert rows["small"]["readable_splits"] == []
    assert rows["tatoeba-en-fr"]["licence"] == "CC BY 2.0 FR"


@pytest.mark.usefixtures("workplace")
def test_fetch_from_a_folder_tells_steps_on_stderr_and_the_result_on_stdout() -> None:
    result = run_without_error(["fetch", "small", "--from", "shelf"])
    assert result.stdout == "small in data/small: train 4, valid 2, test 1, extra 1 pairs\n"
    assert "train.en.gz: shelf/train.en.gz (main: checksum right)" in result.stderr
    assert "licence: unknown; attribution: none given" in result.stderr


@pytest.mark.usefixtures("workplace")
def test_fetch_of_a_dead_address_raises_what_the_program_prints_in_a_line() -> None:
    result = nmt_corpus("fetch", "small")
    assert isinstance(result.exception, DataError)
    assert "http://127.0.0.1:9/x: Connection refused" in str(result.exception)
    assert "nmt corpus fetch small --from PATH" in str(result.exception)
    assert result.stdout == ""


def test_data_option_and_variable_choose_the_folder(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "data").rename(workplace / "elsewhere")
    assert isinstance(nmt_corpus("fetch", "small").exception, ConfigError)
    run_without_error(["fetch", "small", "--from", "shelf", "--data", "elsewhere"])
    monkeypatch.setenv("NMT_DATA", "elsewhere")
    assert "small in elsewhere/small:" in run_without_error(["fetch", "small"]).stdout


@pytest.mark.usefixtures("workplace")
def test_check_reports_every_split() -> None:
    run_without_error(["fetch", "small", "--from", "shelf"])
    result = run_without_error(["check", "run.yaml"])
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "train valid test"
    assert "pairs 4 2 1" in lines
    assert "unknown pieces 0 (0.00%) 2 (50.00%) 1 (50.00%)" in lines
    assert "training the word tokenizer on train" in result.stderr


@pytest.mark.usefixtures("workplace")
def test_check_as_json_with_an_override_and_without_pieces() -> None:
    run_without_error(["fetch", "small", "--from", "shelf"])
    result = run_without_error(
        ["check", "run.yaml", "--json", "--no-pieces", "--set", "data.max_pieces=7"]
    )
    report = json.loads(result.stdout)
    assert report["max_pieces"] == 7
    assert [split["pairs"] for split in report["splits"]] == [4, 2, 1]
    assert report["splits"][0]["src"]["pieces"] is None
    assert result.stderr == ""


def test_check_counts_every_reference_and_needs_no_test_set(workplace: Path) -> None:
    (workplace / "run.yaml").write_text(
        "name: own\ntrain: {epochs: 1}\ndata:\n  train: {tsv: a.tsv}\n"
        "  valid: {src: v.en, tgt: [v1.fr, v2.fr]}\n"
    )
    for name, text in {"a.tsv": "a\tb\n", "v.en": "a\n", "v1.fr": "b\n", "v2.fr": "c\n"}.items():
        (workplace / name).write_text(text)
    report = json.loads(run_without_error(["check", "run.yaml", "--json", "--no-pieces"]).stdout)
    assert [(split["name"], split["pairs"]) for split in report["splits"]] == [
        ("train", 1),
        ("valid", 2),
    ]
    assert report["splits"][1]["in_train"] == {"src": 2, "src_nearly": 2, "tgt": 1, "pair": 1}


@pytest.mark.usefixtures("workplace")
def test_check_of_a_corpus_that_is_not_there_says_how_to_get_it() -> None:
    result = nmt_corpus("check", "run.yaml")
    assert isinstance(result.exception, DataError)
    assert "get it with: nmt corpus fetch small [--from PATH]" in str(result.exception)


def test_check_of_a_corpus_without_a_split_of_a_run_is_an_error(workplace: Path) -> None:
    (workplace / "data").mkdir(exist_ok=True)
    (workplace / "data" / "catalog.yaml").write_text(
        "whole: {src_lang: en, tgt_lang: fr, splits: {all: {tsv: a.tsv}}}\n"
    )
    (workplace / "run.yaml").write_text("name: x\ntrain: {epochs: 1}\ndata: {corpus: whole}\n")
    result = nmt_corpus("check", "run.yaml")
    assert isinstance(result.exception, ConfigError)
    assert "corpus 'whole' has no split train, valid or test" in str(result.exception)


@pytest.mark.usefixtures("workplace")
def test_check_tells_of_odd_lines_and_of_a_corpus_that_is_not_what_it_should_be() -> None:
    same = "".join(f"the same text {n}\r\n" for n in range(30))
    Path("a.en").write_text(f"{same}\r\n", newline="")
    Path("a.fr").write_bytes(f"{same}e\u0301t\u00e9\n".encode())
    Path("own.yaml").write_text(
        "name: own\ndata: {train: {src: a.en, tgt: a.fr}}\ntrain: {epochs: 1}\n"
    )
    result = run_without_error(["check", "own.yaml"])
    for line in (
        "a.en: 1 of 31 lines have an empty side: 31",
        "a.fr: 1 of 31 lines are not in Unicode's NFC (models read them in NFC): 31",
        "a.fr: 30 of 31 lines end in CRLF, and the others do not: the CR stays in them: 1, 2, 3, "
        "4, 5, ...",
        "a.en: longest line: 11 (16 characters)",
        "look at train: the target looks like en, not fr",
    ):
        assert line in result.stdout.splitlines()
    assert " pieces are all that the en text allows (tokenizer.vocab_size: 8,000" in result.stderr
    report = json.loads(run_without_error(["check", "own.yaml", "--no-pieces", "--json"]).stdout)
    assert report["files"][1]["not_nfc"] == {"count": 1, "first": [31]}
    assert report["splits"][0]["suspicions"] == ["the target looks like en, not fr"]


@pytest.mark.usefixtures("workplace")
def test_check_gives_its_report_where_the_vocabulary_is_too_large() -> None:
    run_without_error(["fetch", "small", "--from", "shelf"])
    sizes = ["--set", "tokenizer.kind=sentencepiece", "--set", "tokenizer.vocab_size=999"]
    result = nmt_corpus("check", "run.yaml", *sizes)
    assert isinstance(result.exception, ConfigError)
    assert "999 pieces are more than the en text allows" in str(result.exception)
    assert result.stdout.startswith("      ")
    assert "train.en.gz: longest line: 1 (7 characters)" in result.stdout
