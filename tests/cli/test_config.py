"""`nmt config`: show and check, as typed."""

from pathlib import Path

import pytest
from cli.helpers import nmt, refusal

from nmt.config import load_config


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("x.yaml", "{corpus: starter}")


def write(path: str, data: str, train: str = "{epochs: 1}") -> None:
    Path(path).write_text(f"name: x\ndata: {data}\ntrain: {train}\n")


def test_show_prints_what_loads_as_the_same_config() -> None:
    settings = ["train.lr=3e-4", "search.beam=3"]
    result = nmt("config", "show", "x.yaml", *(f"--set={setting}" for setting in settings))
    Path("shown.yaml").write_text(result.stdout)
    assert load_config(Path("shown.yaml")) == load_config(Path("x.yaml"), settings)
    error = refusal("config", "show", "x.yaml", "--set", "train.learning_rate=1")
    assert error.startswith("--set train.learning_rate=1: train.learning_rate: ")


def test_check_reads_every_file_and_reports_every_fault() -> None:
    write("bad.yaml", "{corpus: starter}", "{lr: no, epocs: 1}")
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


def test_check_refuses_what_training_would() -> None:
    Path("a.en").write_text("a\nb\n")
    Path("b.fr").write_text("a\nb\nc\n")
    same = "train: {src: a.en, tgt: a.en}"
    for data, problem in (
        ("{train: {src: a.en, tgt: no.fr}}", "data.train: no.fr: no such file"),
        (f"{{{same}, valid: {{src: a.en, tgt: b.fr}}}}", "data.valid: a.en:3: no"),
        ("{corpus: starter, src_lang: de}", "data.src_lang, data.tgt_lang: got de, fr, "),
    ):
        write("x.yaml", data)
        assert refusal("config", "check", "x.yaml").startswith(f"x.yaml: {problem}")
