"""metrics.py: values worked out by hand, and the sacrebleu command line's own answers."""

import math
import subprocess
import sys
from typing import get_args

import pytest
from evaluation.scores import score

from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import METRICS, PAIRED, corpus_bleu
from nmt.types import MetricName, rank_of

# Two sentences by hand. Hypothesis 1, "the cat sat on the mat" (6 words), against
# "the cat sat on a mat": 1-grams 5/6, 2-grams 3/5, 3-grams 2/4, 4-grams 1/3. Hypothesis 2,
# "a dog barks at me" (5), equals its reference but for one word more there ("now"):
# 5/5, 4/4, 3/3, 2/2. Together 10/11, 7/9, 5/7, 3/5; 11 words against 12.
HYPS = ["the cat sat on the mat", "a dog barks at me"]
REFS = [("the cat sat on a mat",), ("a dog barks at me now",)]
BY_HAND = 100 * math.exp(1 - 12 / 11) * (10 / 11 * 7 / 9 * 5 / 7 * 3 / 5) ** 0.25

# A set large enough for an interval of some width: every third line is spoilt.
MANY_REFS = [f"le chat numéro {i} dort sur le tapis {i} de la maison ." for i in range(90)]
ONE_EACH = [(ref,) for ref in MANY_REFS]
MANY_HYPS = [
    line.replace("dort", "court").replace("la maison", "l' hôtel") if i % 3 == 0 else line
    for i, line in enumerate(MANY_REFS)
]


def test_bleu_equals_the_computation_by_hand():
    assert score("bleu", HYPS, REFS, "fr").score == pytest.approx(BY_HAND, abs=1e-9)
    assert corpus_bleu(HYPS, REFS) == pytest.approx(BY_HAND, abs=1e-9)


def test_more_references_count_for_their_lines_only():
    # With "on the mat" among line 1's references: 1-grams 5/6 still ("the" is once in either
    # reference and twice in the hypothesis), 2-grams 5/5, 3-grams 3/4 ("sat on the" is not
    # there), 4-grams 1/3. Line 2 as above: its one-word reference adds nothing to the n-grams
    # and is further from 5 words than 6 is.
    refs = [("the cat sat on a mat", "he lay on the mat today"), ("a dog barks at me now", "dog")]
    by_hand = 100 * math.exp(1 - 12 / 11) * (10 / 11 * 9 / 9 * 6 / 7 * 3 / 5) ** 0.25
    assert score("bleu", HYPS, refs, "fr").score == pytest.approx(by_hand, abs=1e-9)
    # A missing second reference is no empty one, whose length would be the closest.
    hyps, refs = ["the cat sat on a mat", "yes"], [("the cat sat on a mat", "a cat"), ("yes sir",)]
    result = score("bleu", hyps, refs, "fr")
    assert result.score == pytest.approx(100 * math.exp(1 - 8 / 7), abs=1e-9)
    assert result.signature.startswith("nrefs:var|")


@pytest.mark.parametrize("metric", PAIRED)
def test_the_best_and_the_worst_are_the_ends_of_the_scale(metric):
    best, worst = (0.0, 100.0) if metric == "ter" else (100.0, 0.0)
    result = score(metric, MANY_REFS, ONE_EACH, "fr")
    assert result.score == best
    assert (result.low, result.high) == (pytest.approx(best), pytest.approx(best))
    result = score(metric, ["", "x y z"], [("un chat",), ("a b c",)], "fr")
    assert (result.score, result.low, result.high) == (worst, worst, worst)


def test_each_metric_has_its_name_and_knows_its_best_score():
    assert set(get_args(MetricName)) == {*METRICS, "loss"}
    assert rank_of("ter", 0.0) > rank_of("ter", 10.0)
    assert rank_of("bleu", 30.0) > rank_of("bleu", 29.0)


def test_case_and_apostrophes_count_or_the_metric_says_so():
    upper = [(ref.upper(),) for ref in MANY_REFS]
    assert score("bleu-lc", MANY_REFS, upper, "fr").score == 100
    assert score("bleu-lc", MANY_HYPS, upper, "fr") == score("bleu-lc", MANY_HYPS, ONE_EACH, "fr")
    assert corpus_bleu(["le chat dort bien ici"], [("Le chat dort bien ici",)]) < 100
    assert corpus_bleu(["l'été est court cette année"], [("l’été est court cette année",)]) < 100


@pytest.mark.parametrize(
    ("metrics", "flags"),
    [
        (("bleu", "chrf", "ter"), ["-m", "bleu", "chrf", "ter"]),
        (("bleu-lc",), ["-m", "bleu", "-lc"]),
        (("chrf++",), ["-m", "chrf", "--chrf-word-order", "2"]),
    ],
)
def test_score_interval_and_signature_are_sacrebleus(metrics, flags, tmp_path):
    (tmp_path / "ref").write_text("\n".join(MANY_REFS) + "\n", encoding="utf-8")
    (tmp_path / "hyp").write_text("\n".join(MANY_HYPS) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", *flags]
    command += ["--confidence", "-w", "4", "--format", "text"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    for metric, line in zip(metrics, answer.decode().splitlines(), strict=True):
        result = score(metric, MANY_HYPS, ONE_EACH, "fr")
        mean, half = (result.high + result.low) / 2, (result.high - result.low) / 2
        assert half > 0.5
        name = result.name.removesuffix("-lc")
        expected = f"{name}|{result.signature} = {result.score:.4f} (μ = {mean:.4f} ± {half:.4f})"
        assert line.strip().startswith(expected)


def test_the_interval_surrounds_the_score_and_is_reproducible():
    first, again = (score("bleu", MANY_HYPS, ONE_EACH, "fr") for _ in range(2))
    assert first == again
    assert first.low < first.score < first.high
    assert "|bs:1000|seed:12345|" in first.signature
    result = score("bleu", HYPS, REFS, "fr", n_bootstrap=0)
    assert (result.low, result.high, result.n_bootstrap) == (None, None, 0)
    assert "bs:" not in result.signature
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in result.signature
    hyps = [*MANY_REFS[:39], "rien"]
    assert score("chrf", hyps, ONE_EACH[:40], "fr", n_bootstrap=100).high <= 100  # the scale's end


@pytest.mark.parametrize("metric", ["chrf", "ter"])
def test_resamples_without_counts_are_part_of_the_interval(metric):
    """Where every line of a resample is empty, sacreBLEU scores in another type of number."""
    result = score(
        metric, ["", "le chat", "z"], [("",), ("le chat",), ("",)], "fr", n_bootstrap=100
    )
    assert result.low < result.score
    assert result.low < result.high


@pytest.mark.parametrize(
    ("hyps", "refs", "message"),
    [
        (["a"], [("a",), ("b",)], "got 1 translations for 2 lines"),
        ([], [], "got no lines at all"),
        (["a", "b"], [("a",), ()], "line 2 has no reference"),
    ],
)
def test_what_cannot_be_scored_is_refused(hyps, refs, message):
    with pytest.raises(DataError, match=message):
        score("bleu", hyps, refs, "fr")


@pytest.mark.parametrize("seed", ["abc", "-1"])
def test_a_seed_of_the_bootstrap_that_is_none_is_one_line(seed, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    with pytest.raises(ConfigError, match=f"SACREBLEU_SEED: got '{seed}', allowed: a whole"):
        score("bleu", HYPS, REFS, "fr")


@pytest.mark.parametrize("lang", ["FR", "fr-CA", "fr_CA"])
@pytest.mark.parametrize("metric", ["bleu", "multi30k"])
def test_a_language_is_known_by_its_code_however_it_is_written(metric, lang):
    """sacremoses parts `l'` from its noun in French only, and has no language FR."""
    pytest.importorskip("sacremoses")
    hyps, refs = ["l'été est là, c'est sûr"], [("l'hiver est là, c'est sûr",)]
    assert score(metric, hyps, refs, lang, 0) == score(metric, hyps, refs, "fr", 0)
