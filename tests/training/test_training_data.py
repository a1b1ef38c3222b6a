"""The training set from the disk is the one in memory: the same run, bit for bit."""

import io
from pathlib import Path

import pytest
import sentencepiece
from training.toy import assert_same_checkpoint, log_of, tiny_config, train_tiny

from nmt.batches.batching import EncodedCorpus
from nmt.errors import ConfigError, DataError
from nmt.training import training_data as module
from nmt.training.loop import train
from nmt.translation.translator import Translator
from nmt.types import SentencePair


def test_a_run_from_the_cache_is_the_run_from_memory(corpus: Path) -> None:
    """Begun from memory, stopped in an epoch and gone on from the cache as well."""
    disk = {"data": {"cache": str(corpus / "cache")}}
    keys = {"train": {"epochs": 2, "batch_by": "tokens", "batch_size": 101}}
    train_tiny(corpus, "memory", **keys)
    train_tiny(corpus, "disk", **keys, **disk)
    train_tiny(corpus, "both", stop_after=3, **keys)
    train_tiny(corpus, "both", **keys, **disk)
    for name in ("disk", "both"):
        assert_same_checkpoint(corpus / "memory", corpus / name)
    assert "encoding: missing" in log_of(corpus / "disk")
    assert "encoding" not in log_of(corpus / "both")


def test_vocabularies_are_learned_from_pairs_at_equal_distances() -> None:
    pairs = [SentencePair(str(i), str(i)) for i in range(10)]
    for count, step in ((1, 10), (4, 3), (9, 2), (99, 1)):
        places = [int(pair.src_text) for pair in module._spaced(lambda: pairs, count)]
        assert places == list(range(0, 10, step))[:count]


def test_a_mixture_from_the_cache_is_the_mixture_from_memory(corpus: Path) -> None:
    parts = [{"file": str(corpus / f"{name}.tsv")} for name in ("train", "test")]
    for name, cache in (("memory", None), ("disk", str(corpus / "cache"))):
        data = {"train": {"mix": parts, "temperature": 5.0}, "cache": cache}
        train_tiny(corpus, name, data=data)
    assert_same_checkpoint(corpus / "memory", corpus / "disk")
    assert len(list((corpus / "cache").glob("*-*"))) == 2


def test_a_corpus_without_pairs_gives_a_reason(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a forged data set of data.cache may be."""
    cache = str(corpus / "cache")
    for data in ({"max_pieces": 1}, {"max_pieces": 1, "cache": cache}):
        with pytest.raises(DataError, match=r"none of 100 pairs is fit for training: 100 longer"):
            train_tiny(corpus, data=data)
    monkeypatch.setattr(module, "cached_corpus", lambda *_: EncodedCorpus((), (), {}))
    with pytest.raises(DataError, match=r"none of 0 pairs is fit for training: \w"):
        train_tiny(corpus, data={"cache": cache})


def pieces_of(corpus: Path, vocab_size: int) -> bytes:
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((corpus / "train.tsv").read_text().split("\n")),
        model_writer=buffer,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        unk_surface="<unk>",
        minloglevel=2,
        **{f"{name}_id": i for i, name in enumerate(("pad", "unk", "bos", "eos"))},
    )
    return buffer.getvalue()


def test_a_run_goes_on_without_the_file_and_in_another_folder(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With pieces of a user's file, whose path is relative, so that it leads nowhere from there."""
    monkeypatch.chdir(corpus)
    (corpus / "own.model").write_bytes(pieces_of(corpus, 20))
    tokenizer = {"kind": "sentencepiece", "joint": True, "src_model": "own.model"}
    train_tiny(corpus, "unbroken", tokenizer=tokenizer)
    train_tiny(corpus, stop_after=1, tokenizer=tokenizer)
    (corpus / "own.model").write_bytes(pieces_of(corpus, 16))
    with pytest.raises(ConfigError, match=r"not of the file that tokenizer.src_model names, own"):
        train_tiny(corpus, tokenizer=tokenizer)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (corpus / "run").rename(elsewhere / "run")
    (corpus / "own.model").unlink()
    monkeypatch.chdir(elsewhere)
    train(tiny_config(corpus, tokenizer=tokenizer), elsewhere / "run", quiet=True)
    assert_same_checkpoint(elsewhere / "run", corpus / "unbroken")
    translator = Translator.load(elsewhere / "run")
    assert translator.translate(["a b c"])[0].src_text == "a b c"
