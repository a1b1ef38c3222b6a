"""differences.py: the p-value of single runs is that of compare, and means are over runs."""

import pytest
from comparison.differences import difference
from evaluation.translations import EQUAL, ONE_EACH, OTHER, REFS, WORSE

from nmt.errors import DataError
from nmt.evaluation.significance import compare


def test_each_run_must_have_all_lines():
    with pytest.raises(DataError, match="got 59 translations for 60"):
        difference("bleu", [WORSE], [REFS, REFS[:-1]], ONE_EACH, "fr")


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_single_runs_differ_with_the_p_value_of_comparison(metric):
    ours = difference(metric, [WORSE], [OTHER], ONE_EACH, "fr")
    compared = compare(metric, WORSE, OTHER, ONE_EACH, "fr")
    assert ours.p_value == pytest.approx(compared.p_value, abs=2e-3)  # theirs sums in fp32
    assert ours.mean == pytest.approx(compared.score - compared.baseline)
    assert ours.low < ours.mean < ours.high


def test_a_difference_is_of_the_means_over_the_runs():
    single = difference("bleu", [WORSE], [REFS], ONE_EACH, "fr")
    none = difference("bleu", [REFS], [REFS], ONE_EACH, "fr")
    both = difference("bleu", [WORSE, REFS], [REFS, REFS, REFS], ONE_EACH, "fr")
    assert single.low > 0
    assert single.p_value < 0.01
    assert (none.mean, none.low, none.high, none.p_value) == (0, 0, 0, 1)
    assert both.mean == pytest.approx(single.mean / 2)
    assert both.high == pytest.approx(single.high / 2)


def test_the_interval_covers_what_chance_alone_makes():
    result = difference("bleu", [WORSE], [EQUAL], ONE_EACH, "fr")
    assert result.low < 0 < result.high
    assert result.p_value > 0.05
