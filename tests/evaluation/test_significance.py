"""significance.py: same, clearly worse, and the sacrebleu command line's own answer."""

import json
import subprocess
import sys

import pytest
from evaluation.translations import EQUAL, ONE_EACH, OTHER, REFS, WORSE

from nmt.errors import DataError
from nmt.evaluation.significance import compare


def test_a_clearly_better_translation_has_a_small_p_value():
    result = compare("bleu", WORSE, REFS, ONE_EACH, "fr")
    assert result.name == "BLEU"
    assert result.score == 100  # sacreBLEU's is 100.00000000000004
    assert result.baseline < 90
    assert result.p_value < 0.01


def test_equally_good_translations_do_not_differ():
    same = compare("bleu", WORSE, WORSE, ONE_EACH, "fr")
    assert (same.p_value, same.p_randomisation) == (1, 1)
    assert compare("chrf", WORSE, EQUAL, ONE_EACH, "fr").p_value > 0.05


@pytest.mark.parametrize("n_lines", [1, 2, 6])
def test_randomisation_has_the_p_value_of_all_swaps(n_lines):
    """Of k lines that differ alike, only all or none swapped differ as much: 2^(1 - k)."""
    changed = [ref.replace("dort", "court") for ref in REFS[:n_lines]]
    ours = compare("chrf", changed + REFS[n_lines:], REFS, ONE_EACH, "fr")
    assert ours.p_randomisation == pytest.approx(2.0 ** (1 - n_lines), rel=0.15)


def test_the_bootstrap_is_that_of_the_sacrebleu_command(tmp_path):
    for name, lines in {"ref": REFS, "a": WORSE, "b": OTHER}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "a", "b", "-m", "bleu"]
    command += ["--paired-bs", "-w", "4", "--format", "json"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    bootstrap = json.loads(answer)[1]["BLEU"]
    ours = compare("bleu", WORSE, OTHER, ONE_EACH, "fr")
    assert ours.score == pytest.approx(bootstrap["score"], abs=1e-4)
    assert ours.p_value == pytest.approx(bootstrap["p_value"], abs=1e-4)


def test_lines_must_be_equal_in_number():
    with pytest.raises(DataError, match="got 59 translations for 60"):
        compare("bleu", WORSE[:-1], REFS, ONE_EACH, "fr")
