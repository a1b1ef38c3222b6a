"""Argos packages: a reader that does what Argos Translate 1.11 does translates as nmt does."""

import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import sentencepiece
from cli.helpers import nmt, refusal
from hypothesis import given
from hypothesis import strategies as st
from training.toy import toy_config, write_reversal

from nmt.export.argos import _with_rules
from nmt.text.normalisation import restore
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import train_tokenizers
from nmt.training.loop import train
from nmt.translation.translator import Translator
from nmt.types import SentencePair

MODEL = {"kind": "transformer", "size": 24, "heads": 2, "layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that writes backwards and in capitals, so that no target piece is a source piece."""
    folder = tmp_path_factory.mktemp("argos")
    write_reversal(folder, n_train=300, n_test=20)
    for path in folder.glob("*.tsv"):
        pairs = [line.split("\t") for line in path.read_text().splitlines()]
        path.write_text("".join(f"{src}\t{tgt.upper()}\n" for src, tgt in pairs))
    config = toy_config(
        folder,
        model={**MODEL, "dropout": 0.0},
        tokenizer={"kind": "sentencepiece"},
        train={"epochs": 4, "batch_size": 10, "lr": 0.005},
        search={"beam": 1, "max_repeats": None, "max_length": 90},
    )
    train(config, folder / "run", quiet=True)
    return folder / "run"


def argos(folder: Path, texts: Sequence[str], beam: int) -> list[str]:
    """The translations of Argos Translate's `apply_packaged_translation` and its tokenizer."""
    import ctranslate2

    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    results = ctranslate2.Translator(str(folder / "model"), intra_threads=1).translate_batch(
        [processor.encode(text, out_type=str) for text in texts],
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=beam,
        length_penalty=0.2,
    )
    decoded = [processor.decode_pieces(result.hypotheses[0]) for result in results]
    return [text.replace("▁", " ").replace("_", " ").removeprefix(" ") for text in decoded]


def test_a_package_translates_as_nmt_does(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs pip install 'attention-nmt[ctranslate2]'")
    out = tmp_path / "ab.argosmodel"
    assert nmt("export", run, "--format", "argos", "--out", out).stdout == f"{out}\n"
    assert str(out) in refusal("export", run, "--format", "argos", "--out", out)
    zipfile.ZipFile(out).extractall(tmp_path)
    folder = tmp_path / "translate-en_de-1_0"
    metadata = json.loads((folder / "metadata.json").read_text())
    assert {name: metadata[name] for name in ("from_code", "to_code", "from_name")} == {
        "from_code": "en",
        "to_code": "de",
        "from_name": "English",
    }
    assert (folder / "README.md").read_text().startswith("---\nlanguage:")
    lines = (run.parent / "test.tsv").read_text().splitlines()
    texts = [line.split("\t")[0] for line in lines]
    ours = Translator.load(run, "cpu").translate(texts)
    finished = [t.text for t in ours if t.hypotheses[0].hypothesis.finished]
    assert finished
    theirs = argos(folder, texts, beam=1)
    pairs = zip(ours, theirs, strict=True)
    assert [text for t, text in pairs if t.hypotheses[0].hypothesis.finished] == finished
    assert len(argos(folder, ["a b c " * 2000, ""], beam=4)) == 2  # beyond its positions


def test_what_argos_cannot_do_is_refused(run: Path, tmp_path: Path) -> None:
    pairs = [SentencePair("A man sleeps", "Ein Mann")]
    for tokenizer in ({"kind": "word", "min_freq": 1}, {"case": "markup"}):
        config = toy_config(run.parent, tokenizer={"kind": "sentencepiece", **tokenizer}).tokenizer
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(run, folder)
        train_tokenizers(config, pairs, "en", "de", seed=1).save(folder / "tokenizer")
        error = refusal("export", folder, "--format", "argos", "--out", tmp_path / "out")
        assert error.startswith("cannot export tokenizer: ")
    assert not (tmp_path / "out").exists()


WORDS = st.text("aeioué’'", min_size=1, max_size=3)
MARKS = st.sampled_from(["", " ?", " !", ".", " :", " »"])
SENTENCES = st.lists(st.tuples(WORDS, MARKS), max_size=5)
CONFIG = SentencePieceConfig()
TOKENIZER = CONFIG.build(CONFIG.train(["aeioué' ? ! . : » « eau ai"] * 4, "fr", 1), "fr")


@given(SENTENCES, st.booleans(), st.sampled_from([" ", "  ", "\u2009", "\u200b "]))
def test_its_pieces_are_those_of_nmt(
    sentences: list[tuple[str, str]], is_tight: bool, space: str
) -> None:
    """Printed French, French without spaces before marks, and other spaces between words."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=_with_rules(TOKENIZER))
    text = " ".join(f"{word}{mark}" for word, mark in sentences)
    expected = list(TOKENIZER.encode(text).pieces)
    tight = text.replace(" ?", "?").replace(" !", "!").replace(" »", "»")
    changed = (tight if is_tight else restore(text, "fr")).replace(" ", space)
    assert processor.encode(changed, out_type=str) == expected
