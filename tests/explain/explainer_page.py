"""Pages with a model of random weights, opened in a browser."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from training.toy import toy_config

from nmt.explain.explainer.page import page
from nmt.explain.explainer.weights import Numbers, rounded_model
from nmt.models.catalog import build_model
from nmt.runs.trained_run import LoadedModel
from nmt.text.tokenizer import train_tokenizers
from nmt.translation.translator import Translator
from nmt.types import SentencePair

FILES = Path(__file__).parents[2] / "data" / "starter"
CPU = torch.device("cpu")
RNN = {"kind": "rnn", "embedding": 11, "hidden": 13, "dropout": 0.0}
_DEEP = {"kind": "deep", "size": 11}
_TANH = {"kind": "deep", "size": 7, "activation": "tanh"}
HEADS = {"kind": "multi_head", "heads": 3, "size": 15}
_CHANGES: dict[str, dict[str, Any]] = {
    "bahdanau": {},
    "conditional-two-layers-maxout-tied": {
        **{"layers": 2, "tie_embeddings": "all", "attention": {"kind": "additive", "size": 5}},
        "decoder": {"kind": "conditional", "readout": _DEEP},
    },
    "luong-lstm-general-two-layers-tanh": {
        **{"layers": 2, "encoder": {"cell": "lstm", "hidden": 5}, "attention": {"kind": "general"}},
        "decoder": {"kind": "luong", "cell": "lstm", "readout": _TANH},
    },
    "dot-backward": {
        **{"hidden": 14, "encoder": {"hidden": 7}, "attention": {"kind": "dot"}},
        "decoder": {"kind": "bahdanau", "initial_state": "tanh_backward"},
    },
    "scaled-dot-lstm-copied": {
        **{"layers": 3, "encoder": {"cell": "lstm", "bidirectional": False}},
        "decoder": {"kind": "conditional", "cell": "lstm", "initial_state": "copy"},
        "attention": {"kind": "scaled_dot"},
    },
    "multi-head-mean": {
        "decoder": {"kind": "bahdanau", "initial_state": "mean"},
        "attention": {**HEADS, "bias": True},
    },
    "multi-head-additive-luong": {
        "decoder": {"kind": "luong"},
        "attention": {**HEADS, "over": {"kind": "additive", "size": 2}},
    },
}
MODELS = {name: {**RNN, **changes} for name, changes in _CHANGES.items()}


@dataclass
class Explainer:
    """A page in a browser, and a translator with the weights of the page."""

    driver: Any
    translator: Translator

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"const {{page}} = nmtExplainer; {script}", *arguments)


def lines(side: str, n: int) -> list[str]:
    return (FILES / f"train.{side}").read_text(encoding="utf-8").split("\n")[:n]


def pairs_of(n: int) -> list[SentencePair]:
    return list(itertools.starmap(SentencePair, zip(lines("en", n), lines("fr", n), strict=True)))


def open_page(driver: Any, folder: Path, name: str, numbers: Numbers = "int8") -> Explainer:
    """Open the page of a model of MODELS with random weights."""
    kind = {"kind": "word", "min_freq": 1, "joint": "tied" in name}
    search = {"max_length": 17, "length_penalty": 0.7}
    config = toy_config(folder, model=MODELS[name], tokenizer=kind, search=search)
    tokenizers = train_tokenizers(config.tokenizer, pairs_of(60), "en", "fr", seed=1)
    torch.manual_seed(3)
    model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    with torch.no_grad():  # initial weights give all pieces about the same probability
        for parameter_name, parameter in model.named_parameters():
            factor = 4 if parameter_name.startswith("decoder.output") else 1.5
            parameter.mul_(factor).add_(0.1 * torch.randn_like(parameter))
    loaded = LoadedModel(model.eval(), tokenizers, config, 7)
    path = folder / f"{name}-{numbers}.html"
    path.write_text("".join(page(loaded, numbers, lines("en", 1)[0])), encoding="utf-8")
    translator = Translator(rounded_model(model, numbers), tokenizers, CPU, config.search)
    driver.get(path.as_uri())
    assert [line["message"] for line in driver.get_log("browser")] == []
    return Explainer(driver, translator)
