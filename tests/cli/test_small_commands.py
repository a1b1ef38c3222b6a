"""Commands that a test or two are enough for: doctor, export of a page, lab, score, vocab."""

import json
from pathlib import Path

import pytest
import torch
from cli.helpers import nmt, refusal, write_lines

from nmt import device
from nmt.lab.experiments import EXPERIMENTS
from nmt.ops.native.library import loaded_library
from nmt.text.tokenizer import WordConfig, train_tokenizers
from nmt.translation.translator import Translator
from nmt.types import SentencePair


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_doctor_names_versions_devices_and_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.cli.commands.doctor._PACKAGES", ("torch", "no-such-package"))
    monkeypatch.setenv("NMT_DATA", "/some/where")
    monkeypatch.setattr(device, "bf16_unit", lambda _: "AVX512-BF16")
    lines = {line[:14].rstrip(): line[14:] for line in nmt("doctor").stdout.splitlines()}
    assert f"torch {torch.__version__}, no-such-package (not installed)" in lines["nmt"]
    assert lines["threads"].startswith(f"{torch.get_num_threads()} ")
    assert (lines["corpora in"], lines["fast bf16"]) == ("/some/where", "AVX512-BF16")
    if not loaded_library().why_not:
        assert lines["backend fp32"].startswith("native: ")
        assert lines["native code"].startswith("compiled for ")


def test_a_page_is_one_new_file_in_int8_or_fp16(home: Path) -> None:
    page = ("export", "runs/tiny", "--format", "page", "--out")
    assert nmt(*page, "page.html").stdout == "page.html\n"
    content = Path("page.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in content
    assert str(home) not in content
    assert "page.html" in refusal(*page, "page.html")
    assert nmt(*page, "-").stdout == content
    nmt(*page, "half.html", "--fp16")
    assert len(Path("half.html").read_text(encoding="utf-8")) > len(content)


def test_lab_writes_numbers_and_a_picture() -> None:
    assert [line.split()[0] for line in nmt("lab").stdout.splitlines()] == list(EXPERIMENTS)
    result = nmt("lab", "masks")
    assert result.stdout.splitlines()[-2:] == ["lab/masks.json", "lab/masks.png"]
    assert {"nmt", "torch"} <= set(json.loads(Path("lab/masks.json").read_text())["versions"])
    assert Path("lab/masks.png").read_bytes().startswith(b"\x89PNG")
    result = nmt("lab", "masks", "--json", "--seed", "7", "--set", "size=4", "--out", "here/there")
    assert result.stdout == Path("here/there/masks.json").read_text()
    options = json.loads(result.stdout)["options"]
    assert (options["seed"], options["size"]) == (7, 4)


def test_a_score_is_the_log_probability_of_its_pair(folder: Path) -> None:
    sources, targets = ["a b c d", "c b a", ""], ["d c b a", "a b c", "x"]
    command = ("score", write_lines(folder / "en", sources), write_lines(folder / "de", targets))
    result = nmt(*command, "--run", "run")
    forced = Translator.load(Path("run")).force(sources, targets)
    log_probs = [t.hypotheses[0].hypothesis.log_probs if t.hypotheses else () for t in forced]
    lines = result.stdout.split("\n")[:-1]
    assert lines[2] == ""
    assert [float(line or 0) for line in lines] == pytest.approx([*map(sum, log_probs)], abs=1e-5)
    n, total = sum(map(len, log_probs)), sum(map(sum, log_probs))
    assert f"{n} pieces, {total / n:.4f} nats each" in result.stderr
    flags = ("--run", "run", "--json", "--per-piece", "--batch-size", "1")
    records = [json.loads(line) for line in nmt(*command, *flags).stdout.splitlines()]
    assert [record["source"] for record in records] == sources
    assert records[2]["score"] is None
    assert records[0]["log_probs"] == pytest.approx(log_probs[0], abs=1e-5)
    assert records[0]["pieces"][-1] == "</s>"
    assert records[0]["score"] == pytest.approx(sum(log_probs[0]) / len(log_probs[0]), abs=1e-5)


def test_vocab_lists_pieces_and_cuts_a_text() -> None:
    pairs = [SentencePair("The cat.", "Le chat."), SentencePair("The dog?", "Le chien\u202f?")]
    tokenizers = train_tokenizers(WordConfig(min_freq=1), pairs, "en", "fr", seed=1)
    Path("x/tokenizer").mkdir(parents=True)  # as of a run just begun
    tokenizers.save(Path("x/tokenizer"))
    show = ("vocab", "show", "--run")
    lines = nmt(*show, "x", "--side", "tgt", "--first", "5").stdout.splitlines()
    assert lines[0] == "tgt fr: 9 pieces, word"
    assert [line.split() for line in lines[4:]] == [["3", "</s>"], ["4", "Le"]]
    shown = nmt(*show, "x", "--side", "tgt", "Le chat rit\u00a0?").stdout
    fields = {line[:12].rstrip(): line[12:] for line in shown.splitlines()}
    assert (fields["pieces"], fields["unknown"]) == ("Le chat rit ?", "rit")
    assert fields["decoded"] == "Le chat <unk>\u202f?"
