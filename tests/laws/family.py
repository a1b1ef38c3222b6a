"""The members of each family, small and with distinct primes as sizes.

A new kind, unless it is a score, is added to the list here and nowhere else in tests/laws.
"""

from itertools import product
from typing import get_args

from pydantic import TypeAdapter

from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import ScoreKind

QUERY, MEMORY = 7, 11
"""Kinds that need one size for both take MEMORY; see `query_size`."""

SCORES = {config.model_fields["kind"].default: config for config in get_args(ScoreKind)}
"""Every score by its name: a new one is tested without a line here."""

KINDS: dict[str, dict[str, object]] = {
    **{kind: {"kind": kind} for kind in SCORES},
    "additive-sized": {"kind": "additive", "size": 5},
    "concat": {"kind": "concat", "size": 5},
    "multi_head": {"kind": "multi_head", "heads": 3, "size": 15},
    "multi_head-additive": {
        "kind": "multi_head",
        "heads": 5,
        "size": 15,
        "over": {"kind": "additive", "size": 2},
    },
    "multi_head-general": {
        "kind": "multi_head",
        "heads": 1,
        "size": 3,
        "over": {"kind": "general"},
    },
    "multi_head-gaussian": {
        "kind": "multi_head",
        "heads": 3,
        "size": 15,
        "value_size": 6,
        "bias": True,
        "over": {"kind": "gaussian"},
        "share_score": True,
    },
    "location": {"kind": "location", "max_length": 7},
    "none": {"kind": "none"},
}

OPTIONS: dict[str, dict[str, object]] = {
    "": {},
    "sparsemax": {"weights": {"kind": "sparsemax"}},
    "hard": {"weights": {"kind": "hard"}},
    "hard_gumbel": {"weights": {"kind": "hard_gumbel"}},
    "local_m": {"span": {"kind": "local_m", "window": 2}},
    "local_p": {"span": {"kind": "local_p", "window": 2}},
    "sum": {"coverage": {"kind": "sum"}},
    "location_sensitive": {"coverage": {"kind": "location_sensitive", "filters": 3, "reach": 2}},
    "dropout_gate_penalty": {"dropout": 0.3, "gate": True, "doubly_stochastic": 0.7},
    "sparsemax-local_p-sum": {
        "weights": {"kind": "sparsemax"},
        "span": {"kind": "local_p", "window": 3},
        "coverage": {"kind": "sum"},
    },
    "hard-local_m-location_sensitive": {
        "weights": {"kind": "hard"},
        "span": {"kind": "local_m", "window": 1},
        "coverage": {"kind": "location_sensitive"},
    },
}

ATTENTIONS: dict[str, AttentionConfig] = {
    "-".join(filter(None, names)): TypeAdapter(AttentionConfig).validate_python(
        {**KINDS[names[0]], **OPTIONS[names[1]]}
    )
    for names in product(KINDS, OPTIONS)
    if names[0] != "none" or not names[1]
}

BLIND = ("none",)
"""Kinds whose weights are the same whatever the annotations are and whatever is asked."""

PLACED = ("local_m", "local_p", "location", "location_sensitive")
"""Kinds and options for which it matters where in the source something stands."""


def query_size(name: str) -> int:
    """The size of a query for the attention of this name."""
    score = SCORES.get(name.split("-")[0])
    return MEMORY if score and any(score().conflicts(QUERY, MEMORY)) else QUERY


def looks(name: str) -> bool:
    """Whether what is looked at, and what is asked, matters."""
    return name not in BLIND


def is_placed(name: str) -> bool:
    """Whether positions matter."""
    return name in BLIND or any(part in PLACED for part in name.split("-"))


_SMALL = {"kind": "rnn", "embedding": 5, "hidden": 7, "dropout": 0.0}
_DROPOUTS = {
    "embedding_dropout": 0.3,
    "annotation_dropout": 0.1,
    "state_dropout": 0.2,
    "readout_dropout": 0.2,
    "variational_dropout": True,
    "src_word_dropout": 0.2,
    "tgt_word_dropout": 0.3,
}
"""All of them; the laws hold in evaluation, and every parameter learns in training."""
_LSTM = {"kind": "bahdanau", "cell": "lstm"}
_CONDITIONAL = {"kind": "conditional"}
_SMALL_TRANSFORMER = {
    "kind": "transformer",
    "size": 14,
    "heads": 2,
    "feed_forward": 11,
    "layers": 2,
    "dropout": 0.0,
}

MODELS = {
    "rnn": {**_SMALL},
    "rnn-fixed-context": {**_SMALL, "attention": {"kind": "none"}},
    "rnn-luong": {**_SMALL, "decoder": {"kind": "luong"}},
    "rnn-luong-two-layers-local": {
        **_SMALL,
        "layers": 2,
        "decoder": {"kind": "luong", "readout": {"kind": "deep", "size": 13}},
        "attention": {"kind": "general", "span": {"kind": "local_p", "window": 1}},
    },
    "rnn-conditional": {**_SMALL, "decoder": _CONDITIONAL},
    "rnn-conditional-two-layers-gate": {
        **_SMALL,
        "layers": 2,
        "decoder": {**_CONDITIONAL, "readout": {"kind": "deep", "size": 5, "activation": "tanh"}},
        "attention": {"kind": "additive", "gate": True, "coverage": {"kind": "sum"}},
        "tie_embeddings": "all",
    },
    "rnn-dot": {**_SMALL, "hidden": 14, "encoder": {"hidden": 7}, "attention": {"kind": "dot"}},
    "rnn-multi-head": {
        **_SMALL,
        "attention": {"kind": "multi_head", "heads": 7, "over": {"kind": "additive"}},
    },
    "rnn-hard": {
        **_SMALL,
        "attention": {
            "kind": "additive",
            "weights": {"kind": "hard", "credit": "sentence", "baseline": "mean"},
        },
    },
    "rnn-hard-gumbel": {
        **_SMALL,
        "attention": {"kind": "concat", "weights": {"kind": "hard_gumbel"}},
    },
    "rnn-sparse-coverage": {
        **_SMALL,
        "attention": {
            "kind": "additive",
            "weights": {"kind": "sparsemax"},
            "coverage": {"kind": "sum"},
        },
    },
    "rnn-monotonic-location-sensitive": {
        **_SMALL,
        "attention": {
            "kind": "general",
            "span": {"kind": "local_m", "window": 1},
            "coverage": {"kind": "location_sensitive"},
        },
    },
    "rnn-dropout-gate-penalty": {
        **_SMALL,
        "attention": {"kind": "additive", "dropout": 0.3, "gate": True, "doubly_stochastic": 0.7},
    },
    "rnn-penalty": {**_SMALL, "attention": {"kind": "additive", "doubly_stochastic": 0.7}},
    "rnn-luong-location": {
        **_SMALL,
        "decoder": {"kind": "luong"},
        "attention": {"kind": "location", "max_length": 5},
    },
    "rnn-cosine": {**_SMALL, "encoder": {"bidirectional": False}, "attention": {"kind": "cosine"}},
    "rnn-two-layers": {**_SMALL, "layers": 2},
    "rnn-unidirectional-copy": {
        **_SMALL,
        "encoder": {"bidirectional": False},
        "decoder": {"kind": "bahdanau", "initial_state": "copy"},
        "layers": 2,
    },
    "rnn-backward-deep": {
        **_SMALL,
        "encoder": {"hidden": 3},
        "decoder": {
            "kind": "bahdanau",
            "initial_state": "tanh_backward",
            "readout": {"kind": "deep", "size": 13},
        },
    },
    "rnn-learned-tied": {
        **_SMALL,
        "decoder": {
            "kind": "bahdanau",
            "initial_state": "learned",
            "readout": {"kind": "deep", "size": 5, "activation": "tanh"},
        },
        "tie_embeddings": "all",
    },
    "lstm": {**_SMALL, "encoder": {"cell": "lstm"}, "decoder": _LSTM},
    "lstm-fixed-context": {
        **_SMALL,
        "encoder": {"cell": "lstm"},
        "decoder": _LSTM,
        "attention": {"kind": "none"},
    },
    "lstm-above-gru-two-layers": {
        **_SMALL,
        "layers": 2,
        "decoder": {**_LSTM, "initial_state": "tanh_backward"},
    },
    "gru-above-lstm": {**_SMALL, "encoder": {"cell": "lstm", "hidden": 3}},
    "lstm-copy-coverage-two-layers": {
        **_SMALL,
        "layers": 2,
        "encoder": {"cell": "lstm", "bidirectional": False},
        "decoder": {**_LSTM, "initial_state": "copy"},
        "attention": {"kind": "additive", "coverage": {"kind": "sum"}},
    },
    "lstm-luong-local-two-layers": {
        **_SMALL,
        "layers": 2,
        "encoder": {"cell": "lstm"},
        "decoder": {**_LSTM, "kind": "luong", "readout": {"kind": "deep", "size": 13}},
        "attention": {"kind": "general", "span": {"kind": "local_p", "window": 1}},
    },
    "lstm-hard-learned-tied": {
        **_SMALL,
        "decoder": {
            **_LSTM,
            "initial_state": "learned",
            "readout": {"kind": "deep", "size": 5, "activation": "tanh"},
        },
        "attention": {
            "kind": "additive",
            "weights": {"kind": "hard"},
        },
        "tie_embeddings": "all",
    },
    "lstm-conditional-copy-local": {
        **_SMALL,
        "encoder": {"cell": "lstm", "bidirectional": False},
        "decoder": {**_CONDITIONAL, "cell": "lstm", "initial_state": "copy"},
        "attention": {"kind": "general", "span": {"kind": "local_p", "window": 1}},
    },
    "lstm-multi-head": {
        **_SMALL,
        "decoder": _LSTM,
        "attention": {"kind": "multi_head", "heads": 7},
    },
    "rnn-dropouts": {**_SMALL, **_DROPOUTS},
    "rnn-dropouts-two-layers-residual": {
        **_SMALL,
        **_DROPOUTS,
        "layers": 2,
        "residual": True,
        "decoder": {"kind": "luong", "initial_state": "mean"},
    },
    "rnn-residual-three-layers": {**_SMALL, "layers": 3, "residual": True},
    "rnn-layer-norm-mean": {
        **_SMALL,
        "layer_norm": True,
        "decoder": {"kind": "bahdanau", "initial_state": "mean"},
    },
    "rnn-layer-norm-residual-two-layers": {
        **_SMALL,
        "layers": 2,
        "layer_norm": True,
        "residual": True,
        "decoder": {"kind": "luong"},
    },
    "lstm-dropouts": {**_SMALL, **_DROPOUTS, "encoder": {"cell": "lstm"}, "decoder": _LSTM},
    "lstm-layer-norm-residual-mean": {
        **_SMALL,
        **_DROPOUTS,
        "layers": 2,
        "layer_norm": True,
        "residual": True,
        "encoder": {"cell": "lstm"},
        "decoder": {**_LSTM, "initial_state": "mean"},
    },
    "transformer": {**_SMALL_TRANSFORMER},
    "transformer-word-dropout": {
        **_SMALL_TRANSFORMER,
        "src_word_dropout": 0.2,
        "tgt_word_dropout": 0.3,
    },
    "transformer-one-layer-all-maps": {
        **_SMALL_TRANSFORMER,
        "layers": 1,
        "attention_layer": "all",
    },
    "transformer-post": {**_SMALL_TRANSFORMER, "norm": "post", "attention_layer": "all"},
    "transformer-learned-gelu": {
        **_SMALL_TRANSFORMER,
        "positions": {"kind": "learned", "max_length": 17},
        "activation": "gelu",
    },
    "transformer-no-positions-no-bias": {
        **_SMALL_TRANSFORMER,
        "positions": {"kind": "none"},
        "bias": False,
    },
    "transformer-relative": {
        **_SMALL_TRANSFORMER,
        "positions": {"kind": "relative", "max_distance": 2},
    },
    "transformer-relative-keys-window": {
        **_SMALL_TRANSFORMER,
        "positions": {"kind": "relative", "max_distance": 3, "values": False},
        "self_attention_window": 1,
    },
    "transformer-rotary": {**_SMALL_TRANSFORMER, "size": 28, "positions": {"kind": "rotary"}},
    "transformer-rotary-window-post": {
        **_SMALL_TRANSFORMER,
        "size": 28,
        "positions": {"kind": "rotary"},
        "self_attention_window": 2,
        "norm": "post",
    },
    "transformer-odd-tied": {
        **_SMALL_TRANSFORMER,
        "size": 7,
        "heads": 7,
        "positions": {"kind": "learned", "max_length": 17},
        "tie_embeddings": "target",
    },
    "transformer-deep-decoder-tied": {
        **_SMALL_TRANSFORMER,
        "layers": 1,
        "decoder_layers": 3,
        "tie_embeddings": "all",
    },
    "transformer-deep-encoder": {
        **_SMALL_TRANSFORMER,
        "layers": 3,
        "decoder_layers": 1,
        "norm": "post",
    },
}

SRC_VOCAB = TGT_VOCAB = 29
