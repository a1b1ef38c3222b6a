"""The flags of a search that several commands share, and the formats that go with them."""

import json
import re
from pathlib import Path

import pytest
from cli.test_translate import Run, error_of, lines_of
from cli.test_translate import run as run_fixture
from cli.test_translate import tiny_runs as tiny_runs_fixture

from nmt.cli.app import app
from nmt.errors import ConfigError, DataError
from nmt.inference.translator import Translator

run, tiny_runs = run_fixture, tiny_runs_fixture
TEXTS = ["The cat sleeps.", "A dog!"]


def test_draws_do_not_depend_on_the_batch(run: Run) -> None:
    flags = ("--temperature", "1.5", "--top-k", "5", "--top-p", "0.9", "--seed", "7")
    together = lines_of(run(*TEXTS, *flags))
    assert together == [line for text in TEXTS for line in lines_of(run(text, *flags))]
    assert together == lines_of(run(*TEXTS, *flags, "--batch-size", "1"))
    several = lines_of(run(*TEXTS, *flags, "--n-best", "12"))  # more than the beam
    assert len(several) == 24
    assert several[0].split("\t")[2] == together[0]
    assert lines_of(run(*TEXTS, *flags[:-1], "8", "--n-best", "12")) != several


def test_words(run: Run) -> None:
    [plain] = lines_of(run(TEXTS[0], "--no-restore"))
    word = plain.split()[0]
    [without] = lines_of(run(TEXTS[0], "--no-restore", "--must-not", word))
    assert word not in without.split()
    [having] = lines_of(run(TEXTS[0], "--no-restore", "--must", "chien", "--must", "dort"))
    assert {"chien", "dort"} <= set(re.findall(r"\w+", having))


def test_a_prefix_for_all_and_one_for_each(run: Run, tmp_path: Path) -> None:
    for line in lines_of(run(*TEXTS, "--prefix", "Un chien", "--no-restore")):
        assert line.startswith("Un chien")
    texts, prefixes = tmp_path / "texts", tmp_path / "prefixes"
    texts.write_text("".join(f"{text}\n" for text in TEXTS))
    prefixes.write_text("Un chien\nLe chat\n")
    lines = lines_of(run("--file", str(texts), "--prefix-file", str(prefixes)))
    assert [line.split()[0] for line in lines] == ["Un", "Le"]
    for content, says in (("Un\n", "fewer"), ("Un\nLe\nUn\n", "more lines than")):
        prefixes.write_text(content)
        failed = run("--file", str(texts), "--prefix-file", str(prefixes), fails=True)
        assert says in error_of(failed, DataError)


def test_n_best_as_moses_writes_it(run: Run, tiny_runs: Path) -> None:
    lines = lines_of(run(*TEXTS, "", "--n-best", "2", "--n-best-format", "moses"))
    assert [line.split(" ||| ")[0] for line in lines] == ["0", "0", "1", "1", "2"]
    found = Translator.load(tiny_runs / "runs" / "tiny", device="cpu").translate(TEXTS, n_best=2)
    for line, expected in zip(lines, [h for each in found for h in each.hypotheses], strict=False):
        _, text, features, score = line.split(" ||| ")
        assert text == expected.text
        assert float(score) == pytest.approx(expected.hypothesis.score, abs=1e-4)
        name, value, _, length = features.split()
        assert name == "LogProb="
        assert float(value) == pytest.approx(sum(expected.hypothesis.log_probs), abs=1e-4)
        assert int(length) == len(expected.hypothesis.ids)


def test_bf16_translates_and_says_what_it_is(run: Run) -> None:
    result = run(*TEXTS, "--precision", "bf16", "--device", "cpu")
    assert len(lines_of(result)) == 2
    assert "bf16 may be slower" in result.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--precision bf16 --int8", "int8"),
        ("--prefix a --prefix-file b", "--prefix-file"),
        ("--prefix-file b", "--prefix-file"),
        ("--n-best-format moses --json", "moses"),
        ("--temperature 0", "--temperature 0.0: search.sampling.temperature"),
        ("--must chat --must-not chat", "must_not"),
        ("--must chat --top-k 3", "must"),
        ("--mbr 4 --top-k 3", "sampling"),
        ("--mbr 4 --beam 3", "--beam"),
        ("--temperature 2 --beam 3", "--beam"),
    ],
)
def test_flags_that_contradict_each_other(run: Run, flags: str, says: str) -> None:
    assert says in error_of(run("a", *flags.split(), fails=True), ConfigError)


@pytest.mark.parametrize("flag", ["--must", "--prefix"])
def test_what_the_vocabulary_cannot_write_is_refused(run: Run, flag: str) -> None:
    failed = run("a", flag, "zèbre", fails=True)
    assert "zèbre" in error_of(failed, DataError)


def test_three_commands_take_the_same_flags() -> None:
    import typer

    group = typer.main.get_command(app)
    names = {"temperature", "top_k", "top_p", "seed", "must", "must_not", "precision"}
    for command in ("translate", "eval", "attention"):
        own = {each.name: each.help for each in group.commands[command].params}  # type: ignore[attr-defined]
        assert names <= own.keys()
        assert json.dumps([own[name] for name in sorted(names)])
