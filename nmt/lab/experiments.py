"""The names and descriptions of all experiments, without imports of heavy packages."""

import importlib
from typing import TYPE_CHECKING, Any

from nmt.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from nmt.lab.experiment import Experiment

EXPERIMENTS = {
    "cues": "what layers attend to with a query, and without a query by salience alone",
    "retrieval": "query, key and value as a soft look-up, by dot product and by cosine",
    "kernel-regression": "attention as kernel regression, with a fixed and a learned width",
    "masks": "padding masks, causal masks and windows: masked positions affect no output",
    "positions": "sinusoidal positions as a counter and as rotations, compared with other counters",
    "equivariance": "self-attention ignores the order of its input, but a dense layer does not",
    "complexity": "operations, time and memory of five layers by sequence length",
    "architectures": "the positions that four layers connect, and the length of the paths",
    "hard-soft": "trained models, each decoded with soft, sampled and argmax attention",
    "scaling": "why scores are divided by the square root of d, and which attention needs this",
    "key-size": "additive and dot-product attention by key size, after training",
    "heads": "near and distant attention with several heads, compared with one head",
    "truth": "attribution methods scored by a known alignment, by deletion and by insertion",
    "captions": "captions of pictures in two languages, by the translation models' decoder",
}
"""Descriptions by name. The experiment `a-b` is `EXPERIMENT` in nmt/lab/a_b.py."""


def find(name: str) -> "Experiment[Any, Any]":
    """Return an experiment. Raises ConfigError for an unknown name, with the nearest name."""
    if name not in EXPERIMENTS:
        near = did_you_mean(name.replace("_", "-").lower(), EXPERIMENTS)
        hint = near or f"; allowed: {', '.join(EXPERIMENTS)}"
        raise ConfigError(f"no experiment '{name}'{hint}")

    module = importlib.import_module(f"nmt.lab.{name.replace('-', '_')}")
    experiment: Experiment[Any, Any] = module.EXPERIMENT
    return experiment
