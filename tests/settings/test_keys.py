"""The keys of a config class, and which of them an unknown one means."""

import pytest

from nmt.config import RunConfig
from nmt.data.sources import SplitConfig
from nmt.optim.optimizers import SGDConfig
from nmt.settings.keys import all_keys, config_classes, kind_of, nearest, sections_at
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


def test_the_sections_at_a_path_are_those_of_the_kind_that_is_named() -> None:
    optimizer = ("train", "optimizer")
    tree = {"train": {"optimizer": {"kind": "sgd"}}}
    assert sections_at(RunConfig, optimizer, tree) == (SGDConfig,)
    assert len(sections_at(RunConfig, optimizer, tree, all_kinds=True)) > 1
    assert len(sections_at(RunConfig, optimizer, {})) > 1
    assert sections_at(RunConfig, ("data", "train"), {}) == (SplitConfig,)
    assert sections_at(RunConfig, ("train", "lr"), {}) == ()
    assert sections_at(RunConfig, (), {}, all_kinds=True) == (RunConfig,)


def test_kind_of_is_the_default_of_kind() -> None:
    assert kind_of(WordConfig) == "word"
    assert kind_of(SplitConfig) is None
    assert config_classes(int | None) == ()
