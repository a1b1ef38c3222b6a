"""scripts/alignment_error.py: the table of a run, and the text that eflomal is given."""

from pathlib import Path

import alignment_error
import pytest
from training.toy import toy_config, write_reversal

from nmt.errors import DataError
from nmt.training.loop import train


def test_text_for_eflomal_has_tokens_as_the_gold_data() -> None:
    assert alignment_error.tokens_of("L’eau, dit-il\u202f!", "fr") == "l' eau , dit-il !"
    assert alignment_error.tokens_of("The Cat's mill.", "en") == "the cat's mill ."


def test_a_run_has_an_error_for_each_reading(tmp_path: Path) -> None:
    write_reversal(tmp_path, n_train=40, n_test=5)
    train(toy_config(tmp_path, train={"steps": 1}), tmp_path / "run", ["nmt"], quiet=True)
    for lang, text in (("en", "a b c\nd e\n"), ("de", "c b a\ne d\n")):
        (tmp_path / f"stories.{lang}").write_text(text)
    links = tmp_path / "stories.en-de.ali"
    links.write_text("2-0 1-1 0p2\n1-0 0-1\n")
    errors = alignment_error.errors_of(tmp_path / "run", tmp_path, "last")
    assert list(errors) == [f"shift {k}{norm}" for norm in ("", ", norm") for k in range(3)]
    assert all(0 <= score.aer <= 1 for score in errors.values())
    assert {score.n_sure for score in errors.values()} == {4}
    links.write_text("2-0\n")
    with pytest.raises(DataError, match="differ in their number of lines"):
        alignment_error.GoldSet.read(tmp_path, "en", "de")
