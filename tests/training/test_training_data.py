"""The training set in files, in memory or in the cache: the same run, bit for bit."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training.toy import (
    assert_same_checkpoint,
    assert_same_run,
    log_of,
    records,
    tiny_config,
    train_tiny,
)

from nmt.batches.batching import EncodedCorpus
from nmt.config import config_of
from nmt.corpora.corpora import read_split
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.text.tokenizer import SentencePieceConfig, train_tokenizers
from nmt.training import training_data as module
from nmt.training.loop import Outcome, train
from nmt.training.memory_pairs import store_pairs
from nmt.training.trainer import Update
from nmt.translation.translator import Translator
from nmt.types import SentencePair


@pytest.mark.parametrize("parts", [["train"], ["train", "test"]])
def test_a_run_from_the_cache_is_the_run_from_memory(corpus: Path, parts: list[str]) -> None:
    """Begun from memory, stopped in an epoch and gone on from the cache as well."""
    files = [{"file": str(corpus / f"{name}.tsv")} for name in parts]
    data = {"train": {"mix": files, "temperature": 5.0} if len(files) > 1 else files[0]}
    disk = {**data, "cache": str(corpus / "cache")}
    keys = {"epochs": 2, "batch_by": "tokens", "batch_size": 101}
    train_tiny(corpus, "memory", train=keys, data=data)
    train_tiny(corpus, "disk", train=keys, data=disk)
    train_tiny(corpus, "both", stop_after=3, train=keys, data=data)
    train_tiny(corpus, "both", train=keys, data=disk)
    assert len(list((corpus / "cache").glob("*-*"))) == len(parts)
    for name in ("disk", "both"):
        assert_same_checkpoint(corpus / "memory", corpus / name)
    assert "missing; encoding the corpus" in log_of(corpus / "disk")
    assert "encoding" not in log_of(corpus / "both")


def test_a_corpus_without_pairs_gives_a_reason(corpus: Path, monkeypatch) -> None:
    """As a forged data set of data.cache may be."""
    cache = str(corpus / "cache")
    for data in ({"max_pieces": 1}, {"max_pieces": 1, "cache": cache}):
        with pytest.raises(DataError, match=r"none of 100 pairs is fit for training: 100 longer"):
            train_tiny(corpus, data=data)
    monkeypatch.setattr(module, "cached_corpus", lambda *_: EncodedCorpus((), (), {}))
    with pytest.raises(DataError, match=r"none of 0 pairs is fit for training: \w"):
        train_tiny(corpus, data={"cache": cache})


def pieces_of(vocab_size: int) -> bytes:
    config, text = SentencePieceConfig(vocab_size=vocab_size), "abcdefgh a b c d e f g h abcd efgh"
    return train_tokenizers(config, [SentencePair(text, text)], "en", "de", 1).src.model_bytes


def test_a_run_goes_on_without_the_file_elsewhere(corpus, monkeypatch, tmp_path_factory) -> None:
    """With pieces of a user's file, whose path is relative, so that it leads nowhere from there."""
    monkeypatch.chdir(corpus)
    (corpus / "own.model").write_bytes(pieces_of(16))
    tokenizer = {"kind": "sentencepiece", "joint": True, "src_model": "own.model"}
    train_tiny(corpus, "unbroken", tokenizer=tokenizer)
    train_tiny(corpus, stop_after=1, tokenizer=tokenizer)
    (corpus / "own.model").write_bytes(pieces_of(13))
    with pytest.raises(ConfigError, match=r"differ from the file that tokenizer.src_model names"):
        train_tiny(corpus, tokenizer=tokenizer)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (corpus / "run").rename(elsewhere / "run")
    (corpus / "own.model").unlink()
    monkeypatch.chdir(elsewhere)
    train(tiny_config(corpus, tokenizer=tokenizer), elsewhere / "run", quiet=True)
    assert_same_checkpoint(elsewhere / "run", corpus / "unbroken")
    translator = Translator.load(elsewhere / "run")
    assert translator.translate(["a b c"])[0].src_text == "a b c"


Pairs = list[tuple[str, str]]
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"))
NO_DATA = {"src_lang": "en", "tgt_lang": "de", "train": None, "valid": None}


def pairs_of(folder: Path, name: str) -> Pairs:
    split = SplitConfig(file=folder / f"{name}.tsv")
    return [(pair.src_text, pair.tgt_text) for pair in read_split(split, DataConfig())]


def train_pairs(
    folder: Path, run: str, stop_after: int | None = None, seen: Any = (), **splits: Pairs
) -> Outcome:
    named = {"pairs": pairs_of(folder, "train"), "valid": pairs_of(folder, "valid"), **splits}
    return train_tiny(folder, run, stop_after, {"callbacks": seen, **named}, data=NO_DATA)


def test_pairs_in_memory_train_as_their_files_do(corpus: Path) -> None:
    """A run that was stopped goes on with its own pairs; callbacks see each update once."""
    updates: list[Update] = []
    train_tiny(corpus, "files")
    stopped = train_pairs(corpus, "memory", stop_after=3, seen=[updates.append])
    assert [update.step for update in updates] == list(range(1, stopped.step + 1))
    assert train_pairs(corpus, "memory", stop_after=2, seen=[updates.append]).reason is None
    other = [("a b", "b a"), *pairs_of(corpus, "train")]
    for name, split in (("pairs", "train"), ("valid", "valid")):
        with pytest.raises(DataError, match=f"^{split} pairs: differ from the pairs of "):
            train_pairs(corpus, "memory", **{name: other})
    (corpus / "memory" / "pairs" / "train.tsv").unlink()
    with pytest.raises(ZeroDivisionError):
        train_pairs(corpus, "memory", seen=[lambda update: 1 // 0])
    end = train_pairs(corpus, "memory", seen=[updates.append, lambda update: update.loss])
    assert_same_run(corpus / "files", corpus / "memory")
    assert [update.step for update in updates] == list(range(1, end.step + 1))
    logged = [record["loss"] for record in records(corpus / "memory", "train")]
    assert [update.loss for update in updates] == pytest.approx(logged, abs=1e-4)
    assert all(update.model.training for update in updates)


@given(st.lists(st.tuples(LINES, LINES), min_size=1))
@settings(max_examples=40, deadline=None)
def test_a_text_comes_back_from_the_run_as_it_was(tmp_path_factory, pairs: Pairs) -> None:
    folder = tmp_path_factory.mktemp("run")
    config = store_pairs(tiny_config(folder, data=NO_DATA), folder, {"train": pairs})
    assert config.data.train is not None
    assert read_split(config.data.train, config.data) == [SentencePair(*pair) for pair in pairs]
    assert config == store_pairs(config, folder, {"train": iter(pairs)})


def test_what_is_no_pair_is_named(corpus: Path) -> None:
    pairs: Any
    for pairs, error, message in (
        ([("a", "b"), "cd"], TypeError, r"train pairs\[1\]: got 'cd', allowed: a pair of str"),
        ([("a", None)], TypeError, r"train pairs\[0\]"),
        ("ab", TypeError, r"train pairs\[0\]: got 'a'"),
        ([("a\tb", "c")], DataError, r"train pairs\[0\]: .* without tabs"),
        ([("a", "b\nc")], DataError, r"train pairs\[0\]"),
        ([("a", "\ud800")], DataError, r"train pairs\[0\]"),
        ([], DataError, r"train\.tsv: no sentence pairs"),
        ([("", "")], DataError, "there is no en text"),
    ):
        with pytest.raises(error, match=message):
            train_pairs(corpus, "run", pairs=pairs)
    with pytest.raises(ConfigError, match="data: nothing to learn from"):
        train(tiny_config(corpus, data=NO_DATA), corpus / "run", valid=[("a", "b")])


def test_a_share_of_the_pairs_is_held_out(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(corpus)
    values = tiny_config(corpus, data={**NO_DATA, "held_out": {"valid": 7}}).model_dump(mode="json")
    config = config_of({**values, "train": {"steps": 2, "device": "cpu"}})
    outcome = train(config, quiet=True, pairs=pairs_of(corpus, "train"))
    assert outcome.run == Path("runs") / "toy"
    assert "93 for training, 7 sentences for validation" in (outcome.run / "train.log").read_text()
