"""Evaluation: test sets, typography, scores by a translator that knows its answers."""

import itertools
import json
import unicodedata
from pathlib import Path

import pytest
from documents.texts import answer
from sacrebleu.metrics.bleu import BLEU

from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.evaluation.evaluate import Scoring, bleu_by_length, evaluate, score_translations
from nmt.evaluation.examples import files_as_test_set, find_split, read_translations
from nmt.evaluation.metrics import corpus_bleu
from nmt.evaluation.score_report import EvalReport
from nmt.evaluation.typography import convert_typography, typography_of
from nmt.types import EvalExample, Translation

ENGLISH = ["The man is in the garden.", "Summer has come!"]
FRENCH_PLAIN = ["L'homme est dans le jardin.", "C'est l'été qui est venu !"]
FRENCH_PRINTED = ["L’homme est dans le jardin.", "C’est l’été qui est venu\u202f!"]


class Phrasebook:
    """Translates by looking up, as the Translator does in print; nothing for what it lacks."""

    def translate(self, texts) -> list[Translation]:
        known = {en: [fr] for en, fr in zip(ENGLISH, FRENCH_PRINTED, strict=True)}
        return [answer(text, *known.get(text, [])) for text in texts]


def examples_of(french) -> list[EvalExample]:
    return [EvalExample(en, (fr,)) for en, fr in zip(ENGLISH, french, strict=True)]


PHRASEBOOK = Phrasebook()
EXAMPLES = examples_of(FRENCH_PLAIN)
SCORING = Scoring("fr", ("bleu", "chrf"), n_bootstrap=0)


def test_output_in_print_is_scored_in_the_form_of_the_references():
    """Also output that is read from a file."""
    evaluated = evaluate(PHRASEBOOK, EXAMPLES, SCORING)
    assert (evaluated.scores["bleu"].score, evaluated.hyp_texts) == (100, tuple(FRENCH_PLAIN))
    read = score_translations(FRENCH_PRINTED, EXAMPLES, SCORING)
    for name in ("texts", "scores", "by_length"):
        assert getattr(read, name) == getattr(evaluated, name)
    assert (read.seconds, read.sentences_per_second) == (None, None)
    assert ["2 of 2 translations" in note for note in read.texts.notes()] == [True]
    printed = evaluate(PHRASEBOOK, examples_of(FRENCH_PRINTED), SCORING)
    assert (printed.scores["bleu"].score, printed.hyp_texts) == (100, tuple(FRENCH_PRINTED))
    read = score_translations(FRENCH_PRINTED, EXAMPLES, Scoring("fr", n_bootstrap=0, as_is=True))
    assert read.hyp_texts == tuple(FRENCH_PRINTED)
    assert read.scores["bleu"].score < 70
    assert (read.texts.typography, read.texts.notes()) == (None, [])


def test_the_unicode_form_of_either_side_changes_no_score():
    scoring = Scoring("fr", metrics=("bleu", "chrf", "ter"), n_bootstrap=0)
    for of_refs, of_hyps in itertools.product(("NFC", "NFD"), repeat=2):
        examples = examples_of([unicodedata.normalize(of_refs, text) for text in FRENCH_PLAIN])
        hyps = [unicodedata.normalize(of_hyps, text) for text in FRENCH_PLAIN]
        result = score_translations(hyps, examples, scoring)
        assert [metric.score for metric in result.scores.values()] == [100, 100, 0]
        is_altered = "NFD" in (of_hyps, of_refs)
        for metric in result.scores.values():
            assert metric.signature.endswith("|unicode:nfc") == is_altered
        assert bool(result.texts.notes()) == is_altered


def test_bleu_counts_tokens_of_the_target_language():
    refs = ["我喜欢吃苹果和香蕉。", "他昨天去了北京的大学。"]
    hyps = ["我喜欢吃苹果和梨子。", "他昨天去了上海的大学。"]
    examples = [EvalExample("one", (ref,)) for ref in refs]
    theirs = BLEU(trg_lang="zh").corpus_score(hyps, [refs]).score
    assert theirs > 50
    for lang in ("zh", "zh-CN", "zho"):
        result = score_translations(hyps, examples, Scoring(tgt_lang=lang, n_bootstrap=0))
        assert result.scores["bleu"].score == pytest.approx(theirs, abs=1e-9)
        assert "|tok:zh|" in result.scores["bleu"].signature
    assert result.by_length[0].bleu == pytest.approx(theirs, abs=1e-9)
    by_words = Scoring(tgt_lang="zh", tokenize="13a", n_bootstrap=0)
    assert score_translations(hyps, examples, by_words).scores["bleu"].score == 0


def test_buckets_part_at_their_edges_and_leave_none_out():
    lengths = [1, 5, 6, 10, 41, 400]
    examples = [EvalExample(" ".join(["w"] * n), ("un deux trois quatre",)) for n in lengths]
    hyps = ["un deux trois quatre"] * 3 + ["rien"] * 3
    buckets = bleu_by_length(hyps, examples)
    edges = [(b.lowest, b.highest, b.n_sentences) for b in buckets]
    assert edges == [(0, 5, 2), (6, 10, 2), (41, None, 2)]
    assert buckets[0].bleu == 100
    assert 0 < buckets[1].bleu < 100
    assert buckets[2].bleu == 0
    coarse = bleu_by_length(hyps, examples, edges=(10,))
    assert [(b.lowest, b.highest, b.n_sentences) for b in coarse] == [(0, 10, 4), (11, None, 2)]
    assert bleu_by_length(["a"], [EvalExample("", ("a",))]) == ()


def test_a_split_is_the_runs_own_or_one_of_the_corpus_it_names():
    files = SplitConfig(src=Path("en"), tgt=Path("fr"))
    data = DataConfig(corpus="multi30k-en-fr", test=files)
    assert find_split(data, "test") == files
    expected = SplitConfig(corpus="multi30k-en-fr", split="test_2017_flickr")
    named = DataConfig(train=files, test=expected.model_copy(update={"split": "test"}))
    for any_data in (data, named):
        assert find_split(any_data, "test_2017_flickr") == expected
    for name, message in (("test", "no test set"), ("dev", "got 'dev', allowed: train, valid, t")):
        with pytest.raises(ConfigError, match=message):
            find_split(DataConfig(train=files), name)


def test_every_line_has_all_its_references_unaltered(tmp_path):
    for name, text in {"en": "a\n\n", "fr": " Oui\u202f! \n\n", "fr2": "l’été\nx\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    refs = [tmp_path / "fr", tmp_path / "fr2"]
    assert files_as_test_set(tmp_path / "en", refs).examples == [
        EvalExample("a", (" Oui\u202f! ", "l’été")),
        EvalExample("", ("", "x")),
    ]
    assert [example.src_text for example in files_as_test_set(None, refs).examples] == ["", ""]
    (tmp_path / "hyp").write_text("a\n\n b\u2028c\n", encoding="utf-8")
    assert read_translations(tmp_path / "hyp", 3, "x") == ["a", "", " b\u2028c"]
    with pytest.raises(DataError, match=r"hyp has 3 lines, but the test set has 2"):
        read_translations(tmp_path / "hyp", 2, "the test set")


PLAIN = ["L'été est là !", "Qu'as-tu dit ?", "Oui."]
PRINTED = ["L’été est là\u202f!", "Qu’as-tu dit\u202f?", "Oui."]


def test_the_form_is_that_of_most_texts():
    assert typography_of(PLAIN, "fr") == "plain"
    assert typography_of([*PRINTED, *PRINTED, *PLAIN], "fr") == "printed"
    assert typography_of(["Oui."], "fr") == typography_of([], "fr") == "plain"
    # A language without rules has its apostrophe only.
    assert typography_of(["It’s here!", "Yes."], "en") == "printed"
    assert typography_of(["It's here!", "Yes."], "en") == "plain"


def test_either_form_is_written_as_either_and_no_more():
    for texts in (PLAIN, PRINTED):
        assert convert_typography("plain", texts, "fr") == PLAIN
        assert convert_typography("printed", texts, "fr") == PRINTED
    assert convert_typography("printed", ["it's 'here'!"], "en") == ["it’s 'here'!"]
    assert convert_typography("plain", ["it’s here!"], "en") == ["it's here!"]
    text = "mot?  deux\u2010trois \u00ab a\u0301\u200b \u00bb"
    assert convert_typography("plain", [text], "fr") == [text]


def test_a_report_has_translations_only_where_they_were_made(tmp_path):
    """An example without translation counts as an empty line."""
    examples = [*EXAMPLES, EvalExample("", ("Rien du tout ici .",))]
    evaluation = evaluate(PHRASEBOOK, examples, SCORING)
    refs = [example.ref_texts for example in examples]
    assert evaluation.scores["bleu"].score == corpus_bleu([*FRENCH_PLAIN, ""], refs)
    with pytest.raises(DataError, match="got no lines at all"):
        evaluate(PHRASEBOOK, [], SCORING)
    report = EvalReport("test_2016.flickr", evaluation, {}, {"checkpoint": "best"})
    assert report.save(tmp_path) == []
    path = tmp_path / "eval" / "test_2016.flickr.json"
    assert json.loads(path.read_text("utf-8")) == json.loads(json.dumps(report.as_json()))
    assert path.with_suffix(".txt").read_text("utf-8") == "\n".join([*FRENCH_PLAIN, "", ""])
    read = score_translations(FRENCH_PLAIN, EXAMPLES, SCORING)
    EvalReport("read", read, {}, {}).save(tmp_path)
    names = {path.name for path in (tmp_path / "eval").iterdir()}
    assert names == {"test_2016.flickr.json", "test_2016.flickr.txt", "read.json"}
