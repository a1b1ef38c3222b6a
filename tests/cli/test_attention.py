"""`nmt attention` over a stub translator, and once over a real, tiny, untrained run."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import typer
from click.testing import Result
from matplotlib.figure import Figure
from matplotlib.image import imread
from typer.testing import CliRunner

from nmt.attention_maps.dump import read_jsonl, read_npz
from nmt.cli.attention import attention
from nmt.cli.command import Command
from nmt.config import RunConfig, TrainConfig
from nmt.data.sources import DataConfig, SplitConfig
from nmt.decoding.search_config import SearchConfig
from nmt.errors import ConfigError, DataError, NMTError
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.runs.directory import RunDirectory
from nmt.runs.trained_run import TrainedRun
from nmt.text.tokenizer import WordConfig, train_tokenizers
from nmt.types import SentencePair, Translation

Run = Callable[..., Result]

app = typer.Typer()
app.command(cls=Command)(attention)


class StubTranslator:
    """Answers `s` with `s un`, `s deux`, ...; nothing for an empty text; records its search.

    Its three heads come only when asked for.
    """

    head_names = ("layer 1 head 1", "layer 1 head 2", "layer 2 head 1")
    names_by_attention = {"cross": head_names}  # noqa: RUF012 - nothing changes it
    device = torch.device("cpu")

    def __init__(self, make: Callable[..., Translation], search: SearchConfig) -> None:
        self.make, self.search = make, search

    def translate(self, texts: Sequence[str], with_heads: bool = False) -> list[Translation]:
        numbers = ("un", "deux", "trois", "quatre", "cinq")[: self.search.n_best]
        targets = [[f"{text} {number}" for number in numbers] if text else [] for text in texts]
        return self.made(texts, targets, with_heads)

    def force(
        self, texts: Sequence[str], target_texts: Sequence[str], with_heads: bool = False
    ) -> list[Translation]:
        pairs = zip(texts, target_texts, strict=True)
        return self.made(texts, [[target] if text else [] for text, target in pairs], with_heads)

    def made(
        self, texts: Sequence[str], targets: list[list[str]], with_heads: bool
    ) -> list[Translation]:
        return [
            self.make(text, of_text, n_heads=3 * with_heads)
            for text, of_text in zip(texts, targets, strict=True)
        ]


@pytest.fixture
def stub(make_translation, tmp_path: Path, monkeypatch) -> SimpleNamespace:
    """A run folder whose model is the stub; `loaded` holds what it was loaded with."""
    seen = SimpleNamespace(loaded=[])
    files = SplitConfig(src=tmp_path / "t.en", tgt=tmp_path / "t.fr")
    config = RunConfig(
        name="stub",
        data=DataConfig(train=files, test=files),
        train=TrainConfig(steps=1),
        search=SearchConfig(beam=3, n_best=2),
    )
    for name in ("r", "runs/newest"):
        RunDirectory.create(tmp_path / name, config)

    def load(
        runs: list[TrainedRun],
        device: str,
        checkpoint: str,
        search: SearchConfig,
        int8: bool,
        weights: list[float] | None,
        precision: str,
    ) -> StubTranslator:
        [run] = runs
        assert (int8, weights) == (False, None)
        assert precision == "fp32"
        seen.loaded.append((run.path, device, checkpoint, search))
        return StubTranslator(make_translation, search)

    monkeypatch.setattr("nmt.inference.translator.Translator.load", load)
    monkeypatch.setattr("nmt.runs.find.find_run", lambda run: run or Path("runs/newest"))
    monkeypatch.chdir(tmp_path)
    return seen


@pytest.fixture
def run(stub) -> Run:
    def invoke(*args: str, stdin: bytes = b"", fails: bool = False) -> Result:
        result = CliRunner().invoke(app, list(args), input=stdin)
        if not fails:
            assert result.exception is None, result.output
        return result

    return invoke


def error_of(result: Result) -> str:
    assert isinstance(result.exception, NMTError)
    message = str(result.exception)
    assert "\n" not in message
    return message


def test_jsonl_of_the_whole_beam_goes_to_stdout(run: Run) -> None:
    result = run("the cat", "a dog")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["sentence"], row["rank"]) for row in rows] == [
        (sentence, rank) for sentence in (1, 2) for rank in (1, 2, 3)
    ]
    assert rows[4]["target"]["text"] == "a dog deux"
    assert rows[4]["level"] == "piece"
    assert not rows[4]["forced"]
    assert re.fullmatch(r"run: runs/newest \(.*\)\n", result.stderr)


def test_the_flags_reach_the_search(run: Run, stub) -> None:
    run(
        "x", "--beam", "5", "--n-best", "2", "--run", "r", "--device", "cpu", "--checkpoint", "last"
    )
    folder, device, checkpoint, search = stub.loaded[0]
    assert (folder, device, checkpoint) == (Path("r"), "cpu", "last")
    assert (search.beam, search.n_best) == (5, 2)
    run("x", "--set", "search.beam=4", "--set", "search.max_length=3")
    search = stub.loaded[1][3]
    assert (search.beam, search.n_best, search.max_length) == (4, 4, 3)


@pytest.mark.parametrize(
    ("format", "n_best"),
    [("jsonl", 3), ("npz", 3), ("csv", 3), ("png", 1), ("text", 1), ("pharaoh", 1)],
)
def test_data_has_the_whole_beam_and_pictures_the_best(
    format: str, n_best: int, run: Run, stub
) -> None:
    run("x", "--format", format, "--out", f"x.{format}")
    assert stub.loaded[0][3].n_best == n_best


def test_npz_goes_to_out_and_its_name_to_stdout(run: Run) -> None:
    result = run("the cat|s", "--out", "new/dump.npz", "--level", "word")
    assert result.stdout == "new/dump.npz\n"
    made = list(read_npz(Path("new/dump.npz")))
    assert [record.rank for record in made] == [1, 2, 3]
    assert made[0].weights.shape == (4, 3)


def test_one_png_is_a_file(run: Run) -> None:
    assert run("the cat", "--out", "cat.png").stdout == "cat.png\n"
    assert Path("cat.png").read_bytes().startswith(b"\x89PNG")
    assert run("the cat", "--format", "png").stdout == "attention.png\n"
    assert run("the cat", "--out", "CAT.PNG").stdout == "CAT.PNG\n"


def test_several_png_are_a_folder(run: Run) -> None:
    result = run("a", "", "b", "--format", "png", "--out", "maps", "--n-best", "2")
    names = [f"maps/attention_00000{n}_{rank}.png" for n in (1, 3) for rank in (1, 2)]
    assert result.stdout.split() == names
    assert all(Path(name).is_file() for name in names)
    assert result.stderr.endswith("1 of 3 sentences are empty: no attention\n")


def test_text_is_a_map_with_its_sentences_and_a_legend(run: Run) -> None:
    lines = run("the cat|s", "--format", "text").stdout.split("\n")
    assert lines[:2] == ["[1] the cats", "[1.1] the cats un (-0.600)"]
    assert lines[2].endswith("_the")
    assert lines[-2].startswith("· below; from: ░ 0.05")
    assert "cats" in run("the cat|s", "--format", "text", "--level", "word").stdout.split("\n")[3]


def test_pharaoh_has_a_line_per_sentence_even_an_empty_one(run: Run) -> None:
    lines = run("a b", "", "c", "--format", "pharaoh").stdout.split("\n")
    assert lines[1:] == ["", "0-0", ""]
    assert lines[0].startswith("0-0 ")


def test_sentences_come_from_a_file_from_stdin_or_from_a_split(run: Run) -> None:
    def sources(*args: str, stdin: bytes = b"") -> list[str]:
        output = run(*args, "--n-best", "1", stdin=stdin).stdout
        return [json.loads(line)["source"]["text"] for line in output.split("\n")[:-1]]

    Path("s.txt").write_bytes("un\u2028e\ndeux\n".encode())
    assert sources("--file", "s.txt") == ["un\u2028e", "deux"]
    assert sources("--file", "-", stdin="été\nb".encode()) == ["été", "b"]
    assert sources("--file", "-", stdin=b"") == []
    assert sources("--file", "s.txt", "--first", "1") == ["un\u2028e"]
    Path("t.en").write_text("one\ntwo\n")
    Path("t.fr").write_text("un\ndeux\n")
    assert sources("--split", "test") == ["one", "two"]


@pytest.mark.parametrize("by_file", [True, False])
def test_a_given_translation_is_forced(by_file: bool, run: Run, stub) -> None:
    Path("t.txt").write_text("le chat\nun chien\n")
    given = (
        ["--target-file", "t.txt"] if by_file else ["--target", "le chat", "--target", "un chien"]
    )
    result = run("the cat", "a dog", *given)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["target"]["text"] for row in rows] == ["le chat", "un chien"]
    assert all(row["forced"] for row in rows)
    rows = run("the cat", "a dog", *given, "--first", "1").stdout.splitlines()
    assert len(rows) == 1
    assert run("the cat", "a dog", *given, "--format", "png").stdout.count(".png") == 2


NAMES = list(StubTranslator.head_names)


@pytest.mark.parametrize("given", [[], ["--target", "le chat|s"]])
@pytest.mark.parametrize("level", ["piece", "word"])
@pytest.mark.parametrize("suffix", ["jsonl", "npz"])
def test_data_has_the_heads_asked_for_beside_their_mean(
    suffix: str, level: str, given: list[str], run: Run
) -> None:
    path = Path(f"dump.{suffix}")
    read = read_npz if suffix == "npz" else read_jsonl
    for wanted, names in (("all", NAMES), ("layer 2,1", [NAMES[2], NAMES[0]]), ("mean", [])):
        options = ("--heads", wanted, "--level", level, "--out", str(path), "--force")
        run("the cat|s", *given, *options)
        made = list(read(path))
        assert len(made) == (1 if given else 3)
        for record in made:
            assert list(record.head_names) == names
            if names:
                assert record.heads.shape == (len(names), *record.weights.shape)
                np.testing.assert_allclose(record.heads.sum(axis=2), 1, atol=1e-5)
            if wanted == "all":
                np.testing.assert_allclose(record.heads.mean(axis=0), record.weights, atol=1e-6)


def test_heads_are_asked_of_the_model_only_if_they_are_shown(run: Run) -> None:
    """Without the option the dump is what it was before there were heads."""
    rows = [json.loads(line) for line in run("the cat").stdout.splitlines()]
    assert all("heads" not in row and "head_names" not in row for row in rows)


def test_a_page_has_every_sentence_by_piece_and_the_level_asked_for_at_first(run: Run) -> None:
    """Whatever the level: the page merges words itself, and shows these first."""
    result = run("the cat|s", "", "a dog", "--heads", "all", "--n-best", "2", "--out", "maps.html")
    assert result.stdout == "maps.html\n"
    page = Path("maps.html").read_text(encoding="utf-8")
    assert (
        run("the cat|s", "", "a dog", "--n-best", "2", "--format", "html").stdout[:15] == page[:15]
    )
    block = page.partition('id="data">')[2].partition("</script>")[0]
    sentences = json.loads(block)
    assert [each["number"] for each in sentences] == [1, 3]
    assert sentences[0]["source"]["pieces"] == ["▁the", "▁cat", "s", "</s>"]
    for hypothesis in sentences[0]["hypotheses"]:
        assert [each["name"] for each in hypothesis["maps"]] == ["mean", *NAMES]
    assert len(sentences[0]["hypotheses"]) == 2
    assert 'data-level="word"' in page
    run("the cat", "--level", "piece", "--out", "maps.html", "--force")
    assert 'data-level="piece"' in Path("maps.html").read_text(encoding="utf-8")


def test_png_of_several_heads_is_one_larger_picture(run: Run) -> None:
    areas = {}
    for wanted in ("mean", "3", "all"):
        result = run("the cat|s", "--heads", wanted, "--out", f"{wanted}.png")
        assert result.stdout == f"{wanted}.png\n"
        height, width, _ = imread(f"{wanted}.png").shape
        areas[wanted] = height * width
    assert areas["all"] > 1.3 * areas["mean"]
    result = run("a", "b", "--heads", "all", "--format", "png", "--n-best", "2")
    assert result.stdout.count(".png") == 4


def test_text_names_each_head_over_its_map(run: Run) -> None:
    lines = run("the cat|s", "--format", "text", "--heads", "layer 1,mean").stdout.split("\n")
    assert [line for line in lines if line in [*NAMES, "mean"]] == [NAMES[0], NAMES[1], "mean"]
    assert lines[2] == NAMES[0]
    shown = "\n".join(lines).split("\n\n")
    assert len(shown) == 4  # three maps and the legend
    only = run("the cat|s", "--format", "text", "--heads", "2").stdout.split("\n")
    assert only[2] == NAMES[1]
    assert "\n".join(only[2:]).split("\n\n")[0] == shown[1]


def test_pharaoh_links_of_a_head_are_its_own(run: Run) -> None:
    source = " ".join("abcdefgh")
    links = {
        wanted: run(source, "--format", "pharaoh", "--heads", wanted).stdout
        for wanted in ("mean", "1", "layer 2 head 1")
    }
    assert all(len(line.split()) > 3 for line in links.values())
    assert len(set(links.values())) > 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["x", "--heads", "layer 3"],
            "--heads: got 'layer 3', allowed: mean, all, 1 to 3, or words of the names",
        ),
        (["x", "--heads", "4"], "--heads: got '4', allowed: mean, all, 1 to 3"),
        (["x", "--heads", ""], "--heads: got '', allowed: mean"),
        (
            ["x", "--heads", "encoder.1"],
            "--heads: got 'encoder.1', allowed: mean, all, 1 to 3, or words of the names "
            "'layer 1 head 1' to 'layer 2 head 1'; several with commas; this model has no "
            "self-attention: it is recurrent",
        ),
        (
            ["x", "--heads", "all", "--format", "pharaoh"],
            "--heads: got 3 heads, allowed with --format pharaoh: one, or mean",
        ),
        (
            ["x", "--format", "gif"],
            "--format: got 'gif', allowed: jsonl, npz, csv, png, svg, pdf, html, text",
        ),
        (["x", "--format", "npz"], "--format npz: a binary file needs --out PATH"),
        (["x", "--out", "maps"], "--out: maps does not tell the format; add --format (jsonl, npz"),
        (["x", "--level", "char"], "--level: got 'char', allowed: piece, word"),
        ([], "a source must be given in one way: got none, allowed: one of SENTENCE, --file, --sp"),
        (["x", "--split", "test"], "a source must be given in one way: got SENTENCE, --split"),
        (["x", "y", "--target", "z"], "--target: got 1 translation for 2 sentences; give one"),
        (["x", "--target", "y", "--beam", "2"], "--target gives the translation: --beam and --n-b"),
        (["x", "--target", "y", "--target-file", "f"], "the translations must be given in one way"),
        (["x", "--n-best", "4"], "--n-best: got 4, allowed: 1 to 3, the beam; give --beam too"),
        (
            ["x", "--n-best", "2", "--format", "pharaoh"],
            "--n-best: got 2, allowed with --format pharaoh: 1 (a line per sentence)",
        ),
        (["x", "--beam", "9999999"], "search.beam"),
        (["x", "y", "--out", "a.png"], "--out: got the file a.png for 2 pictures; name a folder"),
        (["--split", "valid"], "--split: the run's config has no valid set"),
        (["x", "--numbers"], "--numbers: got it with --format jsonl, allowed: png, svg, pdf"),
        (["x", "--title", "", "--out", "a.html"], "--title: got it with --format html"),
        (["x", "--scale", "2", "--out", "a.png"], "got 2, allowed: above 0, at most 1"),
        (["x", "--scale", "most", "--out", "a.png"], "--scale: got 'most', allowed: each, sha"),
        (["x", "--colours", "virids", "--out", "a.svg"], "did you mean 'viridis'?"),
    ],
)
def test_a_wrong_flag_is_one_line(args: list[str], message: str, run: Run) -> None:
    result = run(*args, fails=True)
    assert message in error_of(result)
    assert isinstance(result.exception, ConfigError)
    assert result.stdout == ""


def test_a_packed_file_and_a_pipe_are_read(run: Run) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"un\ndeux\n")
    os.close(writing)
    Path("s.txt.gz").write_bytes(gzip.compress(b"un\ndeux\n"))
    for path in ("s.txt.gz", f"/dev/fd/{reading}"):
        result = run("--file", path, "--n-best", "1")
        texts = [json.loads(line)["source"]["text"] for line in result.stdout.splitlines()]
        assert texts == ["un", "deux"]


def test_bytes_on_stdin_that_are_no_text_are_refused(run: Run) -> None:
    result = run("--file", "-", stdin=b"abc\xff", fails=True)
    assert error_of(result) == "stdin:1: byte 0xff is not UTF-8; save the file as UTF-8"
    assert isinstance(result.exception, DataError)


@pytest.mark.parametrize("args", [["ab\udcff"], ["ab", "--target", "ab\udcff"]])
def test_an_argument_that_is_no_text_is_refused(args: list[str], run: Run) -> None:
    result = run(*args, fails=True)
    assert error_of(result) == "argument 1: not UTF-8: 'ab\\udcff'"


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory) -> Path:
    """A run of an untrained model of a few words."""
    pairs = [SentencePair("the cat sleeps .", "le chat dort ."), SentencePair("a cat", "un chat")]
    config = RunConfig.model_validate(
        {
            "name": "tiny",
            "data": {"corpus": "starter"},
            "tokenizer": {"kind": "word", "min_freq": 1},
            "model": RNNConfig(embedding=7, hidden=5).model_dump(),
            "train": {"steps": 1},
        }
    )
    run = RunDirectory.create(tmp_path_factory.mktemp("runs") / "tiny", config)
    assert isinstance(config.tokenizer, WordConfig)
    tokenizers = train_tokenizers(config.tokenizer, pairs, "en", "fr", seed=1)
    run.tokenizer_path.mkdir(exist_ok=True)
    tokenizers.save(run.tokenizer_path)
    torch.manual_seed(3)
    model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    run.checkpoint_folder.save(1, dict(model.state_dict()), {}, {})
    run.checkpoint_folder.point({"best": 1})
    return run.path


def test_a_real_run_gives_maps_whose_rows_sum_to_one(tiny_run: Path) -> None:
    sentences = ["The cat sleeps .", "", "a zebra"]
    result = CliRunner().invoke(app, [*sentences, "--run", str(tiny_run), "--beam", "2"])
    assert result.exception is None
    rows = [json.loads(line) for line in io.StringIO(result.stdout)]
    assert {(row["sentence"], row["rank"]) for row in rows} == {(1, 1), (1, 2), (3, 1), (3, 2)}
    for row in rows:
        assert row["source"]["text"] == sentences[row["sentence"] - 1]
        weights = np.array(row["weights"])
        assert weights.shape == (len(row["target"]["ids"]), len(row["source"]["ids"]))
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
        assert row["source"]["pieces"][-1] == "</s>"
        assert len(row["log_probs"]) == len(row["target"]["pieces"])


def test_a_real_run_names_its_heads(tiny_run: Path) -> None:
    arguments = ["The cat sleeps .", "--run", str(tiny_run), "--beam", "2", "--heads", "all"]
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None
    rows = [json.loads(line) for line in io.StringIO(result.stdout)]
    assert len(rows) == 2
    for row in rows:
        assert row["head_names"] == ["attention"]
        np.testing.assert_allclose(row["heads"], [row["weights"]], atol=1e-6)


def test_forcing_what_the_search_found_gives_the_same_map(tiny_run: Path) -> None:
    options = ["--run", str(tiny_run), "--beam", "1"]
    result = CliRunner().invoke(app, ["the cat sleeps .", *options])
    found = json.loads(result.stdout)
    text = " ".join(piece for piece in found["target"]["pieces"] if piece != "</s>")
    result = CliRunner().invoke(app, ["the cat sleeps .", "--target", text, *options[:2]])
    forced = json.loads(result.stdout)
    n_rows = len(found["target"]["pieces"]) - found["finished"]
    np.testing.assert_allclose(
        np.array(forced["weights"])[:n_rows], np.array(found["weights"])[:n_rows], atol=1e-5
    )
    assert forced["forced"]


def test_the_command_line_starts_without_torch_or_matplotlib() -> None:
    code = (
        "import sys, nmt.cli.attention; "
        "print({'torch', 'matplotlib', 'numpy', 'sacrebleu'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in ("set()\n", "{'numpy'}\n")  # numpy comes with nmt.types


def test_an_input_is_no_output(run: Run) -> None:
    Path("a.en").write_text("the cat\n")
    Path("link.txt").symlink_to("a.en")
    for out in ("a.en", "link.txt"):
        error = error_of(run("--file", "a.en", "--format", "text", "--out", out, fails=True))
        assert error.startswith(f"--out: {out} is read as well (--file: a.en)")
    assert Path("a.en").read_text() == "the cat\n"
    Path("t.en").write_text("the cat\n")
    Path("t.fr").write_text("le chat\n")
    error = error_of(
        run("--split", "test", "--format", "text", "--out", "t.fr", "--force", fails=True)
    )
    assert error.startswith("--out: t.fr is read as well (--split: ")


@pytest.mark.parametrize(("format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_of_other_formats(run: Run, format: str, start: bytes) -> None:
    look = ("--numbers", "--colours", "Blues", "--title", "mine")
    assert run("the cat", "--out", f"cat.{format}", *look).stdout == f"cat.{format}\n"
    assert Path(f"cat.{format}").read_bytes().startswith(start)
    assert run("a", "b", "--format", format, "--out", "maps").stdout.count(f".{format}\n") == 2
    assert run("a", "--format", format, "--out", "-").stdout_bytes.startswith(start)


def test_several_pictures_are_the_pages_of_a_pdf(run: Run) -> None:
    assert run("a", "", "b", "--out", "all.pdf", "--n-best", "2").stdout == "all.pdf\n"
    content = Path("all.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/Count 4" in content  # two sentences, two translations each
    run("a", "", "b", "--out", "again.pdf", "--n-best", "2")
    assert Path("again.pdf").read_bytes() == content
    assert run("", "", "--out", "none.pdf").stdout == ""
    assert not Path("none.pdf").exists()


def test_a_transparent_picture_has_no_background(run: Run) -> None:
    for name, flags in (("plain", []), ("clear", ["--transparent"])):
        run("the cat", "--out", f"{name}.png", *flags)
    corner = {name: imread(f"{name}.png")[0, 0, 3] for name in ("plain", "clear")}
    assert corner == {"plain": 1, "clear": 0}


def test_csv_has_a_head_and_a_line_a_weight(run: Run) -> None:
    run("the cat|s", "--out", "x.csv", "--n-best", "1")
    head, *lines = Path("x.csv").read_text(encoding="utf-8").splitlines()
    assert head == "sentence,rank,attention,head,row,row_text,column,column_text,weight"
    assert lines[0].startswith("1,1,cross,mean,1,")
    assert run("the cat|s", "--format", "csv", "--n-best", "1").stdout.splitlines() == [
        head,
        *lines,
    ]


def test_a_terminal_gets_text_and_a_pipe_data(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("the cat").stdout.startswith("{")
    monkeypatch.setattr(sys.modules["nmt.cli.attention"], "_is_terminal", lambda: True)
    assert run("the cat").stdout == run("the cat", "--format", "text").stdout
    assert run("the cat", "--out", "-").stdout.startswith("{")


def test_a_shared_scale_is_the_greatest_of_all_pictures(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nmt.attention_maps import heatmap

    figures: list[Figure] = []
    monkeypatch.setattr(heatmap, "write_map", lambda figure, *_: figures.append(figure))
    ends: dict[str, list[float]] = {}
    for scale in ("each", "shared", "0.9"):
        figures.clear()
        run("a", "the cat|s sleep on the mat", "--format", "png", "--scale", scale)
        ends[scale] = [figure.axes[0].images[0].get_clim()[1] for figure in figures]
    assert ends["shared"] == [max(ends["each"])] * 2
    assert ends["0.9"] == [0.9, 0.9]


def test_a_script_without_a_font_is_named_once(run: Run) -> None:
    result = run("a \U0010fffd", "b \U0010fffd", "--format", "png", "--title", "")
    assert result.stderr.count("no font here draws symbols") == 1


def test_a_dash_is_stdout(run: Run) -> None:
    for format in ("jsonl", "text", "pharaoh", "png", "npz"):
        result = run("the cat", "--out", "-", "--format", format)
        assert not Path("-").exists()
        starts = {"png": b"\x89PNG\r\n", "npz": b"PK\x03\x04"}
        if format in starts:
            assert result.stdout_bytes.startswith(starts[format])
            assert not result.stdout_bytes.endswith(b"-\n")
        else:
            assert result.stdout == run("the cat", "--format", format).stdout
    assert "for 2 pictures; name a folder" in error_of(
        run("a", "b", "--format", "png", "--out", "-", fails=True)
    )
