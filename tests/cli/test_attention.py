"""`nmt attention` over an untrained run: its sources, formats and files."""

import json
import os
import re
from pathlib import Path

import pytest
from cli.helpers import ENGLISH, nmt, refusal
from click.testing import Result
from matplotlib.figure import Figure

from nmt.explain import heatmap

pytestmark = pytest.mark.usefixtures("home")


def run(*arguments: object, stdin: bytes = b"") -> Result:
    return nmt("attention", *arguments, stdin=stdin)


def records(result: Result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


def test_jsonl_of_the_whole_beam_goes_to_stdout() -> None:
    result = run("the cat", "a dog")
    rows = records(result)
    places = [(row["sentence"], row["rank"]) for row in rows]
    assert places == [(sentence, rank) for sentence in (1, 2) for rank in (1, 2, 3)]
    assert (rows[4]["level"], rows[4]["forced"]) == ("piece", False)
    assert not {"heads", "head_names"} & set(rows[4])
    assert result.stderr == "run: runs/tiny\n"
    rows = records(run("the cat", "--set", "search.beam=4", "--set", "search.max_length=2"))
    assert len(rows) == 4
    assert max(len(row["target"]["ids"]) for row in rows) <= 2


FORMATS = {
    **{"jsonl": b"{", "npz": b"PK\x03\x04", "text": b"[1] ", "html": b"<!doctype html>"},
    **{"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF"},
}


@pytest.mark.parametrize(("format", "start"), FORMATS.items())
def test_each_format_goes_to_a_file_or_to_stdout(format: str, start: bytes) -> None:
    """A suffix in capitals is one too."""
    run("the cat", "--format", format, "--out", f"new/x.{format}")
    assert Path(f"new/x.{format}").read_bytes().startswith(start)
    assert run("the cat", "--format", format, "--out", "-").stdout_bytes.startswith(start)
    assert not Path("-").exists()
    if format not in ("text", "html"):
        assert run("the cat", "--out", f"X.{format.upper()}").stdout == f"X.{format.upper()}\n"
        assert Path(f"X.{format.upper()}").read_bytes().startswith(start)


def test_several_pictures_are_a_folder() -> None:
    result = run("a", "", "the cat", "--format", "png", "--out", "maps", "--n-best", "2")
    names = [f"maps/attention_00000{n}_{rank}.png" for n in (1, 3) for rank in (1, 2)]
    assert result.stdout.split() == names
    assert all(Path(name).is_file() for name in names)
    assert result.stderr.endswith("1 of 3 sentences are empty: no attention\n")
    assert run("the cat", "--format", "png").stdout == "attention.png\n"


def test_sentences_come_from_a_file_a_pipe_stdin_or_a_split() -> None:
    def sources(*arguments: str, stdin: bytes = b"") -> list[str]:
        rows = records(run(*arguments, "--n-best", "1", stdin=stdin))
        return [row["source"]["text"] for row in rows]

    text = "un\u2028e\ndeux\n".encode()
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    for path in (f"/dev/fd/{reading}", "-"):
        assert sources("--file", path, stdin=text) == ["un\u2028e", "deux"]
    assert sources("--file", "-", stdin=b"") == []
    assert sources("--split", "test", "--first", "2") == ENGLISH[:2]


def test_a_given_translation_is_forced() -> None:
    targets = ["le chat", "l'homme dort"]
    flags = [word for target in targets for word in ("--target", target)]
    rows = records(run("the cat", "the man sleeps", *flags))
    assert [row["forced"] for row in rows] == [True, True]
    assert rows[0]["target"]["pieces"][:2] == ["le", "chat"]
    assert len(records(run("the cat", "a dog", *flags, "--first", "1"))) == 1


def test_another_method_has_scores_and_the_share_of_the_source() -> None:
    flags = ("--method", "erasure", "--contrast", "est")
    [row] = records(run("the cat", *flags, "--n-best", "1"))
    weights, attribution = row["weights"], row["attribution"]
    assert (attribution["method"], attribution["contrast"]) == ("erasure", "est")
    assert all(sum(line) == pytest.approx(1, abs=1e-4) for line in weights)
    assert len(attribution["scores"]) == len(attribution["source_share"]) == len(weights)
    assert all(0 <= share <= 1 for share in attribution["source_share"])
    text = run("the cat", "a dog", *flags, "--format", "text").stdout
    assert text.count("erasure against est\n") == 2
    assert re.search(r"[0-9]%\n", text)
    forced = run("the cat", "--target", "le chat", "--method", "norms", "--format", "text").stdout
    assert "%" not in forced  # it says nothing of the prefix
    for format, start in FORMATS.items():
        run("the cat", *flags, "--format", format, "--out", f"x.{format}")
        assert Path(f"x.{format}").read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--method", "alti"], "--method: got alti, allowed for a recurrent model: attention"),
        (["x", "--contrast", "le"], "--contrast: allowed with a --method that accepts it"),
        (["x", "--method", "norms", "--heads", "1"], "--heads: allowed with --method attention"),
        (["x", "--format", "jpg"], "--format: got 'jpg', allowed: "),
        (["x", "--out", "maps"], "--out: maps has no known suffix; add --format (jsonl, npz"),
        (["x", "--numbers"], "--scale, --numbers: for --format png"),
        ([], "got none, allowed: one of SENTENCE, --file, --sp"),
        (["x", "y", "--target", "z"], "--target: got 1 translation for 2 sentences"),
        (["x", "--target", "y", "--beam", "2"], "--target: allowed without options of a search"),
        (["x", "--side-by-side", "--format", "html"], "--side-by-side: allowed with --format png"),
        (["x", "--side-by-side", "--out", "a.png"], "--side-by-side: got --run none"),
        (
            ["x", "--side-by-side", "--run", "a", "--run", "b", "--heads", "all", "--out", "a.png"],
            "--side-by-side: allowed without --heads",
        ),
        (["x", "y", "--out", "a.png"], "--out: got a.png for 2 pictures"),
        (["--file", "-"], "stdin:1: byte 0xff is not UTF-8"),
    ],
)
def test_a_wrong_flag_is_one_line(arguments: list[str], message: str) -> None:
    assert message in refusal("attention", *arguments, stdin=b"abc\xff")


def test_a_scale_holds_for_all_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(heatmap, "write_map", lambda figure, *_: figures.append(figure))
    run("a", "the cat is here", "--format", "png", "--scale", "0.9")
    assert [figure.axes[0].images[0].get_clim()[1] for figure in figures] == [0.9, 0.9]


def test_runs_are_drawn_side_by_side(untrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(heatmap, "write_map", lambda figure, *_: figures.append(figure))
    runs = [f"--run={untrained / 'runs' / name}" for name in ("tiny", "two")]
    flags = ("--side-by-side", "--format", "png", "--target", "le chat", "--target", "un")
    Path("attention").mkdir()
    Path("attention/attention_000001_1.png").touch()  # as from an export of one run
    result = run("the cat", "a", *runs, *flags)
    assert result.stdout.split() == [f"attention/attention_00000{i}.png" for i in (1, 2)]
    Path("attention/attention_000001.png").touch()
    assert "attention_000001.png" in refusal("attention", "the cat", "a", *runs, *flags)
    for figure in figures:
        names = [axes.get_xlabel() for axes in figure.axes if axes.get_xlabel()]
        assert [f"--run={name}" for name in names] == runs
        assert len({axes.get_position().y0 for axes in figure.axes[:2]}) == 1
