"""The members of each family, small and with distinct primes as sizes.

A new kind, unless it is a score, is added to the list here and nowhere else in tests/laws.
"""

from collections.abc import Sequence
from itertools import product
from typing import get_args

import torch
from devices import DEVICE
from pydantic import TypeAdapter

from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import ScoreKind
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, build_model
from nmt.text.vocabulary import EOS_ID

QUERY, MEMORY = 7, 11
"""Kinds that need one size for both take MEMORY; see `query_size`."""

SCORES = {config.model_fields["kind"].default: config for config in get_args(ScoreKind)}
"""Every score by its name: a new one is tested without a line here."""

_HEADS = {"kind": "multi_head", "heads": 3, "size": 15}
KINDS: dict[str, dict[str, object]] = {
    **{kind: {"kind": kind} for kind in SCORES},
    "additive-sized": {"kind": "additive", "size": 5},
    "concat": {"kind": "concat", "size": 5},
    "multi_head": _HEADS,
    "multi_head-additive": {**_HEADS, "heads": 5, "over": {"kind": "additive", "size": 2}},
    "multi_head-general": {**_HEADS, "heads": 1, "size": 3, "over": {"kind": "general"}},
    "multi_head-gaussian": {**_HEADS, "bias": True, "over": {"kind": "gaussian"}},
    "location": {"kind": "location", "max_length": 7},
    "none": {"kind": "none"},
}

OPTIONS: dict[str, dict[str, object]] = {
    "": {},
    **{kind: {"weights": {"kind": kind}} for kind in ("sparsemax", "hard", "hard_gumbel")},
    **{kind: {"span": {"kind": kind, "window": 2}} for kind in ("local_m", "local_p")},
    **{kind: {"coverage": {"kind": kind}} for kind in ("sum", "location_sensitive")},
    "dropout_gate_penalty": {"dropout": 0.3, "gate": True, "doubly_stochastic": 0.7},
}
for combination in ("sparsemax-local_p-sum", "hard-local_m-location_sensitive"):
    weights, span, coverage = combination.split("-")
    OPTIONS[combination] = OPTIONS[weights] | OPTIONS[span] | OPTIONS[coverage]

PAIRS: dict[str, tuple[str, ...]] = {
    "sparsemax": ("dot", "concat", "multi_head-additive"),
    "hard": ("general", "location", "multi_head"),
    "hard_gumbel": ("additive", "gaussian", "multi_head-gaussian"),
    "local_m": ("additive", "cosine", "multi_head"),
    "local_p": ("general", "location", "multi_head-additive"),
    "sum": ("additive", "dot", "multi_head-gaussian"),
    "location_sensitive": ("scaled_dot", "concat", "multi_head"),
    "dropout_gate_penalty": ("additive-sized", "cosine", "multi_head-general"),
    "sparsemax-local_p-sum": ("additive", "gaussian", "multi_head-general"),
    "hard-local_m-location_sensitive": ("scaled_dot", "location", "multi_head-additive"),
}
"""The kinds that an option is tested with: about three kinds for each option, and three options
for each kind. What is named nowhere here, such as a new score, is tested with everything."""

_PAIRED = {kind for kinds in PAIRS.values() for kind in kinds}


def attention_config(kind: str, option: str = "") -> AttentionConfig:
    return TypeAdapter(AttentionConfig).validate_python({**KINDS[kind], **OPTIONS[option]})


ATTENTIONS: dict[str, AttentionConfig] = {
    "-".join(filter(None, (kind, option))): attention_config(kind, option)
    for kind, option in product(KINDS, OPTIONS)
    if not option or (kind != "none" and (kind in PAIRS.get(option, KINDS) or kind not in _PAIRED))
}
"""Every kind alone and a pairwise covering of kinds and options."""

POSITIONAL = {"none", "local_m", "local_p", "location", "location_sensitive"}
"""Kinds and options for which it matters where in the source something stands."""


def query_size(name: str) -> int:
    score = SCORES.get(name.split("-")[0])
    return MEMORY if score and any(score().conflicts(QUERY, MEMORY)) else QUERY


_LSTM = {"kind": "bahdanau", "cell": "lstm"}
_SUM = {"kind": "sum"}
_HARD = {"kind": "hard", "credit": "sentence"}
_LOCAL = {"kind": "general", "span": {"kind": "local_p", "window": 1}}
_DEEP = {"kind": "deep", "size": 13}
_TANH = {"kind": "deep", "size": 5, "activation": "tanh"}
_LEARNED = {"kind": "learned", "max_length": 17}
_DOT = {"kind": "dot"}


def _rnn(**keys: object) -> dict[str, object]:
    return {"kind": "rnn", "embedding": 5, "hidden": 7, "dropout": 0.0, **keys}


def _additive(**keys: object) -> dict[str, object]:
    return {"kind": "additive", **keys}


def _transformer(**keys: object) -> dict[str, object]:
    sizes = {"size": 14, "heads": 2, "feed_forward": 11, "layers": 2}
    return {"kind": "transformer", **sizes, "dropout": 0.0, **keys}


MODELS = {
    "rnn": _rnn(),
    "rnn-fixed-context": _rnn(attention={"kind": "none"}),
    "rnn-luong": _rnn(decoder={"kind": "luong"}),
    "rnn-luong-two-layers-local": _rnn(
        layers=2, decoder={"kind": "luong", "readout": _DEEP}, attention=_LOCAL
    ),
    "rnn-conditional": _rnn(decoder={"kind": "conditional"}),
    "rnn-conditional-two-layers-gate": _rnn(
        layers=2,
        decoder={"kind": "conditional", "readout": _TANH},
        attention=_additive(gate=True, coverage=_SUM),
        tie_embeddings="all",
    ),
    "rnn-multi-head": _rnn(attention={"kind": "multi_head", "heads": 7, "over": _additive()}),
    "rnn-dot-three-layers": _rnn(hidden=14, layers=3, encoder={"hidden": 7}, attention=_DOT),
    "rnn-hard": _rnn(attention=_additive(weights=_HARD)),
    "rnn-backward-tied-hard-gumbel": _rnn(
        encoder={"hidden": 3},
        decoder={"kind": "bahdanau", "initial_state": "tanh_backward", "readout": _TANH},
        attention={"kind": "concat", "weights": {"kind": "hard_gumbel"}},
        tie_embeddings="target",
    ),
    "rnn-unidirectional-copy-sparse-coverage": _rnn(
        layers=2,
        encoder={"bidirectional": False},
        decoder={"kind": "bahdanau", "initial_state": "copy"},
        attention=_additive(**OPTIONS["sparsemax"], **OPTIONS["sum"]),
    ),
    "rnn-monotonic-location-sensitive": _rnn(
        attention={"kind": "general", **OPTIONS["local_m"], **OPTIONS["location_sensitive"]}
    ),
    "rnn-luong-location": _rnn(
        decoder={"kind": "luong"}, attention={"kind": "location", "max_length": 5}
    ),
    "rnn-gate-penalty": _rnn(attention=_additive(dropout=0.3, gate=True, doubly_stochastic=0.7)),
    "rnn-luong-dropout-mean-penalty": _rnn(
        dropout=0.3,
        layers=2,
        decoder={"kind": "luong", "initial_state": "mean"},
        attention=_additive(doubly_stochastic=0.7),
    ),
    "lstm": _rnn(encoder={"cell": "lstm"}, decoder=_LSTM),
    "lstm-above-gru-backward-two-layers": _rnn(
        layers=2, decoder={**_LSTM, "initial_state": "tanh_backward"}
    ),
    "gru-above-lstm-fixed-context": _rnn(
        encoder={"cell": "lstm", "hidden": 3}, attention={"kind": "none"}
    ),
    "lstm-copy-cosine-coverage-two-layers": _rnn(
        layers=2,
        encoder={"cell": "lstm", "bidirectional": False},
        decoder={**_LSTM, "initial_state": "copy"},
        attention={"kind": "cosine", "coverage": _SUM},
    ),
    "lstm-luong-local-two-layers": _rnn(
        layers=2,
        encoder={"cell": "lstm"},
        decoder={**_LSTM, "kind": "luong", "readout": _DEEP},
        attention=_LOCAL,
    ),
    "lstm-conditional-tied-hard": _rnn(
        decoder={"kind": "conditional", "cell": "lstm", "readout": _TANH},
        attention=_additive(weights={"kind": "hard"}),
        tie_embeddings="all",
    ),
    "lstm-multi-head-mean": _rnn(
        layers=2,
        encoder={"cell": "lstm"},
        decoder={**_LSTM, "initial_state": "mean"},
        attention={"kind": "multi_head", "heads": 7},
    ),
    "transformer": _transformer(),
    "transformer-post-all-maps": _transformer(norm="post", attention_layer="all"),
    "transformer-learned-gelu-deep-decoder-tied": _transformer(
        layers=1, decoder_layers=3, positions=_LEARNED, activation="gelu", tie_embeddings="all"
    ),
    "transformer-no-positions-deep-encoder": _transformer(
        layers=3, decoder_layers=1, positions={"kind": "none"}
    ),
    "transformer-relative": _transformer(positions={"kind": "relative", "max_distance": 2}),
    "transformer-relative-window": _transformer(
        positions={"kind": "relative", "max_distance": 3}, self_attention_window=1
    ),
    "transformer-rotary-post": _transformer(size=28, positions={"kind": "rotary"}, norm="post"),
    "transformer-odd-tied": _transformer(
        size=7, heads=7, positions=_LEARNED, tie_embeddings="target"
    ),
}

SRC_VOCAB = TGT_VOCAB = 29


def sources(lengths: Sequence[int]) -> list[list[int]]:
    """Random sentences of these lengths, which end with eos, always the same ones."""
    drawn = torch.Generator().manual_seed(3)
    return [
        [*torch.randint(4, SRC_VOCAB, (n - 1,), generator=drawn).tolist(), EOS_ID] for n in lengths
    ]


RECORDED = (
    *("rnn", "rnn-conditional-two-layers-gate", "rnn-luong", "rnn-hard", "rnn-multi-head"),
    *("lstm-copy-cosine-coverage-two-layers", "transformer-relative"),
)
"""The models whose CUDA graphs are tested."""

UNORDERED = ("transformer-relative",)
"""Models whose bits vary on a GPU, where scatter_add adds in any order."""


def config_of(name: str, **changes: object) -> ModelConfig:
    values = {**MODELS[name], **changes}
    return TypeAdapter[ModelConfig](ModelConfig).validate_python(values)


def model_of(name: str, seed: int = 1, **changes: object) -> Seq2Seq:
    """A model of MODELS with the first weights of a seed, on the device of the tests."""
    torch.manual_seed(seed)
    return build_model(config_of(name, **changes), SRC_VOCAB, TGT_VOCAB).to(DEVICE)


def perturbed(model: Seq2Seq) -> Seq2Seq:
    """The model in fp64 and evaluation mode, with no parameter at a value that hides a fault."""
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model.eval()
