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


def test_all_keys_reach_into_every_kind() -> None:
    assert {"name", "train.lr", "train.optimizer.momentum", "tokenizer.min_freq"} < set(KEYS)
    assert len(KEYS) > 70


@pytest.mark.parametrize(
    ("key", "section", "meant"),
    [
        ("learning_rate", "train", "train.lr"),
        ("bs", "train", "train.batch_size"),
        ("batchsize", "train", "train.batch_size"),
        ("label_smooting", "train", "train.label_smoothing"),
        ("epochs", "", "train.epochs"),
        ("vocab_size", "model", "tokenizer.vocab_size"),
        ("optimiser", "train", "train.optimizer"),
        ("modle", "", "model"),
        ("qqqq", "train", None),
    ],
)
def test_nearest(key: str, section: str, meant: str | None) -> None:
    here = [known for known in KEYS if known.rpartition(".")[0] == section]
    assert nearest(key, here, KEYS) == meant


def test_the_sections_of_a_tree_have_the_kinds_that_their_fields_allow() -> None:
    given = {"train": {"lr": 1, "optimizer": {"kind": "sgd"}}, "data": {"train": {"tsv": "a"}}}
    found = {path: (kinds, section) for path, kinds, section in sections(RunConfig, given)}
    assert set(found) == {(), ("train",), ("train", "optimizer"), ("data",), ("data", "train")}
    assert found[()] == ((RunConfig,), given)
    assert found["data", "train"] == ((SplitConfig,), {"tsv": "a"})
    kinds, optimizer = found["train", "optimizer"]
    assert len(kinds) > 1
    assert chosen(kinds, optimizer) == (SGDConfig,)
    assert chosen(kinds, {}) == kinds


def test_sections_are_found_inside_dicts_and_lists() -> None:
    class Item(Config):
        """An item of a list."""

        size: int = 1

    class Shelf(Config):
        """A section with a list of sections."""

        items: tuple[Item, ...] | None = None

    class Shelves(RootModel[dict[str, Shelf]]):
        """Sections by their names."""

    found = sections(Shelves, {"a": {"items": [{}, {"size": 2}]}, "b": {"items": None}, "c": 3})
    assert list(found) == [
        (("a",), (Shelf,), {"items": [{}, {"size": 2}]}),
        (("a", "items", 0), (Item,), {}),
        (("a", "items", 1), (Item,), {"size": 2}),
        (("b",), (Shelf,), {"items": None}),
    ]


def test_kind_of_is_the_default_of_kind() -> None:
    assert kind_of(WordConfig) == "word"
    assert kind_of(SplitConfig) is None
    assert config_classes(int | None) == ()
