"""The page with a model inside: its JavaScript computes, searches and tokenizes as nmt does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
import torch
from explain.explainer_page import HEADS, MODELS, RNN, Explainer, lines, open_page, pairs_of
from training.toy import toy_config

from nmt.errors import ConfigError
from nmt.explain.explainer.page import check_explainable, page
from nmt.models.catalog import build_model
from nmt.ops.masks import keep_from_lengths
from nmt.runs.trained_run import LoadedModel
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import train_tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID

MISSING = browser.missing()
in_browser = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
TOLERANCE = 1e-4
"""The largest difference of a log-probability or weight that is allowed."""

ODD = ["", "No no no no no no no no!", "xyz"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.chromium(tmp_path_factory.mktemp("downloads")) as chrome:
        yield chrome


STEPS = """
const [text, ids, change] = arguments;
const {translator} = page, memory = translator.translate(text).memory;
let state = memory.first;
return ids.map((id) => {
  const out = translator.model.step(id, state, memory, change);
  state = out.state;
  return [[...out.logProbs], out.heads.map((head) => [...head]), out.scores.map((of) => [...of])];
});
"""


@torch.inference_mode()
def assert_steps_agree(opened: Explainer, text: str, temperature: float = 1.0) -> None:
    """The steps of a given translation, with weights of another temperature where that is not 1."""
    model, tokenizers = opened.translator.model, opened.translator.tokenizers
    targets = [BOS_ID, *tokenizers.tgt.encode(lines("fr", 2)[1]).ids]
    ids = torch.tensor([[*tokenizers.src.encode(text).ids, EOS_ID]])
    state = model.init_state(
        model.encode(ids, keep_from_lengths(torch.tensor([ids.shape[1]]), ids.shape[1]))
    )
    for target, step in zip(
        targets, opened.run(STEPS, text, targets, {"temperature": temperature}), strict=True
    ):
        log_probs, heads, scores = map(np.array, step)
        weights = torch.from_numpy(scores / temperature).softmax(dim=-1)
        np.testing.assert_allclose(heads, weights, atol=TOLERANCE)
        if temperature != 1:
            state = state.with_attention(weights.float().unsqueeze(0))
        out = model.step(torch.tensor([target]), state)
        state = out.state
        np.testing.assert_allclose(heads.mean(axis=0), out.weights[0], atol=TOLERANCE)
        np.testing.assert_allclose(log_probs, out.logits.log_softmax(dim=1)[0], atol=TOLERANCE)


SEARCH = """
const [text, beam, prefix] = arguments;
const translation = page.translator.translate(text, {beam, prefix});
if (!translation) return [[], "", null];
const {ids, text: written, score} = page.translator.hypothesis(translation.ends[0]);
return [ids, written, score];
"""


@in_browser
@pytest.mark.parametrize("name", MODELS)
def test_the_page_computes_and_searches_as_the_model(
    name: str, driver: Any, tmp_path: Path
) -> None:
    opened = open_page(driver, tmp_path, name, "fp16" if name == "dot-backward" else "int8")
    texts = lines("en", 8)
    assert_steps_agree(opened, texts[0])
    assert_steps_agree(opened, texts[3], temperature=2.5)
    for beam in (1, 5):
        for ours in opened.translator.translate([*texts, *ODD], search={"beam": beam}):
            ids, text, score = opened.run(SEARCH, ours.src_text, beam, [])
            assert text == ours.text
            if ours.hypotheses:
                assert tuple(ids) == ours.hypotheses[0].hypothesis.ids
                assert score == pytest.approx(ours.hypotheses[0].hypothesis.score, abs=TOLERANCE)


@in_browser
def test_options_of_the_search_are_those_of_the_run(driver: Any, tmp_path: Path) -> None:
    opened = open_page(driver, tmp_path, "bahdanau")
    options = [
        {"max_repeats": None, "length_penalty": 0.0},
        {"no_repeat_ngram": 2, "n_best": 3},
        {"min_length": 9, "allow_unk": False, "max_length_factor": 0.5, "max_length_extra": 9},
    ]
    for option in options:
        config = SearchConfig.model_validate({"beam": 4, **option})
        opened.run(
            "Object.assign(page.translator.settings, arguments[0])", config.model_dump(mode="json")
        )
        for ours in opened.translator.translate([*lines("en", 4), ODD[-1]], search=config):
            ids, _, _ = opened.run(SEARCH, ours.src_text, 4, [])
            assert tuple(ids) == ours.hypotheses[0].hypothesis.ids, option


REFUSED: dict[str, dict[str, Any]] = {
    "model.kind": {"model": {"kind": "transformer", "size": 8, "heads": 2}},
    "model.attention.kind": {"model": {**RNN, "attention": {"kind": "concat"}}},
    "model.attention.over.kind": {
        "model": {**RNN, "attention": {**HEADS, "over": {"kind": "cosine"}}}
    },
    "model.attention.gate": {"model": {**RNN, "attention": {"kind": "additive", "gate": True}}},
    "search.must": {"search": {"must": ["a"]}},
    "search.mbr": {"search": {"mbr": {}}},
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_the_page_does_not_compute_is_named(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"cannot export {key}: got .*, allowed: "):
        check_explainable(toy_config(tmp_path, **REFUSED[key]))


def test_a_joint_tokenizer_and_tied_weights_are_stored_once(tmp_path: Path) -> None:
    kind = {"kind": "word", "joint": True}
    model = MODELS["conditional-two-layers-maxout-tied"]
    config = toy_config(tmp_path, model=model, tokenizer=kind)
    pairs = pairs_of(9)
    tokenizers = train_tokenizers(config.tokenizer, pairs, "en", "fr", seed=1)
    size = len(tokenizers.src.vocab)
    loaded = LoadedModel(build_model(config.model, size, size), tokenizers, config, 1)
    text = "".join(page(loaded, "int8"))
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    names = ("encoder.embedding.weight", "decoder.embedding.weight", "decoder.output.weight")
    assert len({data["tensors"][name]["offset"] for name in names}) == 1
