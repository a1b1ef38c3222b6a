"""`nmt config`: show, check and list, as typed."""

from pathlib import Path

import pytest
from cli.helpers import nmt, refusal

from nmt.config import load_config


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("{corpus: starter}")
    Path("bad.yaml").write_text("name: x\ndata: {corpus: starter}\ntrain: {lr: no, epocs: 1}\n")


def write(data: str) -> None:
    Path("x.yaml").write_text(f"name: x\ndata: {data}\ntrain: {{epochs: 1}}\n")


def test_show_prints_what_loads_as_the_same_config() -> None:
    settings = ["train.lr=3e-4", "search.beam=3"]
    flags = [word for setting in settings for word in ("--set", setting)]
    result = nmt("config", "show", "x.yaml", *flags)
    Path("shown.yaml").write_text(result.stdout)
    assert load_config(Path("shown.yaml")) == load_config(Path("x.yaml"), settings)
    error = refusal("config", "show", "x.yaml", "--set", "train.learning_rate=1")
    assert error.startswith("--set train.learning_rate=1: train.learning_rate: ")


def test_check_reads_every_file_and_reports_every_fault() -> None:
    result = nmt("config", "check", "bad.yaml", "x.yaml", "none.yaml", ".", code=2)
    assert result.stdout == "x.yaml: valid\n"
    assert result.stderr.splitlines() == [
        "error: bad.yaml:3: train.lr: got 'no', allowed: a number",
        "error: bad.yaml:3: train.epocs: unknown key; did you mean 'train.epochs'?",
        f"error: none.yaml: no such file; relative paths start in {Path.cwd()}",
        "error: .: got a folder, allowed: a YAML file",
    ]
    Path("run").mkdir()
    Path("run/config.yaml").write_text("name: x\n")
    assert "did you mean 'run/config.yaml'?" in refusal("config", "check", "run")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("{train: {src: a.en, tgt: no.fr}}", "data.train: no.fr: no such file"),
        (
            "{train: {src: a.en, tgt: a.en}, valid: {src: a.en, tgt: b.fr}}",
            "data.valid: a.en:3: no",
        ),
        ("{corpus: starter, src_lang: de}", "data.src_lang, data.tgt_lang: got de, fr, "),
    ],
)
def test_check_refuses_what_training_would(data: str, problem: str) -> None:
    Path("a.en").write_text("a\nb\n")
    Path("b.fr").write_text("a\nb\nc\n")
    write(data)
    assert refusal("config", "check", "x.yaml").startswith(f"x.yaml: {problem}")
