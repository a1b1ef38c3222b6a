"""`nmt vocab` as typed: results on stdout, words on stderr, codes."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nmt.cli.vocab import app
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.text.tokenizer import Tokenizers

CONFIG = """
name: small
data: {train: {tsv: pairs.tsv}}
tokenizer: {kind: word, min_freq: 1}
train: {epochs: 1}
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in, with pairs and a run's config."""
    monkeypatch.chdir(tmp_path)
    rows = "The cat.\tLe chat.\nThe dog?\tLe chien\u202f?\nThe cat sees.\tLe chat voit.\n"
    Path("pairs.tsv").write_text(rows, encoding="utf-8")
    Path("run.yaml").write_text(CONFIG)


def nmt_vocab(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def built(*arguments: str) -> Result:
    result = nmt_vocab("build", "--config", "run.yaml", "--out", "v", *arguments)
    assert result.exception is None, result.output
    return result


def test_build_writes_the_vocabularies_and_prints_their_sizes() -> None:
    result = built()
    assert result.stdout == (
        "src en: 10 pieces, word\n"  # The . cat ? dog sees
        "tgt fr: 10 pieces, word\n"
    )
    assert result.stderr == "written to v\n"
    assert Tokenizers.load(Path("v")).src.vocab.pieces[4:] == (
        "The",
        ".",
        "cat",
        "?",
        "dog",
        "sees",
    )


def test_build_takes_overrides() -> None:
    shown = built("--set", "tokenizer.joint=true", "--set", "tokenizer.min_freq=3").stdout
    assert shown.splitlines()[0] == "src en: 7 pieces, word, joint"
    assert Tokenizers.load(Path("v")).src.vocab.pieces[4:] == (".", "Le", "The")


def test_build_takes_a_given_file() -> None:
    """And reads no pairs for it."""
    Path("words.txt").write_text("the\t3\ncat\t2\n")
    Path("pairs.tsv").unlink()
    given = ("--set", "tokenizer.src_vocab=words.txt", "--set", "tokenizer.joint=true")
    assert nmt_vocab("build", "--config", "run.yaml", "--out", "v", *given).exception is not None
    Path("run.yaml").write_text(CONFIG.replace("min_freq: 1", "joint: true"))
    assert (
        built(*given[:2]).stdout == "src en: 6 pieces, word, joint\ntgt fr: 6 pieces, word, joint\n"
    )
    error = nmt_vocab(
        "build", "--config", "run.yaml", "--out", "w", *given[:1], "tokenizer.src_vocab=x"
    )
    assert str(error.exception) == "tokenizer.src_vocab: x: no such file"


def test_build_overwrites_nothing() -> None:
    built()
    before = Path("v/src.vocab.txt").read_bytes()
    Path("pairs.tsv").write_text("a\tb\n")
    error = nmt_vocab("build", "--config", "run.yaml", "--out", "v").exception
    assert isinstance(error, ConfigError)
    assert "--force" in str(error)
    assert Path("v/src.vocab.txt").read_bytes() == before
    Path("v/tokenizer.json").unlink()
    error = nmt_vocab("build", "--config", "run.yaml", "--out", "v").exception
    assert isinstance(error, ConfigError)
    assert Path("v/src.vocab.txt").read_bytes() == before
    assert nmt_vocab("build", "--config", "run.yaml", "--out", "v", "--force").exit_code == 0
    assert Path("v/src.vocab.txt").read_bytes() != before


def test_build_needs_training_pairs() -> None:
    Path("data").mkdir()
    Path("data/catalog.yaml").write_text(
        "tests-only: {src_lang: en, tgt_lang: fr, embedded: true, splits: {test: {tsv: a.tsv}}}"
    )
    Path("run.yaml").write_text(CONFIG.replace("train: {tsv: pairs.tsv}", "corpus: tests-only"))
    error = nmt_vocab("build", "--config", "run.yaml", "--out", "v").exception
    assert isinstance(error, ConfigError)
    assert str(error) == "data.train: missing; name a corpus (data.corpus) or files (data.train)"
    assert not Path("v").exists()


def test_show_prints_sizes_and_pieces_of_a_side_or_both() -> None:
    built()
    assert nmt_vocab("show", "--run", "v", "--side", "tgt", "--first", "6").stdout == (
        "tgt fr: 10 pieces, word\n"
        "     0  <pad>\n     1  <unk>\n     2  <s>\n     3  </s>\n     4  Le\n     5  .\n"
    )
    both = nmt_vocab("show", "--run", "v", "--first", "0").stdout
    assert [line[:6] for line in both.splitlines()] == ["src en", "tgt fr"]
    found = json.loads(nmt_vocab("show", "--run", "v", "--first", "5", "--json").stdout)
    assert found["tgt"]["pieces"] == ["<pad>", "<unk>", "<s>", "</s>", "Le"]
    assert found["src"]["size"] == 10
    assert found["src"]["config"]["kind"] == "word"


def test_show_cuts_a_text() -> None:
    built()
    shown = nmt_vocab("show", "--run", "v", "--side", "tgt", "Le chat rit\u00a0?").stdout
    assert shown == (
        "normalised  Le chat rit ?\n"
        "pieces      Le chat rit ?\n"
        "ids         4 6 1 7\n"
        "unknown     rit\n"
        "decoded     Le chat <unk>\u202f?\n"
    )
    found = json.loads(nmt_vocab("show", "--run", "v", "The dog.", "--json").stdout)
    assert found["pieces"] == ["The", "dog", "."]
    assert found["unknown"] == []
    assert found["decoded"] == found["text"] == "The dog."


def test_show_of_an_empty_text_is_empty() -> None:
    built()
    shown = nmt_vocab("show", "--run", "v", "").stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["normalised"], ["pieces", "-"], ["ids", "-"], ["unknown", "-"], ["decoded"],
    ]  # fmt: skip


def test_show_finds_the_vocabularies_of_a_run_that_has_just_begun() -> None:
    built()
    Path("runs/x").mkdir(parents=True)
    Path("v").rename("runs/x/tokenizer")
    assert nmt_vocab("show", "--run", "runs/x", "--first", "0").stdout.startswith("src en: 10")


def test_show_says_what_is_missing() -> None:
    Path("empty").mkdir()
    error = nmt_vocab("show", "--run", "empty").exception
    assert isinstance(error, DataError)
    missing = "empty/tokenizer/tokenizer.json: no such file; the tokenizer is not whole"
    assert str(error) == missing
    error = nmt_vocab("show", "--run", "nowhere").exception
    assert isinstance(error, CheckpointError)
    assert str(error).startswith("nowhere: no such run")
    error = nmt_vocab("show").exception
    assert isinstance(error, CheckpointError)
