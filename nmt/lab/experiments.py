"""All experiments by name, each with a line of description. Imports nothing heavy."""

import importlib
from typing import TYPE_CHECKING, Any

from nmt.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from nmt.lab.experiment import Experiment

EXPERIMENTS = {
    "cues": "what draws the eye and what it seeks: layers with and without a query",
    "retrieval": "query, key and value as a look-up made soft; the dot product and the cosine",
    "kernel-regression": "attention as kernel regression, with a fixed and with a learned width",
    "masks": "padding, causal masks and windows: a masked place changes no output",
    "positions": "sinusoidal positions: a counter and a rotation, beside other counters",
    "equivariance": "self-attention does not know the order of its input, a full layer does",
    "complexity": "what five layers cost as sequences grow: counted, timed, in bytes",
    "architectures": "who is connected with whom in four layers, and how far a signal goes",
    "hard-soft": "one trained model decoded with soft, sampled and argmax attention",
    "scaling": "why scores are divided by the square root of d, and which attention needs it",
    "key-size": "additive against dot products over the size of keys, after training",
    "heads": "heads that look near and heads that look far, one against several",
    "captions": "pictures captioned in two languages by the decoder that translates",
}
"""Name to description; the experiment `a-b` is `EXPERIMENT` in nmt/lab/a_b.py."""


def check_name(name: str) -> None:
    """Raise ConfigError, with the nearest name, unless there is an experiment `name`."""
    if name not in EXPERIMENTS:
        near = did_you_mean(name.replace("_", "-").lower(), EXPERIMENTS)
        hint = near or f"; allowed: {', '.join(EXPERIMENTS)}"
        raise ConfigError(f"no experiment '{name}'{hint}")


def find(name: str) -> "Experiment[Any, Any]":
    """The experiment called `name`. Raises ConfigError where there is none."""
    check_name(name)
    module = importlib.import_module(f"nmt.lab.{name.replace('-', '_')}")
    experiment: Experiment[Any, Any] = module.EXPERIMENT
    return experiment
