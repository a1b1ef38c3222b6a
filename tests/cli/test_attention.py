"""`nmt attention` over a stub translator, and once over a real, untrained run."""

import gzip
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.helpers import nmt, refusal, write_lines
from click.testing import Result
from matplotlib.figure import Figure

from nmt.config import RunConfig, TrainConfig
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.explain import heatmap
from nmt.runs.directory import RunDirectory
from nmt.runs.trained_run import TrainedRun
from nmt.search.search_config import SearchConfig
from nmt.types import Translation

NAMES = ["layer 1 head 1", "layer 1 head 2", "layer 2 head 1"]
Loaded = list[tuple]


class StubTranslator:
    """Answers `s` with `s un`, `s deux`, ...; nothing for an empty text; records its search.

    Its three heads come only when asked for.
    """

    head_names = tuple(NAMES)
    names_by_attention = {"cross": head_names}  # noqa: RUF012 - nothing changes it
    device = torch.device("cpu")

    def __init__(self, make: Callable[..., Translation], search: SearchConfig) -> None:
        self.make, self.search = make, search

    def translate(self, texts: Sequence[str], with_heads: bool = False) -> list[Translation]:
        numbers = ("un", "deux", "trois", "quatre", "cinq")[: self.search.n_best]
        return [
            self.make(
                text, [f"{text} {n}" for n in numbers] if text else [], n_heads=3 * with_heads
            )
            for text in texts
        ]

    def force(
        self, texts: Sequence[str], target_texts: Sequence[str], with_heads: bool = False
    ) -> list[Translation]:
        return [
            self.make(text, [target] if text else [], n_heads=3 * with_heads)
            for text, target in zip(texts, target_texts, strict=True)
        ]


@pytest.fixture
def loaded(make_translation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """The loads of run folders whose model is the stub."""
    calls: Loaded = []
    files = SplitConfig(src=tmp_path / "t.en", tgt=tmp_path / "t.fr")
    config = RunConfig(
        name="stub",
        data=DataConfig(train=files, test=files),
        train=TrainConfig(steps=1),
        search=SearchConfig(beam=3, n_best=2),
    )
    for name in ("r", "runs/newest"):
        RunDirectory.create(tmp_path / name, config)

    def load(runs: list[TrainedRun], *options: object) -> StubTranslator:
        device, checkpoint, search, *rest = options
        assert rest == [False, None, "fp32"]
        calls.append((runs[0].path, device, checkpoint, search))
        return StubTranslator(make_translation, search)

    monkeypatch.setattr("nmt.translation.translator.Translator.load", load)
    monkeypatch.setattr("nmt.runs.find.find_run", lambda run: run or Path("runs/newest"))
    monkeypatch.chdir(tmp_path)
    return calls


@pytest.fixture
def run(loaded: Loaded) -> Callable[..., Result]:
    return lambda *arguments, **options: nmt("attention", *arguments, **options)


Run = Callable[..., Result]


def records(result: Result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


def test_jsonl_of_the_whole_beam_goes_to_stdout(run: Run) -> None:
    result = run("the cat", "a dog")
    rows = records(result)
    places = [(row["sentence"], row["rank"]) for row in rows]
    assert places == [(sentence, rank) for sentence in (1, 2) for rank in (1, 2, 3)]
    assert rows[4]["target"]["text"] == "a dog deux"
    assert (rows[4]["level"], rows[4]["forced"]) == ("piece", False)
    assert not {"heads", "head_names"} & set(rows[4])
    assert re.fullmatch(r"run: runs/newest \(.*\)\n", result.stderr)


def test_the_flags_reach_the_search(run: Run, loaded: Loaded) -> None:
    flags = "--beam 5 --n-best 2 --run r --device cpu --checkpoint last"
    run("x", *flags.split())
    folder, device, checkpoint, search = loaded[0]
    assert (folder, device, checkpoint) == (Path("r"), "cpu", "last")
    assert (search.beam, search.n_best) == (5, 2)
    run("x", "--set", "search.beam=4", "--set", "search.max_length=3")
    search = loaded[1][3]
    assert (search.beam, search.n_best, search.max_length) == (4, 4, 3)


FORMATS = {"jsonl": b"{", "npz": b"PK\x03\x04"}
PICTURES = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF"}
TEXTS = {"text": b"[1] ", "pharaoh": b"0-0", "html": b"<!doctype html>"}


@pytest.mark.parametrize("format", [*FORMATS, *PICTURES, *TEXTS])
def test_each_format_goes_to_a_file_or_to_stdout(format: str, run: Run, loaded: Loaded) -> None:
    """Data are of the whole beam, pictures of the best; a suffix in capitals is one too."""
    run("x", "--format", format, "--out", f"new/x.{format}")
    assert loaded[0][3].n_best == (3 if format in FORMATS else 1)
    start = {**FORMATS, **PICTURES, **TEXTS}[format]
    content = Path(f"new/x.{format}").read_bytes()
    assert content.startswith(start)
    assert run("x", "--format", format, "--out", "-").stdout_bytes.startswith(start)
    assert not Path("-").exists()
    if format not in TEXTS:
        assert run("x", "--out", f"X.{format.upper()}").stdout == f"X.{format.upper()}\n"
        assert Path(f"X.{format.upper()}").read_bytes().startswith(start)


def test_several_pictures_are_a_folder_or_pages(run: Run) -> None:
    result = run("a", "", "b", "--format", "png", "--out", "maps", "--n-best", "2")
    names = [f"maps/attention_00000{n}_{rank}.png" for n in (1, 3) for rank in (1, 2)]
    assert result.stdout.split() == names
    assert all(Path(name).is_file() for name in names)
    assert result.stderr.endswith("1 of 3 sentences are empty: no attention\n")
    assert run("the cat", "--format", "png").stdout == "attention.png\n"
    run("a", "", "b", "--out", "all.pdf", "--n-best", "2")
    content = Path("all.pdf").read_bytes()
    assert b"/Count 4" in content
    run("a", "", "b", "--out", "again.pdf", "--n-best", "2")
    assert Path("again.pdf").read_bytes() == content
    assert run("", "", "--out", "none.pdf").stdout == ""
    assert not Path("none.pdf").exists()


def test_sentences_come_from_a_file_a_pipe_stdin_or_a_split(run: Run) -> None:
    def sources(*arguments: str, stdin: bytes = b"") -> list[str]:
        rows = records(run(*arguments, "--n-best", "1", stdin=stdin))
        return [row["source"]["text"] for row in rows]

    text = "un\u2028e\ndeux\n".encode()
    Path("s.txt").write_bytes(text)
    Path("s.txt.gz").write_bytes(gzip.compress(text))
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    for path in ("s.txt", "s.txt.gz", f"/dev/fd/{reading}"):
        assert sources("--file", path) == ["un\u2028e", "deux"]
    assert sources("--file", "-", stdin="été\nb".encode()) == ["été", "b"]
    assert sources("--file", "-", stdin=b"") == []
    assert sources("--file", "s.txt", "--first", "1") == ["un\u2028e"]
    write_lines(Path("t.en"), ["one", "two"])
    write_lines(Path("t.fr"), ["un", "deux"])
    assert sources("--split", "test") == ["one", "two"]


def test_a_given_translation_is_forced(run: Run) -> None:
    targets = ["le chat", "un chien"]
    flags = [word for target in targets for word in ("--target", target)]
    rows = records(run("the cat", "a dog", *flags))
    assert [(row["target"]["text"], row["forced"]) for row in rows] == [(t, True) for t in targets]
    assert len(records(run("the cat", "a dog", *flags, "--first", "1"))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--format", "jpg"], "--format: got 'jpg', allowed: "),
        (["x", "--out", "maps"], "--out: maps does not tell the format; add --format (jsonl, npz"),
        ([], "got none, allowed: one of SENTENCE, --file, --sp"),
        (["x", "y", "--target", "z"], "--target: got 1 translation for 2 sentences"),
        (["x", "--target", "y", "--beam", "2"], "--target gives the translation"),
        (["x", "--n-best", "4"], "--n-best: got 4, allowed: 1 to 3, the beam"),
        (["x", "--n-best", "2", "--format", "pharaoh"], "--n-best: got 2, allowed with --format"),
        (["x", "y", "--out", "a.png"], "--out: got the file a.png for 2 pictures"),
        (["--file", "-"], "stdin:1: byte 0xff is not UTF-8"),
    ],
)
@pytest.mark.usefixtures("loaded")
def test_a_wrong_flag_is_one_line(arguments: list[str], message: str) -> None:
    assert message in refusal("attention", *arguments, stdin=b"abc\xff")


def test_a_scale_may_be_shared(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(heatmap, "write_map", lambda figure, *_: figures.append(figure))
    ends: dict[str, list[float]] = {}
    for scale in ("each", "shared", "0.9"):
        figures.clear()
        run("a", "the cat|s sleep on the mat", "--format", "png", "--scale", scale)
        ends[scale] = [figure.axes[0].images[0].get_clim()[1] for figure in figures]
    assert ends["shared"] == [max(ends["each"])] * 2
    assert ends["0.9"] == [0.9, 0.9]


def test_a_terminal_gets_text_and_a_pipe_data(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("the cat").stdout.startswith("{")
    monkeypatch.setattr(sys.modules["nmt.cli.commands.attention"], "_is_terminal", lambda: True)
    assert run("the cat").stdout == run("the cat", "--format", "text").stdout
    assert run("the cat", "--out", "-").stdout.startswith("{")


@pytest.mark.usefixtures("home")
def test_maps_of_a_real_run_are_those_of_forcing() -> None:
    sentences = ["The cat is here!", "", "a zebra"]
    rows = records(nmt("attention", *sentences, "--beam", "2", "--heads", "all"))
    assert {(row["sentence"], row["rank"]) for row in rows} == {(1, 1), (1, 2), (3, 1), (3, 2)}
    for row in rows:
        assert row["source"]["text"] == sentences[row["sentence"] - 1]
        assert row["source"]["pieces"][-1] == "</s>"
        weights = np.array(row["weights"])
        assert weights.shape == (len(row["target"]["ids"]), len(row["source"]["ids"]))
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
        assert len(row["log_probs"]) == len(row["target"]["pieces"])
        assert row["head_names"] == ["attention"]
        np.testing.assert_allclose(row["heads"], [row["weights"]], atol=1e-4)
    pieces = [piece for piece in rows[0]["target"]["pieces"] if piece not in ("</s>", "<unk>")]
    if "<unk>" not in rows[0]["target"]["pieces"]:
        [forced] = records(nmt("attention", sentences[0], "--target", " ".join(pieces)))
        same = (np.array(row["weights"])[: len(pieces)] for row in (forced, rows[0]))
        np.testing.assert_allclose(*same, atol=1e-5)
