"""Argos packages: a reader that does what Argos Translate 1.11 does translates as nmt does."""

import zipfile
from pathlib import Path

import pytest
import sentencepiece
from cli.helpers import nmt, refusal
from hypothesis import given
from hypothesis import strategies as st
from training.toy import toy_config

from nmt.export.argos import _with_rules
from nmt.text.normalisation import restore
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig, SentencePieceTokenizer
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.training.loop import train
from nmt.translation.translator import Translator
from nmt.types import SentencePair

EXPORT = ("export", "run", "--format", "argos", "--out", "ab.argosmodel")


def argos(folder: Path, texts: list[str], beam: int) -> list[str]:
    """The translations of Argos Translate's `apply_packaged_translation` and its tokenizer."""
    import ctranslate2

    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    pieces = [processor.encode(text, out_type=str) for text in texts]
    options = {"replace_unknowns": True, "beam_size": beam, "length_penalty": 0.2}
    translator = ctranslate2.Translator(str(folder / "model"), intra_threads=1)
    results = translator.translate_batch(pieces, **options)
    decoded = [processor.decode_pieces(result.hypotheses[0]) for result in results]
    return [text.replace("▁", " ").replace("_", " ").removeprefix(" ") for text in decoded]


def test_a_package_translates_as_nmt_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that writes backwards and in capitals, so that no target piece is a source piece."""
    pytest.importorskip("ctranslate2", reason="needs pip install 'attention-nmt[ctranslate2]'")
    monkeypatch.chdir(tmp_path)
    texts = [f"{a} {b} {c}" for a in "abcdefg" for b in "abcdefg" for c in "abcdefg"]
    pairs = "".join(f"{text}\t{text[::-1].upper()}\n" for text in texts)
    for name in ("train", "valid", "test"):
        Path(f"{name}.tsv").write_text(pairs)
    config = toy_config(
        tmp_path,
        model={"kind": "transformer", "size": 24, "heads": 2, "layers": 1, "dropout": 0.0},
        tokenizer={"kind": "sentencepiece"},
        train={"epochs": 4, "batch_size": 10},
        search={"beam": 1, "max_repeats": None, "max_length": 90},
    )
    train(config, tmp_path / "run", quiet=True)
    assert nmt(*EXPORT).stdout == "ab.argosmodel\n"
    assert "ab.argosmodel" in refusal(*EXPORT)
    zipfile.ZipFile("ab.argosmodel").extractall()
    folder = Path("translate-en_de-1_0")
    assert '"from_name": "English"' in (folder / "metadata.json").read_text()
    ours = Translator.load("run", "cpu").translate(texts[::9])
    theirs = zip(ours, argos(folder, texts[::9], beam=1), strict=True)
    finished = [(o.text, text) for o, text in theirs if o.hypotheses[0].hypothesis.finished]
    assert finished
    assert all(text == argos_text for text, argos_text in finished)
    assert len(argos(folder, ["a b c " * 2000, ""], beam=4)) == 2  # beyond its positions
    pairs = [SentencePair("A man sleeps", "Ein Mann")]
    for tokenizer in (SentencePieceConfig(case="markup"), WordConfig()):
        train_tokenizers(tokenizer, pairs * 2, "en", "de", 1).save("run/tokenizer")
        assert refusal(*EXPORT, "--force").startswith("cannot export tokenizer: ")


def test_a_recurrent_model_is_refused_before_its_tokenizer(folder: Path) -> None:
    assert refusal(*EXPORT).startswith("cannot export model.kind: ")


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    config = SentencePieceConfig()
    return config.build(config.train(["aeioué' ? ! . : » « eau ai"] * 4, "fr", 1), "fr")


@pytest.fixture(scope="module")
def processor(tokenizer: SentencePieceTokenizer) -> sentencepiece.SentencePieceProcessor:
    """The exported model of the tokenizer."""
    return sentencepiece.SentencePieceProcessor(model_proto=_with_rules(tokenizer))


WORDS = st.from_regex("[aeioué’']{1,3}( [?!:»]|[.]?)", fullmatch=True)


@given(st.lists(WORDS, max_size=5), st.booleans(), st.sampled_from("\u2009\u200b"))
def test_its_pieces_are_those_of_nmt(
    tokenizer: SentencePieceTokenizer,
    processor: sentencepiece.SentencePieceProcessor,
    words: list[str],
    is_tight: bool,
    space: str,
) -> None:
    """Printed French, French without spaces before marks, and other spaces between words."""
    text = " ".join(words)
    tight = text.replace(" ?", "?").replace(" !", "!").replace(" »", "»")
    changed = (tight if is_tight else restore(text, "fr")).replace(" ", f" {space}")
    assert processor.encode(changed, out_type=str) == list(tokenizer.encode(text).pieces)
