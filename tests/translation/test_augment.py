"""Augmentation: the pairs of each translation, and folders that interruptions do not change."""

import functools
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import disk
import pytest
from conftest import MakeTranslation
from translation.small import PAIRS, TEXTS, translator_of

from nmt.corpora.readers import PairFile, reader_of
from nmt.errors import ConfigError, DataError
from nmt.search.search_config import SamplingConfig, SearchConfig
from nmt.storage.atomic import lock
from nmt.text.vocabulary import UNK_ID
from nmt.translation import augment as module
from nmt.translation.augment import PairRules, augment
from nmt.translation.reranking import Reranker
from nmt.translation.translator import Translator
from nmt.types import EvalExample, SentencePair, Translation

EXAMPLES = [EvalExample(text, ()) for text in dict.fromkeys(TEXTS)]
N_PARTS = 3
SEARCH = SearchConfig(beam=4, n_best=3)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight texts have three parts."""
    monkeypatch.setattr(module, "PART_TEXTS", 3)


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A translator whose translations of a text are computed once."""
    cached = translator_of(search=SEARCH, seed=1)
    translate = functools.cache(cached.translate)

    def stream(texts: Iterator[str], prefix: str = "") -> Iterator[Translation]:
        return iter(translate(tuple(texts)))

    cached.translate_stream = stream  # type: ignore[method-assign, assignment]
    return cached


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def read(folder: Path) -> list[SentencePair]:
    files = sorted(folder.glob("part-*.tsv"))
    assert len(files) == N_PARTS
    return [pair for f in files for pair in reader_of(f).stream(PairFile(f, ("en", "fr")))]


@pytest.mark.parametrize(
    "search",
    [
        SearchConfig(beam=1),
        SearchConfig(beam=5, n_best=4),
        SearchConfig(sampling=SamplingConfig(temperature=2.0), n_best=3),
    ],
)
@pytest.mark.parametrize("back", [False, True])
def test_pairs_are_those_of_translate(search: SearchConfig, back: bool, tmp_path: Path) -> None:
    translator = translator_of(search=search, seed=4)
    if search.n_best == 4:
        translator.rerankers = (Reranker(translator_of(seed=6, backward=True), True, 0.5),)
    rules = PairRules(back, max_ratio=None)
    n_pairs, dropped = augment(translator, EXAMPLES, tmp_path, rules)
    expected = []
    for translation in translator.translate([example.src_text for example in EXAMPLES]):
        outputs = [output for output in translation.hypotheses if output.text.strip()]
        outputs = [output for output in outputs if output.hypothesis.finished]
        texts = [output.text for output in outputs if UNK_ID not in output.hypothesis.ids]
        expected += [SentencePair(translation.src_text, text) for text in dict.fromkeys(texts)]
    if back:
        expected = [SentencePair(pair.tgt_text, pair.src_text) for pair in expected]
    assert read(tmp_path) == expected
    assert n_pairs == len(expected) > 0
    assert n_pairs + dropped.total() == 1 + (len(EXAMPLES) - 1) * search.n_best
    plan = json.loads((tmp_path / "augment.json").read_text(encoding="utf-8"))
    assert (plan["pairs"], plan["dropped"]) == (n_pairs, dict(dropped))
    assert plan["rules"]["back"] == back
    assert plan["search"]["n_best"] == search.n_best


def test_each_text_has_its_known_fault(make_translation: MakeTranslation) -> None:
    """The first of equal texts is kept; texts are equal if models read them alike."""
    targets = ("le chat dort", "l' été", "", "un\tchat", "le chat dort", "l’ été", "a" * 46, "is")
    translation = make_translation("the cat is", targets)
    unfinished = make_translation("the cat is", ("un chat",), finished=False).hypotheses[0]
    unknown = make_translation("the cat is", ("le loup",)).hypotheses[0]
    hypothesis = replace(unknown.hypothesis, ids=(UNK_ID, *unknown.hypothesis.ids[1:]))
    unknown = replace(unknown, hypothesis=hypothesis)
    hypotheses = (*translation.hypotheses, unfinished, unknown)
    translation = replace(translation, hypotheses=hypotheses)
    pairs = list(PairRules(max_ratio=3.5).pairs(translation, ["l'  été"], ("en", "fr")))
    faults = [None, "same as reference", "empty", "tab", "duplicate", "same as reference"]
    assert [f for *_, f in pairs] == [*faults, "length ratio", None, "unfinished", "unknown piece"]
    assert [pair.tgt_text for pair, *_ in pairs] == [output.text for output in hypotheses]
    scores = [output.hypothesis.score for output in hypotheses]
    assert pairs[7][1] == f"forward rank 8 score {scores[7]:.4f}"
    rules = PairRules(back=True, max_ratio=None, min_score=scores[0])
    swapped = list(rules.pairs(translation, (), ("en", "fr")))
    assert [(p.src_text, p.tgt_text) for p, *_ in swapped] == [
        (output.text, "the cat is") for output in hypotheses
    ]
    low = [i for i, (*_, fault) in enumerate(swapped) if fault == "low score"]
    assert low == [i for i, score in enumerate(scores[:8]) if score < scores[0] and i != 3]
    assert swapped[0][1:] == (f"back rank 1 score {scores[0]:.4f}", None)


def test_the_references_of_a_text_are_not_written(translator: Translator, tmp_path: Path) -> None:
    best = [translation.text for translation in translator.translate([p.src_text for p in PAIRS])]
    examples = [EvalExample(pair.src_text, (text,)) for pair, text in zip(PAIRS, best, strict=True)]
    _, dropped = augment(translator, examples, tmp_path)
    assert dropped["same as reference"] > 0
    sources = {example.src_text: example.ref_texts for example in examples}
    for path in sorted(tmp_path.glob("part-*.tsv")):
        for pair in reader_of(path).stream(PairFile(path, ("en", "fr"))):
            assert pair.tgt_text not in sources[pair.src_text]


def test_texts_with_control_characters_stay_one_line(
    translator: Translator, tmp_path: Path
) -> None:
    texts = ["He\tis tired.", "He\nis tired.", "He\ris tired.", "He\u2028is tired."]
    n_pairs, dropped = augment(translator, [EvalExample(t, ()) for t in texts], tmp_path)
    assert dropped["tab"] == 3
    assert dropped["damaged characters"] == 3
    files = sorted(tmp_path.glob("part-*.tsv"))
    pairs = [pair for f in files for pair in reader_of(f).stream(PairFile(f, ("en", "fr")))]
    assert len(pairs) == n_pairs > 0
    assert {pair.src_text for pair in pairs} == {*texts[2:]}


def test_a_killed_call_continues_to_the_same_bytes(translator: Translator, tmp_path: Path) -> None:
    """After any call that changes the folder, whatever the disk had flushed by then."""
    folder = tmp_path / "unbroken"
    folder.mkdir()
    recorder = disk.Recorder(folder)
    with recorder.recording():
        result = augment(translator, EXAMPLES, folder)
    expected, chance = content(folder), random.Random(1)
    assert len(expected) == 1 + 2 * N_PARTS
    assert any(name.startswith("open") for name, *_ in recorder.calls)
    n_translated = []

    def counted(translations: Iterator[Translation], count: int) -> Iterator[Translation]:
        n_translated.append(count)
        return translations

    for n_calls in range(len(recorder.calls) + 1):
        for keep in {"all", ("nothing", "some", "all")[n_calls % 3]}:
            cut = tmp_path / f"{n_calls}-{keep}"
            recorder.cut(n_calls, chance, keep, cut)
            assert augment(translator, EXAMPLES, cut, progress=counted) == result
            assert content(cut) == expected
    assert {*n_translated} == {8, 5, 2, 0}  # the texts of missing parts only


def test_an_error_while_translating_keeps_written_parts(
    translator: Translator, tmp_path: Path
) -> None:
    def stopped(translations: Iterator[Translation], count: int) -> Iterator[Translation]:
        yield from (next(translations) for _ in range(5))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        augment(translator, EXAMPLES, tmp_path / "a", progress=stopped)
    assert [path.name for path in (tmp_path / "a").glob("part-*")] == ["part-00001.tsv"]
    assert augment(translator, EXAMPLES, tmp_path / "a") == augment(
        translator, EXAMPLES, tmp_path / "b"
    )
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_another_plan_is_refused_until_forced(translator: Translator, tmp_path: Path) -> None:
    augment(translator, EXAMPLES, tmp_path)
    before = content(tmp_path)
    others = {
        "search.beam": (translator_of(search=SearchConfig(beam=5, n_best=3), seed=1), {}),
        "models": (translator_of(search=SEARCH), {}),
        "texts.count": (translator, {"texts": EXAMPLES[:-1]}),
        "texts.sha256": (translator, {"texts": [*EXAMPLES[:-1], EvalExample("Is", ("Est",))]}),
        "rules.back": (translator, {"rules": PairRules(back=True)}),
    }
    for key, (other, changes) in others.items():
        arguments = {"texts": EXAMPLES, "out": tmp_path, **changes}
        with pytest.raises(ConfigError, match=rf"begun with another value of {key} \("):
            augment(other, **arguments)  # type: ignore[arg-type]
        assert content(tmp_path) == before
    batched = translator_of(search=SEARCH.model_copy(update={"batch_size": 2}), seed=1)
    augment(batched, EXAMPLES, tmp_path)  # a batch changes no translation but by rounding
    assert content(tmp_path) == before
    (tmp_path / "part-00004.tsv").touch()
    augment(translator, EXAMPLES[:3], tmp_path, force=True)
    assert {*content(tmp_path)} == {"augment.json", "dropped-00001.tsv", "part-00001.tsv"}
    (tmp_path / "part-mine.tsv").write_text("precious")
    augment(translator, EXAMPLES, tmp_path, force=True)
    assert content(tmp_path)["part-mine.tsv"] == b"precious"


def test_a_folder_of_something_else_is_refused(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "part-00001.tsv").write_text("precious")
    for force in (False, True):
        with pytest.raises(DataError, match=r"has files, but no augment\.json"):
            augment(translator, EXAMPLES, tmp_path, force=force)
    assert content(tmp_path) == {"part-00001.tsv": b"precious"}
    with pytest.raises(DataError, match="no text to translate"):
        augment(translator, [], tmp_path / "new")
    with pytest.raises(ConfigError, match=r"`max_ratio`: got 0\.5, allowed: at least 1"):
        augment(translator, EXAMPLES, tmp_path / "new", PairRules(max_ratio=0.5))
    assert not (tmp_path / "new").exists()


def test_one_process_writes_at_a_time(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / ".tmp-augment.json").touch()  # killed before the plan was written
    with (tmp_path / "lock").open("a") as stream:
        lock(stream.fileno())
        with pytest.raises(DataError, match="another process writes there"):
            augment(translator, EXAMPLES, tmp_path)
    assert augment(translator, EXAMPLES, tmp_path)[0] > 0


def test_counts_are_of_all_parts(translator: Translator, tmp_path: Path) -> None:
    n_pairs, dropped = augment(translator, EXAMPLES, tmp_path)
    lines = {name: data.decode().splitlines() for name, data in content(tmp_path).items()}
    assert n_pairs == sum(len(lines[name]) for name in lines if name.startswith("part"))
    reasons = [line for name in lines if name.startswith("dropped") for line in lines[name]]
    assert dropped == Counter(line.split("\t")[0] for line in reasons)
