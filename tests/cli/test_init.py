"""`nmt init`: what it writes is a config that trains, whatever the files are like."""

import gzip
import re
import unicodedata
import zipfile
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal, write_lines

from nmt.config import load_config
from nmt.corpora.readers.aligned import stream_aligned

STARTER = Path(__file__).parents[2] / "data" / "starter"
PAIRS = list(stream_aligned(STARTER / "valid.en", STARTER / "valid.fr"))
ROWS = [f"{pair.src_text}\t{pair.tgt_text}" for pair in PAIRS]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in, whose name is not a plain one; no updates are timed."""
    (tmp_path / "mon café 1").mkdir()
    monkeypatch.chdir(tmp_path / "mon café 1")
    monkeypatch.setattr("nmt.training.estimate.epoch_seconds", lambda *_: 60.0)


def init(*arguments: str) -> list[str]:
    return nmt("init", *arguments).stderr.splitlines()


def write_pair(name: str = "news") -> list[str]:
    write_lines(Path(f"{name}.en"), [pair.src_text for pair in PAIRS])
    write_lines(Path(f"{name}.fr"), [pair.tgt_text for pair in PAIRS])
    return [f"{name}.en", f"{name}.fr"]


def test_two_files_give_a_config_that_trains() -> None:
    result = nmt("init", *write_pair("my news"))
    assert result.stdout == "en-fr.yaml\n"
    lines = result.stderr.splitlines()
    assert "600 pairs, en to fr; a sentence has 6.7 and 7.0 words" in lines
    assert lines[-1] == "next: nmt train --config en-fr.yaml"
    assert not [line for line in lines if line.startswith("note:")]
    data = load_config("en-fr.yaml").model_dump(mode="json")["data"]
    assert (data["train"]["src"], data["train"]["tgt"]) == ("my news.en", "my news.fr")
    assert data["held_out"].items() >= {"valid": 12, "test": 12}.items()
    text = Path("en-fr.yaml").read_text(encoding="utf-8")
    assert "written by: nmt init 'my news.en' 'my news.fr'" in text
    assert re.search(r"\n# The training takes about .+ on \w+.*, 1 min per epoch", text)
    write_lines(Path("fra-eng.tsv"), ROWS)  # the text decides on the name of the config
    assert "en-fr.yaml: already exists; --force" in refusal("init", "fra-eng.tsv")
    assert Path("en-fr.yaml").read_text(encoding="utf-8") == text


def test_names_and_texts_tell_the_languages() -> None:
    with zipfile.ZipFile("fra-eng.zip", "w") as archive:
        archive.writestr("fra.txt", "".join(f"{row}\tCC-BY\n" for row in ROWS))
        archive.writestr("_about.txt", "About")
    Path("a.yaml").write_text(nmt("init", "fra-eng.zip", "--out", "-").stdout, encoding="utf-8")
    assert load_config("a.yaml").name == "en-fr"
    assert load_config("a.yaml").data.src_lang == "en"
    lines = init("fra-eng.zip", "--src-lang", "fr", "--out", "forced.yaml")
    assert any(line.startswith("note: look at train: the sides look swapped") for line in lines)
    data = load_config("forced.yaml").data
    assert (data.src_lang, data.tgt_lang) == ("fr", "en")
    # The text gives no hint, the name does.
    write_lines(Path("lav-lit.tsv"), [f"a{n}\tb{n}" for n in range(60)])
    assert nmt("init", "lav-lit.tsv").stdout == "lv-lt.yaml\n"
    init_sides = ("init", *(Path(n).rename(f"{n[-2:]}side.txt") for n in write_pair()))
    error = refusal(*init_sides)
    assert error.startswith("enside.txt, frside.txt: ")
    assert "give --src-lang and --tgt-lang" in error
    assert "en and none; give " in refusal(*init_sides, "--src-lang", "en")
    nmt(*init_sides, "--src-lang", "en", "--tgt-lang", "fr", "--force")
    error = refusal(*init_sides, "--src-lang", "en", "--tgt-lang", "en")
    assert error == "--src-lang, --tgt-lang: got en for both, allowed: two languages"


def test_given_sets_are_taken_and_nothing_is_held_out_for_them() -> None:
    files = write_pair()
    write_lines(Path("dev.tsv"), ["A dog.\tUn chien."] * 3)
    write_pair("test")
    sets = ("--valid", "dev.tsv", "--test", "test.en", "--test", "test.fr")
    lines = init(*files, *sets, "--name", "mine")
    assert any("look at test: 600 of its pairs are in train too" in line for line in lines)
    data = load_config("mine.yaml").model_dump(mode="json")["data"]
    assert (data["held_out"], data["valid"]["file"]) == (None, "dev.tsv")
    error = refusal("init", *files, *["--valid", "dev.tsv"] * 3, "--force")
    assert "--valid: got 3 files" in error


def test_messy_files_train_and_what_is_wrong_is_said() -> None:
    """Two files with every fault at once, which still have as many lines."""
    src, tgt = [pair.src_text for pair in PAIRS], [pair.tgt_text for pair in PAIRS]
    tgt[::7] = src[::7]  # copied
    src[::11] = [("", " \t ")[number % 2] for number in range(len(src[::11]))]
    for side in (src, tgt):
        side[::13] = [side[1]] * len(side[::13])  # again and again
    tgt[::5] = [unicodedata.normalize("NFD", text) for text in tgt[::5]]
    tgt[::17] = [f"{text}\r" for text in tgt[::17]]
    src[::19] = [f"\x1b[31m{text}\x07\ufffd" for text in src[::19]]
    del tgt[300]  # a line is lost in the middle
    tgt.append("Fin.")
    Path("europarl-v7.fr-en.en.txt").write_bytes("\n".join(src).encode("utf-8-sig"))
    Path("europarl-v7.fr-en.fr.txt.gz").write_bytes(gzip.compress("\n".join(tgt).encode()))
    lines = init("europarl-v7.fr-en.en.txt", "europarl-v7.fr-en.fr.txt.gz")
    notes = [line for line in lines if line.startswith("note: ")]
    (faults,) = [note for note in notes if "look at train: of 600 pairs" in note]
    for reason in ("copy", "empty", "duplicate", "damaged characters"):
        assert reason in faults
    assert "\x1b" not in "".join(lines)
    nmt(*notes[-1].partition("the pairs that pass: nmt ")[2].split())
    init("clean.en", "clean.fr", "--out", "clean.yaml")
    assert nmt("config", "check", "clean.yaml").stdout == "clean.yaml: valid\n"
    quick = ("--set", "valid.max_examples=5", "--set", "model.hidden=16")
    trained = nmt("train", "clean.yaml", "--steps", "1", "--run", "runs/t", "--device=cpu", *quick)
    assert "finished at step 1" in trained.stderr
