"""`nmt attention` over an untrained run: its sources, formats and files."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli.helpers import ENGLISH, nmt, refusal, untrained_run
from click.testing import Result
from matplotlib.figure import Figure

from nmt.errors import ConfigError
from nmt.explain import heatmap
from nmt.translation.dump import read_npz
from nmt.translation.translator import Translator

pytestmark = pytest.mark.usefixtures("home")


def run(*arguments: object, stdin: bytes = b"") -> Result:
    return nmt("attention", *arguments, stdin=stdin)


def records(result: Result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


def test_jsonl_of_the_whole_beam_goes_to_stdout() -> None:
    result = run("the cat", "a dog")
    places = [(row["sentence"], row["rank"]) for row in records(result)]
    assert places == [(sentence, rank) for sentence in (1, 2) for rank in (1, 2, 3)]
    assert result.stderr == "run: runs/tiny\n"


FORMATS = {
    **{"jsonl": b"{", "npz": b"PK\x03\x04", "text": b"[1] ", "html": b"<!doctype html>"},
    **{"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF"},
}


@pytest.mark.parametrize(("format", "start"), FORMATS.items())
def test_each_format_goes_to_a_file_or_to_stdout(format: str, start: bytes) -> None:
    """A suffix in capitals tells the format too."""
    flags = () if format not in ("text", "html") else ("--format", format)
    path = Path(f"new/X.{format.upper()}")
    assert run("the cat", *flags, "--out", path).stdout == f"{path}\n"
    assert path.read_bytes().startswith(start)
    assert run("the cat", "--format", format, "--out", "-").stdout_bytes.startswith(start)
    assert not Path("-").exists()


def test_several_pictures_are_a_folder_and_have_one_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("--format", "png", "--out", "maps", "--n-best", "2", "--scale", "0.9")
    figures: list[Figure] = []
    monkeypatch.setattr(heatmap, "write_map", lambda figure, *_: figures.append(figure))
    result = run("a", "", "the cat", *flags)
    names = [f"maps/attention_00000{n}_{rank}.png" for n in (1, 3) for rank in (1, 2)]
    assert result.stdout.split() == names
    assert result.stderr.endswith("1 of 3 sentences are empty: no attention\n")
    assert [figure.axes[0].images[0].get_clim()[1] for figure in figures] == [0.9] * 4
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
    flags = ("--target", "le chat", "--target", "l'homme dort")
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
    text = run("the cat", *flags, "--format", "text").stdout
    assert text.count("erasure against est\n") == 1
    assert re.search(r"[0-9]%\n", text)
    for format in ("npz", "html", "svg"):
        run("the cat", *flags, "--n-best", "1", "--format", format, "--out", f"x.{format}")
        assert Path(f"x.{format}").read_bytes().startswith(FORMATS[format])


def test_self_attention_of_every_layer_and_head(home: Path) -> None:
    """As Python gives it, of all hypotheses of the beam; the same with or without a batch."""
    model = "{kind: transformer, size: 32, heads: 4, layers: 1, decoder_layers: 2}"
    path = untrained_run(home, "layers", model=model)
    run("the cat", "", "he is", "--run", path, "--heads", "all", "--out", "dump.npz")
    translator = Translator.load(path, "cpu", search={"beam": 3, "max_length": 9})
    plain = translator.translate(["the cat", "he is"], n_best=3)
    alone = [translator.with_self_attention([translation])[0] for translation in plain]
    hypotheses = [hypothesis for translation in alone for hypothesis in translation.hypotheses]
    for record, hypothesis in zip(read_npz(Path("dump.npz")), hypotheses, strict=True):
        heads = [f"layer {m} head {n}" for m in (1, 2) for n in range(1, 5)]
        assert list(record.head_names) == heads
        np.testing.assert_allclose(record.heads[:4].mean(axis=0), record.weights, atol=1e-4)
        encoder, decoder = record.self_attention["encoder"], record.self_attention["decoder"]
        assert decoder.labels == ("<s>", *hypothesis.target.pieces)
        assert encoder.head_names == tuple(f"encoder layer 1 head {n}" for n in range(1, 5))
        for name, attention in record.self_attention.items():
            expected = hypothesis.hypothesis.self_heads[name]
            np.testing.assert_allclose(attention.heads, expected, atol=1e-5)
            np.testing.assert_allclose(attention.heads.sum(axis=2), 1, atol=1e-5)
        assert (np.triu(decoder.heads, 1) == 0).all()
    without = [h.hypothesis for translation in plain for h in translation.hypotheses]
    assert [replace(h.hypothesis, self_heads={}) for h in hypotheses] == without
    flags = ("--heads", "decoder.2.3", "--format", "text", "--target", "chat est")
    lines = run("the cat", "--run", path, *flags).stdout.splitlines()
    assert lines[2] == "decoder layer 2 head 3"
    assert [line.split()[0] for line in lines[6:9]] == ["<s>", "chat", "est"]
    with pytest.raises(ConfigError, match=r"^with_self_attention: this model has none: it is rec"):
        Translator.load("runs/tiny").with_self_attention([])


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
