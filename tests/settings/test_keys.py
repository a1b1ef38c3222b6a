"""The keys of a config class, and which of them an unknown one means."""

import pytest

from nmt.config import RunConfig
from nmt.settings.keys import all_keys, nearest_key

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
    assert nearest_key(key, here, KEYS) == meant
