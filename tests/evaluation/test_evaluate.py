"""evaluate.py with a translator that knows its answers."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from nmt.errors import DataError
from nmt.evaluation.evaluate import Scoring, bleu_by_length, evaluate, score_translations
from nmt.evaluation.metrics import corpus_bleu
from nmt.types import Encoded, EvalExample, Hypothesis, TranslatedHypothesis, Translation

ENGLISH = ["The man is in the garden.", "Summer has come!", ""]
FRENCH_PLAIN = ["L'homme est dans le jardin.", "C'est l'été qui est venu !", "Rien du tout ici ."]
FRENCH_PRINTED = ["L’homme est dans le jardin.", "C’est l’été qui est venu\u202f!", ""]


class Phrasebook:
    """Translates by looking up, as the Translator does in print; nothing for what it lacks."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        nothing = Encoded((), (), (), ())
        empty = Hypothesis((), (), 0.0, np.zeros((0, 1), np.float32), finished=False)
        answers = [[self.answers[text]] if text in self.answers else [] for text in texts]
        return [
            Translation(text, nothing, tuple(TranslatedHypothesis(a, nothing, empty) for a in some))
            for text, some in zip(texts, answers, strict=True)
        ]


PHRASEBOOK = Phrasebook(dict(zip(ENGLISH[:2], FRENCH_PRINTED[:2], strict=True)))
EXAMPLES = [EvalExample(en, (fr,)) for en, fr in zip(ENGLISH[:2], FRENCH_PLAIN[:2], strict=True)]


def test_output_in_print_is_scored_in_the_form_of_the_references():
    result = evaluate(PHRASEBOOK, EXAMPLES, Scoring("fr", n_bootstrap=0))
    assert result.scores["bleu"].score == 100
    assert result.hyp_texts == tuple(FRENCH_PLAIN[:2])
    assert result.compared.typography == "plain"
    printed = [EvalExample(e, (f,)) for e, f in zip(ENGLISH[:2], FRENCH_PRINTED[:2], strict=True)]
    result = evaluate(PHRASEBOOK, printed, Scoring("fr", n_bootstrap=0))
    assert (result.scores["bleu"].score, result.hyp_texts) == (100, tuple(FRENCH_PRINTED[:2]))


def test_translations_of_a_file_are_scored_as_those_made_here():
    scoring = Scoring("fr", n_bootstrap=0)
    read = score_translations(FRENCH_PRINTED[:2], EXAMPLES, scoring)
    evaluated = evaluate(PHRASEBOOK, EXAMPLES, scoring)
    for name in ("compared", "scores", "by_length"):
        assert getattr(read, name) == getattr(evaluated, name)
    assert (read.seconds, read.sentences_per_second) == (None, None)
    assert ["2 of 2 translations" in note for note in read.compared.notes()] == [True]
    as_is = Scoring("fr", n_bootstrap=0, as_is=True)
    read = score_translations(FRENCH_PRINTED[:2], EXAMPLES, as_is)
    assert read.hyp_texts == tuple(FRENCH_PRINTED[:2])
    assert read.scores["bleu"].score < 70
    assert (read.compared.typography, read.compared.notes()) == (None, [])


@pytest.mark.parametrize("of_refs", ["NFC", "NFD"])
def test_the_unicode_form_of_either_side_changes_no_score(of_refs):
    refs = [unicodedata.normalize(of_refs, text) for text in FRENCH_PLAIN[:2]]
    examples = [EvalExample(en, (fr,)) for en, fr in zip(ENGLISH[:2], refs, strict=True)]
    scoring = Scoring("fr", metrics=("bleu", "chrf", "ter"), n_bootstrap=0)
    for of_hyps in ("NFC", "NFD"):
        hyps = [unicodedata.normalize(of_hyps, text) for text in FRENCH_PLAIN[:2]]
        result = score_translations(hyps, examples, scoring)
        assert [metric.score for metric in result.scores.values()] == [100, 100, 0]
        is_altered = "NFD" in (of_hyps, of_refs)
        for metric in result.scores.values():
            assert metric.signature.endswith("|unicode:nfc") == is_altered
        assert bool(result.compared.notes()) == is_altered


def test_bleu_counts_tokens_of_the_target_language():
    refs = ["我喜欢吃苹果和香蕉。", "他昨天去了北京的大学。"]
    hyps = ["我喜欢吃苹果和梨子。", "他昨天去了上海的大学。"]
    examples = [EvalExample(en, (zh,)) for en, zh in zip(("one", "two"), refs, strict=True)]
    theirs = BLEU(trg_lang="zh").corpus_score(hyps, [refs]).score
    assert theirs > 50
    for lang in ("zh", "zh-CN", "zho"):
        result = score_translations(hyps, examples, Scoring(tgt_lang=lang, n_bootstrap=0))
        assert result.scores["bleu"].score == pytest.approx(theirs, abs=1e-9)
        assert "|tok:zh|" in result.scores["bleu"].signature
    assert result.by_length[0].bleu == pytest.approx(theirs, abs=1e-9)
    by_words = Scoring(tgt_lang="zh", tokenize="13a", n_bootstrap=0)
    assert score_translations(hyps, examples, by_words).scores["bleu"].score == 0


def test_an_example_without_translation_counts_as_an_empty_line():
    examples = [*EXAMPLES, EvalExample("", (FRENCH_PLAIN[2],))]
    result = evaluate(PHRASEBOOK, examples, Scoring("fr", n_bootstrap=0))
    assert result.hyp_texts[2] == ""
    assert result.scores["bleu"].score == corpus_bleu(
        [*FRENCH_PLAIN[:2], ""], [example.ref_texts for example in examples]
    )


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


def test_nothing_is_scored_without_examples():
    assert bleu_by_length(["a"], [EvalExample("", ("a",))]) == ()
    with pytest.raises(DataError, match="got no lines at all"):
        evaluate(PHRASEBOOK, [], Scoring("fr"))
