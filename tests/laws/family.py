"""The members of each family, small and with distinct primes as sizes.

A new kind is added to the list here and nowhere else in tests/laws.
"""

from nmt.models.attention import AdditiveConfig, FixedConfig

QUERY, MEMORY = 7, 11

ATTENTIONS = {
    "additive": AdditiveConfig(),
    "additive-sized": AdditiveConfig(size=5),
    "none": FixedConfig(),
}

BLIND = ("none",)
"""Kinds that look at a place, whatever stands there and whatever is asked."""

_SMALL = {"embedding": 5, "hidden": 7, "dropout": 0.0}

MODELS = {
    "rnn": {**_SMALL},
    "rnn-fixed-context": {**_SMALL, "attention": {"kind": "none"}},
    "rnn-two-layers": {**_SMALL, "layers": 2},
    "rnn-unidirectional-copy": {
        **_SMALL,
        "bidirectional": False,
        "initial_state": "copy",
        "layers": 2,
    },
    "rnn-backward-deep": {
        **_SMALL,
        "encoder_hidden": 3,
        "initial_state": "tanh_backward",
        "readout": {"kind": "deep", "size": 13},
    },
    "rnn-learned-tied": {
        **_SMALL,
        "initial_state": "learned",
        "readout": {"kind": "deep", "size": 5, "activation": "tanh"},
        "tie_embeddings": "all",
    },
}

SRC_VOCAB = TGT_VOCAB = 29
