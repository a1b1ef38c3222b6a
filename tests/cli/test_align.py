"""`nmt align` and `nmt eval --aer` over a small run, whose links need not be right."""

from pathlib import Path

import pytest
import typer
from training.toy import toy_config, write_reversal
from typer.testing import CliRunner

from nmt.cli.align import align
from nmt.cli.command import Command
from nmt.cli.evaluate import evaluate
from nmt.errors import ConfigError, DataError
from nmt.training.loop import train

app = typer.Typer()
app.command(cls=Command)(align)
app.command("eval", cls=Command)(evaluate)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one update, `src`, `tgt` and their `gold` links."""
    folder = tmp_path_factory.mktemp("align")
    write_reversal(folder, n_train=40, n_test=5)
    for name, langs in (("run", {}), ("back", {"src_lang": "de", "tgt_lang": "en"})):
        config = toy_config(folder, train={"steps": 1})
        data = config.data.model_copy(update=langs)
        train(config.model_copy(update={"data": data}), folder / name, ["nmt"], quiet=True)
    (folder / "src").write_text("a b c\n\nd e\n")
    (folder / "tgt").write_text("c b a\n\ne d\n")
    (folder / "gold").write_text("2-0 1-1 0p2\n\n1-0 0-1\n")
    return folder


def run(folder: Path, *arguments: str) -> list[str]:
    """The lines of stdout; files are named within the folder."""
    flags = [str(folder / a) if (folder / a).exists() else a for a in arguments]
    result = CliRunner().invoke(app, flags)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_a_line_of_links_for_each_pair(folder: Path) -> None:
    lines = run(folder, "align", "src", "tgt", "--run", "run")
    assert len(lines) == 3
    assert lines[1] == ""
    for line, n_source, n_target in ((lines[0], 3, 3), (lines[2], 2, 2)):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert all(i < n_source and j < n_target for i, j in links)
        assert [j for _, j in links] == sorted({j for _, j in links})  # argmax: one for each target
    out = folder / "links"
    run(folder, "align", "src", "tgt", "--run", "run", "--out", str(out))
    assert out.read_text().splitlines() == lines


@pytest.mark.parametrize("flags", [("--shift", "2", "--norm"), ("--heads", "1"), ("--tokenized",)])
def test_other_readings_are_read(folder: Path, flags: tuple[str, ...]) -> None:
    assert len(run(folder, "align", "src", "tgt", "--run", "run", *flags)) == 3


def test_a_threshold_of_zero_links_all_words(folder: Path) -> None:
    lines = run(folder, "align", "src", "tgt", "--run", "run", "--threshold", "0")
    assert lines == ["0-0 1-0 2-0 0-1 1-1 2-1 0-2 1-2 2-2", "", "0-0 1-0 0-1 1-1"]


def test_two_directions_become_one(folder: Path) -> None:
    both = ("align", "src", "tgt", "--run", "run", "--reverse", "back", "--threshold", "0")
    assert run(folder, *both, "--symmetrise", "intersection")[2] == "0-0 1-0 0-1 1-1"
    assert run(folder, *both)[2] == "0-0 1-0 0-1 1-1"
    with pytest.raises(ConfigError, match="got a run from en to de, allowed: one from de to en"):
        run(folder, "align", "src", "tgt", "--run", "run", "--reverse", "run")


def test_own_translations_are_aligned_and_kept(folder: Path) -> None:
    kept = folder / "translated"
    lines = run(folder, "align", "src", "--run", "run", "--translations", str(kept))
    texts = kept.read_text().splitlines()
    assert len(lines) == len(texts) == 3
    for line, text in zip(lines, texts, strict=True):
        assert all(int(link.split("-")[1]) < len(text.split()) for link in line.split())


def test_gold_links_give_a_score_in_both_commands(folder: Path) -> None:
    aligned = ("align", "src", "tgt", "--run", "run", "--gold", "gold", "--out")
    [line] = run(folder, *aligned, str(folder / "found"))
    assert line.startswith("AER 0.")
    assert run(folder, "eval", "--aer", "gold", "--hyp", "found") == [line]
    texts = ("--src", "src", "--ref", "tgt", "--run", "run")
    assert run(folder, "eval", "--aer", "gold", *texts) == [line]
    [perfect] = run(folder, "eval", "--aer", "gold", "--hyp", "gold")
    assert perfect.startswith("AER 0.000  precision 1.000  recall 1.000  (5 links, 4 sure ones)")
    as_json = run(folder, "eval", "--aer", "gold", "--hyp", "gold", "--json")
    assert '"aer": 0.0' in "".join(as_json)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("align", "src", "tgt", "--symmetrise", "union"), "--symmetrise: needs --reverse"),
        (("align", "src", "tgt", "--reverse", "back", "--symmetrise", "x"), "got 'x', allowed: in"),
        (("align", "src", "--gold", "gold"), "--gold: it is of given translations"),
        (("align", "src", "tgt", "--json"), "--json: allowed with --gold"),
        (("align", "src", "tgt", "--beam", "3"), "--beam: TGT gives the translations"),
        (("align", "src", "tgt", "--translations", "x"), "--translations: TGT gives"),
        (("align", "src", "--tokenized", "--run", "run"), "--tokenized: it is about SRC and TGT"),
        (("align", "src", "tgt", "--run", "run", "--heads", "9"), "got '9', allowed: mean"),
        (("eval", "--aer", "gold"), "--aer: give a file of links as --hyp"),
        (("eval", "--aer", "gold", "--hyp", "gold", "--src", "src", "--ref", "tgt"), "--aer: give"),
        (("eval", "--aer", "gold", "--bleu", "--hyp", "gold"), "--aer: it scores links"),
        (("eval", "--aer", "gold", "--hyp", "gold", "--beam", "2"), "--aer: --beam does not apply"),
        (("eval", "--aer", "gold", "--hyp", "gold", "--as-is"), "--aer: --as-is does not apply"),
    ],
)
def test_flags_that_contradict_each_other(
    folder: Path, arguments: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        run(folder, *arguments)


def test_files_in_other_languages_are_noted(folder: Path, tmp_path: Path) -> None:
    src, tgt = tmp_path / "a.de", tmp_path / "a.en"
    src.write_text("das ist nicht ein hund\n" * 3)
    tgt.write_text("this is what they have\n" * 3)
    result = CliRunner().invoke(app, ["align", str(src), str(tgt), "--run", str(folder / "run")])
    assert "swapped" in result.stderr


def test_files_that_do_not_fit_together(folder: Path) -> None:
    (folder / "short").write_text("c b a\n\n")
    with pytest.raises(DataError, match=r"short: ends after line 2, but .*src goes on"):
        run(folder, "align", "src", "short", "--run", "run")
    with pytest.raises(DataError, match=r"short: ends after line 2, but .*tgt goes on"):
        run(folder, "align", "short", "tgt", "--run", "run")
    (folder / "bad").write_text("2-0\n\n")
    with pytest.raises(DataError, match=r"bad: 2 lines for 3 sentence pairs"):
        run(folder, "align", "src", "tgt", "--run", "run", "--gold", "bad")
