"""Whether text is in the language that a config says, judged on the corpora and on short text."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import load_config
from nmt.data.batching import encode_pairs
from nmt.data.language_check import language_notes, other_language
from nmt.data.languages import code_notes
from nmt.data.readers.aligned import read_aligned
from nmt.data.text_files import read_lines
from nmt.errors import ConfigError
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.training.training_data import vocabulary_notes

STARTER = Path(__file__).parents[2] / "data" / "starter"


@pytest.fixture(scope="module", params=["en", "fr"])
def side(request: pytest.FixtureRequest) -> tuple[str, str, list[str]]:
    lang = request.param
    texts = [line for name in ("valid", "test") for line in read_lines(STARTER / f"{name}.{lang}")]
    return lang, "fr" if lang == "en" else "en", texts


@pytest.mark.parametrize("size", [1, 2, 5, 50])
def test_right_text_is_never_foreign(side: tuple[str, str, list[str]], size: int) -> None:
    lang, other, texts = side
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    alarms = [batch for batch in batches if other_language(batch, lang, other)]
    assert len(alarms) <= len(batches) / 1000


@pytest.mark.parametrize(("size", "least"), [(1, 0.6), (10, 0.9), (50, 1)])
def test_other_text_is_found_the_surer_the_more_there_is(
    side: tuple[str, str, list[str]], size: int, least: float
) -> None:
    lang, other, texts = side
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    n_found = sum(other_language(batch, other, lang) == lang for batch in batches)
    assert n_found >= least * len(batches)


@pytest.mark.parametrize("text", ["", "OK", "3.14", "http://x.org", "%s: %d", "Paris", "!"])
def test_neutral_text_is_of_no_language(text: str) -> None:
    for lang, other in (("en", "fr"), ("fr", "en"), ("de", "ru"), ("xx", "fr")):
        assert other_language([text], lang, other) is None


def test_a_third_language_and_a_script_are_named() -> None:
    assert other_language(["Das ist nicht mein Hund.", "Wir sind da."], "en", "fr") == "de"
    assert other_language(["Это моя собака."], "en", "ru") == "ru"
    assert other_language(["This is my dog."], "ru", "en") == "en"


def test_notes_name_the_swap_or_the_side() -> None:
    english, french = ["This is what they have."], ["Vous avez une maison."]
    assert not list(language_notes(english, french, "eng", "fr-CA"))
    (swap,) = language_notes(french, english, "en", "fr")
    assert "swapped" in swap
    (side,) = language_notes(french, (), "en", "fr")
    assert "source" in side
    (side,) = language_notes(english, english, "en", "fr")
    assert "target" in side


def test_a_training_on_swapped_files_says_so() -> None:
    pairs = read_aligned(STARTER / "valid.fr", STARTER / "valid.en")
    config = WordConfig(min_freq=1)
    for langs, is_swapped in ((("en", "fr"), True), (("fr", "en"), False)):
        tokenizers = train_tokenizers(config, pairs, *langs, seed=1)
        notes = vocabulary_notes(config, tokenizers, encode_pairs(pairs, tokenizers, 100))
        assert any("swapped" in note for note in notes) == is_swapped


@pytest.mark.parametrize(
    ("name", "code"), [("english", "en"), ("French", "fr"), ("GERMAN", "de"), ("Chinese", "zh")]
)
def test_the_name_of_a_language_is_an_error(tmp_path: Path, name: str, code: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"data: {{src_lang: {name}}}\n")
    with pytest.raises(ConfigError, match=rf"data\.src_lang: .*'{code}'"):
        load_config(path)


@pytest.mark.parametrize(
    "command",
    [
        "init a.tsv --tgt-lang fr --src-lang english",
        "corpus clean a.tsv --out b.tsv --tgt-lang fr --src-lang english",
        "eval --lang english",
    ],
)
def test_flags_name_the_code_of_a_language(command: str) -> None:
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert f"{command.split()[-2]}: got 'english'" in line
    assert "'en'" in line


@pytest.mark.parametrize("code", ["en", "pt-BR", "zh_TW", "fra", "gsw", "EN", "hsb"])
def test_codes_of_two_and_three_letters_pass(code: str) -> None:
    assert not list(code_notes(code))


@pytest.mark.parametrize("code", ["jp", "xx", "en1", "source", "e"])
def test_what_is_no_code_gets_a_note(code: str) -> None:
    (note,) = code_notes("en", code)
    assert note.startswith(code)
