"""Augmentation: the pairs of each translation, and folders that interruptions do not change."""

import functools
import json
import random
from collections import Counter
from dataclasses import replace

import disk
import pytest
from translation.small import TEXTS, translator_of

from nmt.corpora.readers import PairFile, reader_of
from nmt.errors import ConfigError, DataError
from nmt.search.search_config import SamplingConfig, SearchConfig
from nmt.storage.atomic import lock
from nmt.text.vocabulary import UNK_ID
from nmt.translation import augment as module
from nmt.translation.augment import PairRules, augment
from nmt.translation.reranking import Reranker
from nmt.types import EvalExample, SentencePair

EXAMPLES = [EvalExample(text, ()) for text in dict.fromkeys(TEXTS)]
SEARCH = SearchConfig(beam=4, n_best=3)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight texts have three parts."""
    monkeypatch.setattr(module, "PART_TEXTS", 3)


@pytest.fixture(scope="module")
def translator():
    """A translator whose translations of a text are computed once."""
    cached = translator_of(search=SEARCH, seed=1)
    translate = functools.cache(cached.translate)

    def stream(texts, prefix: str = ""):
        return iter(translate(tuple(texts)))

    cached.translate_stream = stream  # type: ignore[method-assign, assignment]
    return cached


def content(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def read(folder) -> list[SentencePair]:
    files = sorted(folder.glob("part-*.tsv"))
    return [pair for f in files for pair in reader_of(f).stream(PairFile(f, ("en", "fr")))]


@pytest.mark.parametrize(
    ("search", "back"),
    [
        (SearchConfig(beam=1), False),
        (SearchConfig(beam=4, n_best=3, max_length=20), True),
        (SearchConfig(sampling=SamplingConfig(temperature=2.0), n_best=3), False),
    ],
)
def test_pairs_are_those_of_translate(search: SearchConfig, back: bool, tmp_path) -> None:
    """But for references; those dropped are written with their reasons."""
    translator = translator_of(search=search, seed=4)
    if back:
        translator.rerankers = (Reranker(translator_of(seed=6, backward=True), True, 0.5),)
    translations = translator.translate([example.src_text for example in EXAMPLES])
    refs = [(t.text,) if i % 2 == 0 else () for i, t in enumerate(translations)]
    examples = [EvalExample(t.src_text, ref) for t, ref in zip(translations, refs, strict=True)]
    rules = PairRules(back, max_ratio=None)
    n_pairs, dropped = augment(translator, examples, tmp_path, rules)
    expected = []
    for translation, ref in zip(translations, refs, strict=True):
        outputs = [h for h in translation.hypotheses if h.text.strip() and h.hypothesis.finished]
        texts = [output.text for output in outputs if UNK_ID not in output.hypothesis.ids]
        pairs = [(translation.src_text, text) for text in dict.fromkeys(texts) if text not in ref]
        expected += [SentencePair(*(pair[::-1] if back else pair)) for pair in pairs]
    assert read(tmp_path) == expected
    assert n_pairs == len(expected) > 0
    assert n_pairs + dropped.total() == 1 + (len(EXAMPLES) - 1) * search.n_best
    assert dropped["same as reference"] > 0
    lines = [line for f in tmp_path.glob("dropped-*") for line in f.read_text("utf-8").splitlines()]
    assert dropped == Counter(line.split("\t")[0] for line in lines)
    plan = json.loads((tmp_path / "augment.json").read_text(encoding="utf-8"))
    assert (plan["pairs"], plan["dropped"]) == (n_pairs, dict(dropped))
    assert plan["rules"]["back"] == back
    assert plan["search"]["n_best"] == search.n_best


def test_each_text_has_its_known_fault(make_translation) -> None:
    """The first of equal texts is kept; texts are equal if models read them alike."""
    targets = ("le chat dort", "l' été", "", "un\tchat", "le chat dort", "l’ été", "a" * 46, "is")
    translation = make_translation("the cat is", targets)
    first = translation.hypotheses[0]
    others = (
        replace(first, text=text, hypothesis=replace(first.hypothesis, **change))
        for text, change in (("un chat", {"finished": False}), ("le loup", {"ids": (UNK_ID, 3)}))
    )
    hypotheses = (*translation.hypotheses, *others)
    translation = replace(translation, hypotheses=hypotheses)
    pairs = list(PairRules(max_ratio=3.5).pairs(translation, ["l'  été"], ("en", "fr")))
    faults = [None, "same as reference", "empty", "tab", "duplicate", "same as reference"]
    assert [f for *_, f in pairs] == [*faults, "length ratio", None, "unfinished", "unknown piece"]
    assert [pair.tgt_text for pair, *_ in pairs] == [output.text for output in hypotheses]
    scores = [output.hypothesis.score for output in hypotheses]
    assert pairs[7][1] == f"forward rank 8 score {scores[7]:.4f}"
    rules = PairRules(back=True, max_ratio=None, min_score=scores[0])
    swapped = list(rules.pairs(translation, (), ("en", "fr")))
    expected = [SentencePair(output.text, "the cat is") for output in hypotheses]
    assert [pair for pair, *_ in swapped] == expected
    low = [i for i, (*_, fault) in enumerate(swapped) if fault == "low score"]
    assert low == [i for i, score in enumerate(scores[:8]) if score < scores[0] and i != 3]
    assert swapped[0][1:] == (f"back rank 1 score {scores[0]:.4f}", None)


def test_texts_with_control_characters_stay_one_line(translator, tmp_path) -> None:
    texts = ["He\tis tired.", "He\nis tired.", "He\ris tired.", "He\u2028is tired."]
    n_pairs, dropped = augment(translator, [EvalExample(t, ()) for t in texts], tmp_path)
    assert dropped["tab"] == dropped["damaged characters"] == 3
    pairs = read(tmp_path)
    assert len(pairs) == n_pairs > 0
    assert {pair.src_text for pair in pairs} == {*texts[2:]}


def test_a_killed_call_continues_to_the_same_bytes(translator, tmp_path) -> None:
    """After any call that changes the folder, whatever the disk had flushed by then."""
    folder = tmp_path / "unbroken"
    folder.mkdir()
    recorder = disk.Recorder(folder)
    with recorder.recording():
        result = augment(translator, EXAMPLES, folder)
    expected, chance = content(folder), random.Random(1)
    assert len(expected) == 7  # augment.json and two files of each part
    assert any(name.startswith("open") for name, *_ in recorder.calls)
    n_translated = []

    def counted(translations, count: int):
        n_translated.append(count)
        return translations

    for n_calls in range(len(recorder.calls) + 1):
        for keep in {"all", ("nothing", "some", "all")[n_calls % 3]}:
            cut = tmp_path / f"{n_calls}-{keep}"
            recorder.cut(n_calls, chance, keep, cut)
            assert augment(translator, EXAMPLES, cut, progress=counted) == result
            assert content(cut) == expected
    assert {*n_translated} == {8, 5, 2, 0}  # the texts of missing parts only


def test_an_error_while_translating_keeps_written_parts(translator, tmp_path) -> None:
    def stopped(translations, count: int):
        yield from (next(translations) for _ in range(5))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        augment(translator, EXAMPLES, tmp_path / "a", progress=stopped)
    assert [path.name for path in (tmp_path / "a").glob("part-*")] == ["part-00001.tsv"]
    results = [augment(translator, EXAMPLES, tmp_path / name) for name in "ab"]
    assert results[0] == results[1]
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_another_plan_is_refused_until_forced(translator, tmp_path) -> None:
    augment(translator, EXAMPLES, tmp_path)
    before = content(tmp_path)
    others = {
        "search.beam": (translator_of(search=SearchConfig(beam=5, n_best=3), seed=1), {}),
        "models": (translator_of(search=SEARCH), {}),
        "texts.sha256": (translator, {"texts": [*EXAMPLES[:-1], EvalExample("Is", ("Est",))]}),
        "rules.back": (translator, {"rules": PairRules(back=True)}),
    }
    for key, (other, changes) in others.items():
        arguments = {"texts": EXAMPLES, "out": tmp_path, **changes}
        with pytest.raises(ConfigError, match=rf"begun with a different value of {key} \("):
            augment(other, **arguments)
        assert content(tmp_path) == before
    batched = translator_of(search=SEARCH.model_copy(update={"batch_size": 2}), seed=1)
    augment(batched, EXAMPLES, tmp_path)  # a batch changes no translation but by rounding
    assert content(tmp_path) == before
    (tmp_path / "part-00004.tsv").touch()
    augment(translator, EXAMPLES[:3], tmp_path, force=True)
    assert {*content(tmp_path)} == {"augment.json", "dropped-00001.tsv", "part-00001.tsv"}


def test_a_folder_in_use_or_of_something_else_is_refused(translator, tmp_path) -> None:
    (tmp_path / "part-00001.tsv").write_text("precious")
    for force in (False, True):
        with pytest.raises(DataError, match=r"has files, but no augment\.json"):
            augment(translator, EXAMPLES, tmp_path, force=force)
    assert content(tmp_path) == {"part-00001.tsv": b"precious"}
    with pytest.raises(DataError, match="no text to translate"):
        augment(translator, [], tmp_path / "new")
    with pytest.raises(ConfigError, match=r"`max_ratio`: got 0\.5, allowed: at least 1"):
        augment(translator, EXAMPLES, tmp_path / "new", PairRules(max_ratio=0.5))
    new = tmp_path / "new"
    assert not new.exists()
    new.mkdir()
    (new / ".tmp-augment.json").touch()  # killed before the plan was written
    with (new / "lock").open("a") as stream:
        lock(stream.fileno())
        with pytest.raises(DataError, match="another process writes there"):
            augment(translator, EXAMPLES, new)
    assert augment(translator, EXAMPLES, new)[0] > 0
