"""The keys of a config class, and which of them an unknown one means."""

import pytest

from nmt.config import RunConfig
from nmt.corpora.sources import SplitConfig
from nmt.optim.optimizers import SGDConfig
from nmt.settings.keys import all_keys, chosen, nearest, sections

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


def test_sections_have_the_kinds_that_their_fields_allow() -> None:
    tree = {"train": {"lr": 1, "optimizer": {"kind": "sgd"}}, "data": {"train": {"file": "a"}}}
    parts = {path: (kinds, section) for path, kinds, section in sections(RunConfig, tree)}
    assert set(parts) == {(), ("train",), ("train", "optimizer"), ("data",), ("data", "train")}
    assert parts[()] == ((RunConfig,), tree)
    assert parts["data", "train"] == ((SplitConfig,), {"file": "a"})
    kinds, optimizer = parts["train", "optimizer"]
    assert len(kinds) > 1
    assert chosen(kinds, optimizer) == (SGDConfig,)
    assert chosen(kinds, {}) == kinds
