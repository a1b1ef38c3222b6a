"""Markup: every mark once, well nested, whatever the attention; the source by the identity."""

import re
import time
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from translation.small import translator_of

from nmt.corpora.sources import DataConfig
from nmt.documents.markup import MarkedText, copy_predicate, extract_markup
from nmt.documents.placement import place, restore_markup, words_of
from nmt.text.placeholders import copied_tokens
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import train_tokenizers
from nmt.types import SentencePair

WORDS = st.text(st.characters(categories=["Ll", "Lu"]), min_size=1, max_size=5)
PLAIN = st.builds(lambda word, end: word + end, WORDS, st.sampled_from(["", "", "", ",", ".", "!"]))
SINGLES = st.sampled_from(["<br/>", "<img src='a.png' alt=\"x > y\">", "%s", "{0}", "http://a.org"])
SINGLES |= st.sampled_from(["<code>a b</code>", "%(name)d", "a@b.org", "<!-- c -->", "${x}"])
TAGS = st.sampled_from(["b", "i", "a href='x'", 'span class="y"', "x-y"])


def nested(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def pair(tag: str, parts: list[str]) -> str:
        return f"<{tag}>{' '.join(parts)}</{tag.split()[0]}>"

    return st.builds(pair, TAGS, st.lists(children, max_size=4))


PARTS = st.recursive(PLAIN | SINGLES, nested, max_leaves=6)
SENTENCES = st.lists(PARTS, min_size=1, max_size=5).map(" ".join)
ENDS = st.sampled_from(["", "", ".", " ?", " !"])
TRANSLATIONS = st.builds(
    lambda words, end: " ".join(words) + end, st.lists(PLAIN, max_size=8), ENDS
)


class Nesting(HTMLParser):
    """The tags and the text of HTML; raises where a tag is closed out of turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.content = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags[str(self.get_starttag_text())] += 1
        if tag != "img":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags[str(self.get_starttag_text())] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.tags[f"</{tag}>"] += 1

    def handle_comment(self, data: str) -> None:
        self.tags[data] += 1

    def handle_data(self, data: str) -> None:
        self.content += data


def placed(marked: MarkedText, text: str, links: dict[int, int], lang: str = "en") -> str:
    """Put markup into `text`, whose word j was written from source word `links[j]`."""
    sources, targets = words_of(marked.text, lang), words_of(text, lang)
    weights = np.zeros((len(targets), len(sources)))
    for target, source in links.items():
        weights[target, source] = 1
    return place(marked, sources, targets, weights)


def weights_of(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = rng.random(shape)
    if kind == "one-hot":
        return np.eye(max(1, shape[1]))[rng.integers(max(1, shape[1]), size=shape[0])]
    values = {"none": 0.0, "broken": np.where(noise < 0.3, np.nan, np.inf), "flat": 1 / shape[1]}
    return np.broadcast_to(values.get(kind, noise**8), shape).astype(np.float32)


LITERALS = re.compile(r"<code>a b</code>|%s|\{0\}|http://a\.org|%\(name\)d|a@b\.org|\$\{x\}")


@settings(max_examples=500, deadline=None)
@given(
    SENTENCES,
    TRANSLATIONS,
    st.sampled_from(["one-hot", "one-hot", "noise", "none", "broken", "flat"]),
    st.integers(0, 1000),
    st.sampled_from(["en", "fr"]),
)
def test_any_attention_places_every_mark_once(sentence, translation, kind, seed, lang) -> None:
    marked = extract_markup(sentence, "html")
    if not marked.text:
        return
    sources, targets = words_of(marked.text, lang), words_of(translation, lang)
    weights = weights_of(kind, (len(targets), len(sources)), seed)
    result = place(marked, sources, targets, weights)
    before, after = Nesting(sentence), Nesting(result)
    assert after.tags == before.tags
    assert not after.open
    assert copied_tokens(result) == copied_tokens(sentence)
    plain = Nesting(LITERALS.sub(" ", result)).content
    assert "".join(plain.split()) == "".join(translation.split())
    assert not re.search(r"[^\W\d_]<[^>]*>[^\W\d_]", LITERALS.sub(" ", result))


@settings(max_examples=300, deadline=None)
@given(sentence=SENTENCES, format=st.sampled_from(["html", "text"]), leaves=st.booleans())
def test_the_identity_restores_the_source(sentence, format, leaves) -> None:
    marked = extract_markup(sentence, format, (lambda text: True) if leaves else None)
    if marked.text:
        words = words_of(marked.text, "en")
        assert place(marked, words, words, np.eye(len(words))) == sentence


@pytest.mark.parametrize(
    ("format", "sentence", "text"),
    [
        ("text", "Click <b>here</b>, please.", "Click here, please."),
        ("text", "Open %s.", "Open."),
        ("text", "%s: not found (%d/%d)", "not found"),
        ("text", "from{0}to <br/>x", "from to x"),
        ("text", "AT&T says &File if a < b > c", "AT&T says File if a < b > c"),
        ("text", "See http://a.org/b?c=d. Or me@a.org, {see below}", "See. Or, {see below}"),
        ("text", "%1$s costs %-5.2f of %(all)d", "costs of"),
        ("text", "{{ a }} #{b} ${c} $D {d:.2f} %@ %1 %{e} is", "is"),
        ("html", "caf&eacute; &amp; <i>x</i>&nbsp;<code>a &lt; b</code>.", "café & x."),
        ("html", "<p title='a>b'>One<!-- no --> <kbd>Enter</kbd> two</p>", "One two"),
        ("html", "<b></b>x<i>y<u>z</i></u>", "xyz"),
        ("markdown", "**Bold** _it_ `co``de` ~~old~~ ***b*** x", "Bold it old b x"),
        ("markdown", '[link *a*](http://x.y/z_(a) "t") ![img](a.png) [b][c] [d]', "link a img b d"),
        ("markdown", r"\*x\* 2 a_b <http://a.b> a[^2] `` ` `` AT&amp;T", "*x* 2 a_b a AT&T"),
        ("markdown", "(`a`) or (`b` and c", "or ( and c"),
        ("text", "I saw %s %s.", "I saw."),
        ("text", "Mrs Dvořák ❤\ufe0f (of 東京→) is sad :→", "Mrs (of) is sad"),
        ("html", "<i title='→'>3&rarr;4</i> a&#233; b", "3 4 aé b"),
    ],
)
def test_the_model_reads_plain_text(format, sentence, text) -> None:
    marked = extract_markup(f" {sentence}\n", format, unread="#ř❤\ufe0f東京→")
    assert marked.text == text
    if sentence != "<b></b>x<i>y<u>z</i></u>":  # marks inside a word go around it
        words = words_of(text, "en")
        assert place(marked, words, words, np.eye(len(words))) == sentence


@pytest.mark.parametrize("format", ["text", "html", "markdown"])
def test_a_sentence_without_words_stays(format) -> None:
    translator = translator_of()
    (nothing,) = translator.translate([""])
    for sentence in ("", " ", "%s: %s", "<b></b>!", "***"):
        marked = extract_markup(sentence, format)
        assert marked.text == ""
        assert restore_markup(marked, nothing, translator.tokenizers) == sentence


@pytest.mark.parametrize(
    ("format", "sentence", "text", "links", "expected"),
    [
        ("html", "a <b>red</b> car", "une voiture rouge", "0 2 1", "une voiture <b>rouge</b>"),
        ("html", "the <b>water</b>, cold", "l'eau, froide", "0 1 2 3", "l'<b>eau</b>, froide"),
        ("html", "a <b>big <i>cat</i></b>", "un chat gros", "0 2 1", "un <b><i>chat</i> gros</b>"),
        ("html", "a <img> b c", "c b a", "2 1 0", "c <img> b a"),
        ("html", "x <b>H<sub>2</sub>O</b>", "H2O x", "1 2 3 0", "<b>H<sub>2</sub>O</b> x"),
        ("html", "<b>no</b>", "a & b", "0 - 0", "<b>a &amp; b</b>"),
        ("html", "two</b> one <b>three", "three one two", "2 1 0", "three one two</b> <b>"),
        ("text", "Open %s!", "Ouvrez\u202f!", "0 1", "Ouvrez %s\u202f!"),
        ("text", "the file {0} is", "est le fichier", "2 0 1", "{0} est le fichier"),
        ("text", "the {0} is here", "c'est ici", "0 1 2", "{0} c'est ici"),
        ("text", "E&xit now", "Quitter ici", "0 1", "&Quitter ici"),
        ("markdown", r"a \* b", "b * a", "2 1 0", r"b \* a"),
    ],
)
def test_marks_follow_their_words(format, sentence, text, links, expected) -> None:
    """Of each word of the translation, `links` has the word of the source; `-` is none."""
    words = {j: int(i) for j, i in enumerate(links.split()) if i != "-"}
    assert placed(extract_markup(sentence, format), text, words, "fr") == expected


def test_placeholders_stay_if_the_model_learned_to_copy_them() -> None:
    pairs = [SentencePair("the %s cat", "le %s chat")]
    tokenizers = train_tokenizers(SentencePieceConfig(), pairs, "en", "fr", seed=1)
    assert copy_predicate(tokenizers, DataConfig()) is None
    leaves = copy_predicate(tokenizers, DataConfig.model_validate({"noise": {"copies": 0.1}}))
    assert extract_markup("the %s cat {0}", "text", leaves).text == "the %s cat"


def test_restore_reads_the_attention_of_a_translation() -> None:
    translator = translator_of()
    texts = ["<b>He</b> is %s tired.", "She isn't <i>here</i>!", "Where?", "I <u>see</u> dogs"]
    marked = [extract_markup(text, "html") for text in texts]
    translations = translator.translate([m.text for m in marked], n_best=2, search={"beam": 2})
    for text, m, translation in zip(texts, marked, translations, strict=True):
        for rank, hypothesis in enumerate(translation.hypotheses):
            result = restore_markup(m, translation, translator.tokenizers, rank)
            assert copied_tokens(result) == copied_tokens(text)
            plain = "".join(Nesting(result.replace("%s", "")).content.split())
            assert plain == "".join(hypothesis.text.split())
    copy = extract_markup("<b>cats</b> x", "html")
    [empty] = translator.force([copy.text], [""])
    assert restore_markup(copy, empty, translator.tokenizers) == "<b></b>"


HOSTILE = ["<", "*", "{", "%", "<a ", '="<a "', "`", "(`", "[", "](", "[a](", "<!--", "&", "<b>"]
HOSTILE += ["</b>", "a@", "www.", "{0} ", "%%", "*a", "<b>x</b> ", "\\", "\x00", "\ud800", "_"]
HOSTILE += ["~~", "http://", "ař", "→", ":-"]


@pytest.mark.parametrize("mark", HOSTILE)
def test_time_is_linear_in_hostile_text(mark) -> None:
    for format in ("text", "html", "markdown"):
        started = time.process_time()
        marked = extract_markup(mark * (30_000 // len(mark)), format, unread="ř→")
        assert time.process_time() - started < 5
        if marked.text:
            placed(marked, "a b c", {0: 0})
