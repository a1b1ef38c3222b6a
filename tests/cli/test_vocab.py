"""`nmt vocab` as typed: results on stdout, words on stderr, codes."""

from pathlib import Path

import pytest
from cli.helpers import nmt, refusal

from nmt.text.tokenizer import Tokenizers

CONFIG = """
name: small
data: {train: {file: pairs.tsv}}
tokenizer: {kind: word, min_freq: 1}
train: {epochs: 1}
"""
BUILD = ("vocab", "build", "--config", "run.yaml", "--out", "v")


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in, with pairs and a run's config."""
    monkeypatch.chdir(tmp_path)
    rows = "The cat.\tLe chat.\nThe dog?\tLe chien\u202f?\nThe cat sees.\tLe chat voit.\n"
    Path("pairs.tsv").write_text(rows, encoding="utf-8")
    Path("run.yaml").write_text(CONFIG)


def pieces() -> tuple[str, ...]:
    return Tokenizers.load(Path("v")).src.vocab.pieces[4:]


def test_build_writes_the_vocabularies_and_prints_their_sizes() -> None:
    result = nmt(*BUILD)
    assert result.stdout == "src en: 10 pieces, word\ntgt fr: 10 pieces, word\n"
    assert result.stderr == "written to v\n"
    assert pieces() == ("The", ".", "cat", "?", "dog", "sees")
    before = Path("v/src.vocab.txt").read_bytes()
    Path("pairs.tsv").write_text("a\tb\n")
    assert "--force" in refusal(*BUILD)
    Path("v/tokenizer.json").unlink()
    assert "--force" in refusal(*BUILD)
    assert Path("v/src.vocab.txt").read_bytes() == before
    assert nmt(*BUILD, "--force").stdout.startswith("src en: 5 pieces, word\n")
    assert pieces() == ("a",)
    joint = (*BUILD[:-1], "w", "--set", "tokenizer.joint=true")
    assert nmt(*joint).stdout.startswith("src en: 6 pieces, word, joint\n")


def test_build_takes_a_given_file_and_reads_no_pairs_for_it() -> None:
    Path("words.txt").write_text("the\t3\ncat\t2\n")
    Path("pairs.tsv").unlink()
    refusal(*BUILD, "--set", "tokenizer.src_vocab=words.txt", "--set", "tokenizer.joint=true")
    Path("run.yaml").write_text(CONFIG.replace("min_freq: 1", "joint: true"))
    shown = nmt(*BUILD, "--set", "tokenizer.src_vocab=words.txt").stdout
    assert shown == "src en: 6 pieces, word, joint\ntgt fr: 6 pieces, word, joint\n"
    error = refusal(*BUILD[:-1], "w", "--set", "tokenizer.src_vocab=x")
    assert error == "tokenizer.src_vocab: x: no such file"


def test_build_needs_training_pairs() -> None:
    Path("data").mkdir()
    Path("data/catalog.yaml").write_text(
        "tests-only: {src_lang: en, tgt_lang: fr, embedded: true, splits: {test: {file: a.tsv}}}"
    )
    Path("run.yaml").write_text(CONFIG.replace("train: {file: pairs.tsv}", "corpus: tests-only"))
    assert refusal(*BUILD).startswith("data.train: missing")
    assert not Path("v").exists()


def test_show_prints_sizes_and_pieces_of_a_side_or_both() -> None:
    nmt(*BUILD)
    show = ("vocab", "show", "--run", "v")
    assert nmt(*show, "--side", "tgt", "--first", "6").stdout == (
        "tgt fr: 10 pieces, word\n"
        "     0  <pad>\n     1  <unk>\n     2  <s>\n     3  </s>\n     4  Le\n     5  .\n"
    )
    both = nmt(*show, "--first", "1").stdout
    assert [line[:6] for line in both.splitlines()[::2]] == ["src en", "tgt fr"]
    assert nmt(*show, "--side", "tgt", "Le chat rit\u00a0?").stdout == (
        "normalised  Le chat rit ?\n"
        "pieces      Le chat rit ?\n"
        "ids         4 6 1 7\n"
        "unknown     rit\n"
        "decoded     Le chat <unk>\u202f?\n"
    )
    empty = [line.split() for line in nmt(*show, "").stdout.splitlines()]
    names = ("normalised", "pieces", "ids", "unknown", "decoded")
    assert empty == [[name] + ["-"] * (name in names[1:4]) for name in names]


def test_show_finds_the_vocabularies_of_a_run_just_begun() -> None:
    nmt(*BUILD)
    Path("runs/x").mkdir(parents=True)
    Path("v").rename("runs/x/tokenizer")
    assert nmt("vocab", "show", "--run", "runs/x").stdout.startswith("src en: 10")
    Path("empty").mkdir()
    error = refusal("vocab", "show", "--run", "empty")
    assert error.startswith("empty/tokenizer/tokenizer.json: no such file")
    assert refusal("vocab", "show", "--run", "nowhere").startswith("nowhere: no such run")
