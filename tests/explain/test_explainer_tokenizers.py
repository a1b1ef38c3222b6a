"""The tokenizers of the page with a model: ids, words and texts are those of nmt.text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from explain.explainer_page import lines, pairs_of
from training.toy import toy_config

from nmt.explain.explainer.tokenizers import tokenizer_data
from nmt.explain.web import web_file
from nmt.text.tokenizer import train_tokenizers

MISSING = browser.missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
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


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.chromium(tmp_path_factory.mktemp("downloads")) as chrome:
        for name in SCRIPTS:
            chrome.execute_script(web_file(f"explainer/{name}.js"))
        yield chrome


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_texts_have_the_pieces_and_words_of_the_tokenizer(
    kind: str, driver: Any, tmp_path: Path
) -> None:
    config = toy_config(tmp_path, tokenizer={"kind": "sentencepiece", **TOKENIZERS[kind]}).tokenizer
    tokenizers = train_tokenizers(config, pairs_of(1500), "en", "fr", seed=1)
    for side, tokenizer in (("en", tokenizers.src), ("fr", tokenizers.tgt)):
        texts = [*ODD, *lines(side, 4000)[1500::7]]
        data = json.loads(json.dumps(tokenizer_data(tokenizer)))
        results = driver.execute_script(ENCODE, data, texts)
        for text, (ids, words, ends, decoded) in zip(texts, results, strict=True):
            ours = tokenizer.encode(text)
            assert tuple(ids) == ours.ids, text
            assert tuple(words) == ours.words, text
            assert tuple(ends) == tuple(end for _, end in ours.word_spans), text
            assert decoded == tokenizer.decode(ids), text
