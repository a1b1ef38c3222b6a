"""The page with a model: it computes, searches and tokenizes as nmt does; its views show it."""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training.toy import toy_config

from nmt.errors import ConfigError
from nmt.explain.explainer.page import check_explainable, page
from nmt.explain.explainer.tokenizers import tokenizer_data
from nmt.explain.explainer.weights import NumberFormat, packed_tensors
from nmt.explain.web import web_file
from nmt.models.catalog import build_model
from nmt.runs.trained_run import LoadedModel
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import train_tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID
from nmt.translation.translator import Translator
from nmt.types import SentencePair

FILES = Path(__file__).parents[2] / "data" / "starter"
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


def open_page(driver: Any, folder: Path, name: str, numbers: NumberFormat = "int8") -> Explainer:
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
    driver.get(path.as_uri())
    with torch.no_grad():  # the page reads rounded weights
        for parameter_name, tensor in list(packed_tensors(model, numbers)):
            model.state_dict()[parameter_name].copy_(tensor.values)
    return Explainer(driver, Translator(model, tokenizers, torch.device("cpu"), config.search))


TOLERANCE = 1e-4
"""The largest difference of a log-probability or weight that is allowed."""

ODD_WORDS = ["", "No no no no no no no no!", "xyz"]
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
    state = model.init_state(model.encode(ids, torch.ones_like(ids, dtype=torch.bool)))
    steps = opened.run(STEPS, text, targets, {"temperature": temperature})
    for target, step in zip(targets, steps, strict=True):
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


@pytest.mark.parametrize("name", MODELS)
def test_the_page_computes_and_searches_as_the_model(name, driver, tmp_path) -> None:
    opened = open_page(driver, tmp_path, name, "fp16" if name == "dot-backward" else "int8")
    texts = lines("en", 5)
    assert_steps_agree(opened, texts[0])
    assert_steps_agree(opened, texts[3], temperature=2.5)
    for beam in (1, 5):
        for ours in opened.translator.translate([*texts, *ODD_WORDS], search={"beam": beam}):
            ids, text, score = opened.run(SEARCH, ours.src_text, beam, [])
            assert text == ours.text
            if ours.hypotheses:
                assert tuple(ids) == ours.hypotheses[0].hypothesis.ids
                assert score == pytest.approx(ours.hypotheses[0].hypothesis.score, abs=TOLERANCE)


def test_options_of_the_search_are_those_of_the_run(driver, tmp_path) -> None:
    opened = open_page(driver, tmp_path, "bahdanau")
    for option in (
        {"max_repeats": None, "length_penalty": 0.0},
        {"no_repeat_ngram": 2, "n_best": 3},
        {"min_length": 9, "allow_unk": False, "max_length_factor": 0.5, "max_length_extra": 9},
    ):
        config = SearchConfig.model_validate({"beam": 4, **option})
        settings = config.model_dump(mode="json")
        opened.run("Object.assign(page.translator.settings, arguments[0])", settings)
        for ours in opened.translator.translate([*lines("en", 4), ODD_WORDS[-1]], search=config):
            ids, _, _ = opened.run(SEARCH, ours.src_text, 4, [])
            assert tuple(ids) == ours.hypotheses[0].hypothesis.ids, option


REFUSED: dict[str, dict[str, Any]] = {
    "model.kind": {"kind": "transformer", "size": 8, "heads": 2},
    "model.encoder.cell": {**RNN, "encoder": {"cell": "lstm"}},
    "model.attention.kind": {**RNN, "attention": {"kind": "concat"}},
    "model.attention.over.kind": {**RNN, "attention": {**HEADS, "over": {"kind": "cosine"}}},
    "model.attention.gate": {**RNN, "attention": {"kind": "additive", "gate": True}},
    "search.must": {"must": ["a"]},
    "search.mbr": {"mbr": {}},
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_the_page_does_not_compute_is_named(key, tmp_path, monkeypatch) -> None:
    if key.endswith("cell"):  # as if an extension had added the cell lstm
        monkeypatch.setattr("nmt.explain.explainer.page._CELLS", ("gru",))
    config = toy_config(tmp_path, **{key.split(".")[0]: REFUSED[key]})
    with pytest.raises(ConfigError, match=rf"cannot export {key}: got .*, allowed: "):
        check_explainable(config)


def test_a_joint_tokenizer_and_tied_weights_are_stored_once(tmp_path) -> None:
    model = MODELS["conditional-two-layers-maxout-tied"]
    config = toy_config(tmp_path, model=model, tokenizer={"kind": "word", "joint": True})
    tokenizers = train_tokenizers(config.tokenizer, pairs_of(9), "en", "fr", seed=1)
    size = len(tokenizers.src.vocab)
    loaded = LoadedModel(build_model(config.model, size, size), tokenizers, config, 1)
    text = "".join(page(loaded, "int8"))
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    names = ("encoder.embedding.weight", "decoder.embedding.weight", "decoder.output.weight")
    assert len({data["tensors"][name]["offset"] for name in names}) == 1


SCRIPTS = ("arithmetic", "search", "text", "tokenizer")
TOKENIZERS: dict[str, dict[str, Any]] = {
    "word": {"kind": "word"},
    "word-lower": {"kind": "word", "lower": True},
    "unigram": {"vocab_size": 700},
    "bpe": {"model_type": "bpe", "vocab_size": 900},
    "unigram-markup": {"vocab_size": 600, "case": "markup"},
    "bpe-markup": {"model_type": "bpe", "vocab_size": 600, "case": "markup"},
    "unigram-bytes": {"vocab_size": 800, "byte_fallback": True},
}
ODD = [
    "",
    " \t\u00a0 ",
    "I AM in Rome, McDonald! İstanbul USA: OK NASA.",
    "«Bonjour», dit-il :«Ça va?» L'été 10:30; x != y; a?b &amp; <b>ok!</b> http://x.org/?a=1!",
    "J‘aime l\u2019eau\u00a0! C\u2010est 5' ; `code!` #REF! main.c:12: error?! (vraiment?) «Oui!»",
    'Il a dit "non" ... "(peut-être)..." ¿Qué? \u200b\u0007',
    "日本語 Ω ⇧x ▁y 🙂🙂 ça e\u0301te\u0301 \u0130\u0131 ẞß ﬁn",
    "no no no no no no no no no",
]
ENCODE = """
const tokenizer = nmtExplainer.tokenizerOf(arguments[0]);
return arguments[1].map((text) => {
  const {ids, words, ends} = tokenizer.encode(text);
  return [ids, words, ends, tokenizer.decode(ids)];
});
"""


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_texts_have_the_pieces_and_words_of_the_tokenizer(kind, driver, tmp_path) -> None:
    config = toy_config(tmp_path, tokenizer={"kind": "sentencepiece", **TOKENIZERS[kind]}).tokenizer
    tokenizers = train_tokenizers(config, pairs_of(1500), "en", "fr", seed=1)
    driver.get("about:blank")
    for name in SCRIPTS:
        driver.execute_script(web_file(f"explainer/{name}.js"))
    for side, tokenizer in (("en", tokenizers.src), ("fr", tokenizers.tgt)):
        texts = [*ODD, *lines(side, 4000)[1500::19]]
        data = json.loads(json.dumps(tokenizer_data(tokenizer)))
        results = driver.execute_script(ENCODE, data, texts)
        for text, result in zip(texts, results, strict=True):
            ours = tokenizer.encode(text)
            ends = [end for _, end in ours.word_spans]
            assert result == [[*ours.ids], [*ours.words], ends, tokenizer.decode(ours.ids)], text


def test_a_forced_piece_and_a_branch_begin_the_translation(driver: Any, tmp_path: Path) -> None:
    opened = open_page(driver, tmp_path, "multi-head-mean")
    text = lines("en", 1)[0]
    prefix = opened.run(
        "document.querySelectorAll('#pieces button')[2].click();"
        "document.querySelectorAll('#candidates button')[3].click();"
        "return page.translation.prefix"
    )
    assert len(prefix) == 3
    [ours] = opened.translator.translate([text], prefixes=[prefix])
    assert tuple(opened.run("return page.best.ids")) == ours.hypotheses[0].hypothesis.ids
    opened.run("document.getElementById('tree-view').open = true; page.showTree();")
    branch = opened.run(
        "const nodes = [...document.querySelectorAll('.node.extended')]; nodes.at(-1).click();"
        "return page.translation.prefix"
    )
    assert opened.run("return page.best.ids")[: len(branch)] == branch
    opened.driver.find_element("id", "free").click()
    [ours] = opened.translator.translate([text])
    assert tuple(opened.run("return page.best.ids")) == ours.hypotheses[0].hypothesis.ids


MIDDLE = """
const part = document.getElementById(arguments[0]);
part.scrollIntoView();
const word = nmtAttention.shown(page.best.side.words[1]);
const label = [...part.querySelectorAll("text")].findLast((each) => each.textContent === word);
const {x, y, width, height} = label.getBoundingClientRect();
return {x: x + width / 2, y: y + height / 2};
"""


def test_a_tap_enter_and_a_forced_piece_lead_to_a_result(driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    opened = open_page(driver, tmp_path, "bahdanau")
    second_word = opened.run("return page.best.side.ends[0]")
    for part in ("heat", "lines"):
        opened.run("page.openStep(0)")
        for kind, points in (("touchStart", [opened.run(MIDDLE, part)]), ("touchEnd", [])):
            touch = {"type": kind, "touchPoints": points}
            driver.execute_cdp_cmd("Input.dispatchTouchEvent", touch)
        WebDriverWait(driver, 10).until(lambda _: opened.run("return page.place") == second_word)
        opened.run("page.openStep(0)")
        keys = (Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ENTER)
        driver.find_element("css selector", f"#{part} svg").send_keys(*keys)
        assert opened.run("return page.place") == second_word
        assert opened.run("return document.activeElement.parentElement.id") == "step-view"
        assert opened.run("return document.getElementById('step-view').open")
    driver.find_elements("css selector", "#candidates button")[3].click()
    assert len(opened.run("return page.translation.prefix")) == second_word + 1
    assert opened.run("return document.activeElement.id") == "free"


def test_a_moved_score_moves_all_that_follows(driver: Any, tmp_path: Path) -> None:
    opened = open_page(driver, tmp_path, "bahdanau")
    opened.run(
        "const score = document.getElementById('score'); score.value = score.max;"
        "score.dispatchEvent(new Event('input'));"
    )
    shown = opened.run(
        "const cells = [...document.querySelectorAll('#scores td:last-child .number')];"
        "return cells.map((cell) => +cell.textContent)"
    )
    place = int(opened.run("return document.getElementById('place').value"))
    assert max(shown) == shown[place]
    assert sum(shown) == pytest.approx(1, abs=0.01)
    assert shown[place] > opened.run("return page.stepView.unchanged.heads[0][arguments[0]]", place)
    opened.driver.find_element("id", "reset").click()
    assert opened.run("return document.getElementById('reset').disabled")
