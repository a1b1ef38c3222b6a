"""A training on pairs in memory is that on a file of them; callbacks see each update once."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training.toy import assert_same_run, records, tiny_config, train_tiny

from nmt.config import config_of
from nmt.corpora.corpora import read_split
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.training.loop import Outcome, train
from nmt.training.memory_pairs import store_pairs
from nmt.training.trainer import Update
from nmt.types import SentencePair

Pairs = list[tuple[str, str]]
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"))
NO_DATA = {"src_lang": "en", "tgt_lang": "de", "train": None, "valid": None}


def pairs_of(folder: Path, name: str) -> Pairs:
    split = SplitConfig(file=folder / f"{name}.tsv")
    return [(pair.src_text, pair.tgt_text) for pair in read_split(split, DataConfig())]


def train_pairs(
    folder: Path, run: str, stop_after: int | None = None, seen: Any = (), **splits: Pairs
) -> Outcome:
    asked = itertools.count(1)
    named = {"pairs": pairs_of(folder, "train"), "valid": pairs_of(folder, "valid"), **splits}
    return train(
        tiny_config(folder, data=NO_DATA),
        folder / run,
        interrupted=lambda: stop_after is not None and next(asked) > stop_after,
        quiet=True,
        callbacks=seen,
        **named,
    )


def test_pairs_in_memory_train_as_their_files_do(corpus: Path) -> None:
    """A run that was stopped goes on with its own pairs; callbacks see each update once."""
    updates: list[Update] = []
    train_tiny(corpus, "files")
    stopped = train_pairs(corpus, "memory", stop_after=3, seen=[updates.append])
    assert [update.step for update in updates] == list(range(1, stopped.step + 1))
    assert train_pairs(corpus, "memory", stop_after=2, seen=[updates.append]).reason is None
    other = [("a b", "b a"), *pairs_of(corpus, "train")]
    for name, split in (("pairs", "train"), ("valid", "valid")):
        with pytest.raises(DataError, match=f"{split} pairs: not those that .* was begun with"):
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
def test_a_text_comes_back_from_the_run_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, pairs: Pairs
) -> None:
    folder = tmp_path_factory.mktemp("run")
    config = store_pairs(tiny_config(folder, data=NO_DATA), folder, {"train": pairs})
    assert config.data.train is not None
    assert read_split(config.data.train, config.data) == [SentencePair(*pair) for pair in pairs]
    assert config == store_pairs(config, folder, {"train": iter(pairs)})


def test_what_is_no_pair_is_named(corpus: Path) -> None:
    pairs: Any
    for pairs, error, message in (
        ([("a", "b"), "cd"], TypeError, r"train pairs\[1\]: got 'cd', allowed: a pair of str"),
        ([("a", "b", "c")], TypeError, r"train pairs\[0\]"),
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
