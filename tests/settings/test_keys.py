"""The keys of a config class, and which of them an unknown one means."""

import pytest
from pydantic import RootModel

from nmt.config import RunConfig
from nmt.data.sources import SplitConfig
from nmt.optim.optimizers import SGDConfig
from nmt.settings.base import Config
from nmt.settings.keys import all_keys, chosen, config_classes, kind_of, nearest, sections
from nmt.text.word_tokenizer import WordConfig

KEYS = list(all_keys(RunConfig))


@pytest.mark.parametrize(
    ("key", "section", "meant"),
    [
        ("learning_rate", "train", "train.lr"),
        ("bs", "train", "train.batch_size"),
        ("clip_nrm", "train", "train.clip_norm"),
        ("epochs", "", "train.epochs"),
        ("vocab_size", "model", "tokenizer.vocab_size"),
        ("modle", "", "model"),
        ("qqqq", "train", None),
    ],
)
def test_nearest(key: str, section: str, meant: str | None) -> None:
    assert {"name", "train.optimizer.momentum", "tokenizer.min_freq"} < set(KEYS)
    here = [known for known in KEYS if known.rpartition(".")[0] == section]
    assert nearest(key, here, KEYS) == meant


def test_the_sections_of_a_tree_have_the_kinds_that_their_fields_allow() -> None:
    tree = {"train": {"lr": 1, "optimizer": {"kind": "sgd"}}, "data": {"train": {"file": "a"}}}
    parts = {path: (kinds, section) for path, kinds, section in sections(RunConfig, tree)}
    assert set(parts) == {(), ("train",), ("train", "optimizer"), ("data",), ("data", "train")}
    assert parts[()] == ((RunConfig,), tree)
    assert parts["data", "train"] == ((SplitConfig,), {"file": "a"})
    kinds, optimizer = parts["train", "optimizer"]
    assert len(kinds) > 1
    assert chosen(kinds, optimizer) == (SGDConfig,)
    assert chosen(kinds, {}) == kinds


def test_sections_are_parts_inside_dicts_and_lists() -> None:
    class Item(Config):
        """An item of a list."""

        size: int = 1

    class Shelf(Config):
        """A section with a list of sections."""

        items: tuple[Item, ...] | None = None

    class Shelves(RootModel[dict[str, Shelf]]):
        """Sections by their names."""

    parts = sections(Shelves, {"a": {"items": [{}, {"size": 2}]}, "b": {"items": None}, "c": 3})
    assert list(parts) == [
        (("a",), (Shelf,), {"items": [{}, {"size": 2}]}),
        (("a", "items", 0), (Item,), {}),
        (("a", "items", 1), (Item,), {"size": 2}),
        (("b",), (Shelf,), {"items": None}),
    ]
    assert kind_of(WordConfig) == "word"
    assert kind_of(SplitConfig) is None
    assert config_classes(int | None) == ()
