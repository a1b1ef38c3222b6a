"""Packed runs in int8, and the models that come with nmt, which commands accept by name."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cli.helpers import brief_config, nmt, refusal
from forging import forge_tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import CheckpointError
from nmt.runs.builtin import FOLDER
from nmt.runs.checkpoint_files import JSON, MODEL, read_state, read_tensors, write_files
from nmt.runs.pack import quantize, unpack
from nmt.runs.trained_run import TrainedRun
from nmt.storage.tensor_file import SCALES, specs_of
from nmt.training.loop import train
from nmt.translation.translator import Translator

CPU = torch.device("cpu")
NAME = "everyday-en-fr"
Tensors = dict[str, torch.Tensor]


@given(st.tuples(st.integers(1, 5), st.integers(1, 5)), st.integers(-30, 30), st.integers(0))
@settings(max_examples=25, deadline=None)
def test_an_int8_matrix_is_within_half_a_scale(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, int], exponent: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed % 2**60)
    matrix = torch.randn(shape, generator=generator) * 2.0**exponent
    matrix[0] *= seed % 2  # some matrices have a row of zeros
    tensors = {"matrix": matrix, "vector": matrix[0] + 1, "count": torch.tensor([[3]])}
    folder = tmp_path_factory.mktemp("x") / "checkpoints" / "step-000001"
    folder.mkdir(parents=True)
    stored = quantize(tensors)
    write_files(folder, 1, stored, None, {})
    loaded = read_tensors(folder / MODEL, read_state(folder / JSON), specs_of(tensors))
    assert specs_of(loaded) == specs_of(tensors)
    for name in ("vector", "count"):
        assert torch.equal(loaded[name], tensors[name])
    scales = stored["matrix" + SCALES].unsqueeze(1)
    assert ((loaded["matrix"] - matrix).abs() <= scales * 0.5001).all()
    assert torch.equal(quantize(loaded)["matrix"], stored["matrix"])


@pytest.fixture
def model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of a built-in model; the current folder has no runs."""
    shutil.copytree(folder / "run", folder / NAME)
    archive = folder / "models" / f"{NAME}.zip"
    nmt("runs", "pack", "--int8", NAME, "--out", archive)
    monkeypatch.setattr("nmt.runs.builtin.FOLDER", archive.parent)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    return archive


def test_an_int8_archive_is_a_smaller_run_with_weights_only(model: Path) -> None:
    nmt("runs", "pack", model.parents[1] / "run", "--out", "fp32.zip")
    assert model.stat().st_size < 0.5 * Path("fp32.zip").stat().st_size
    run = unpack(model)
    config = brief_config(model.parents[1], epochs=9)
    with pytest.raises(CheckpointError, match=r"has weights without a training state; .*init_from"):
        train(config, run, quiet=True)
    exact, stored = (TrainedRun.open(p).load_model("best", CPU) for p in ("fp32.zip", model))
    weights = stored.model.state_dict()
    for name, weight in exact.model.state_dict().items():
        assert torch.equal(weights[name], weight) == (weight.dim() != 2), name


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda t, n: t.pop(n + SCALES), "allowed: F32 "),
        (lambda t, n: t.update({n: t[n][1:], n + SCALES: t[n + SCALES][1:]}), "allowed: F32 "),
        (lambda t, n: t.update({"x" + s: t.pop(n + s) for s in ("", SCALES)}), "missing"),
        (lambda t, n: t[n + SCALES].fill_(float("nan")), "NaN or infinite"),
    ],
)
def test_forged_int8_weights_are_refused(
    model: Path, forge: Callable[[Tensors, str], object], reason: str
) -> None:
    run = unpack(model)
    [checkpoint] = (run / "checkpoints").glob("step-*")

    def change(tensors: Tensors) -> None:
        forge(tensors, min(name for name in tensors if name + SCALES in tensors))

    forge_tensors(checkpoint, "model", change)
    with pytest.raises(CheckpointError, match=reason) as caught:
        TrainedRun.open(run).load_model("best", CPU)
    assert "\n" not in str(caught.value)


def test_the_built_in_model_answers_if_there_is_no_run(model: Path) -> None:
    answer = nmt("translate", "a b c")
    expected = Translator.load(NAME).translate(["a b c"])[0].text
    assert answer.stdout == f"{expected}\n"
    [note] = answer.stderr.splitlines()
    assert NAME in note
    assert NAME in nmt("attention", "a b c", "--format", "text").stderr
    for command in (["eval"], ["runs", "show"], ["report"]):  # these are about a run of one's own
        assert "no folder 'runs' here" in refusal(*command)
    (model.parents[1] / "runs").mkdir()
    shutil.move(model.parents[1] / "run", "runs/mine")
    assert "runs/mine" in nmt("translate", "a b c").stderr
    model.unlink()
    assert nmt("translate", "a b c").stderr == "run: runs/mine\n"


def test_the_name_stands_for_a_run_in_all_commands(model: Path) -> None:
    home = model.parents[1]
    assert "finished" in nmt("runs", "show", NAME).stdout
    assert "pieces" in nmt("vocab", "show", "--run", NAME).stdout
    assert NAME in nmt("doctor").stdout
    assert refusal("translate", "--run", "everyday-en-f", "a").endswith(f"did you mean '{NAME}'?")
    compared = nmt("compare", NAME, home / "run", model, "--bleu").stdout
    for name in (NAME, model):
        assert str(name) in compared
        assert f"--run {name} translates with the run" in nmt("translate", name).stderr
    quick = ("--steps", "1", "--set", "train.epochs=null", "--set", f"train.init_from={NAME}")
    nmt("train", "--config", home / "toy.yaml", "--run", "new", *quick)
    shutil.copytree("new", NAME)  # what exists is meant, as everywhere
    assert TrainedRun.open(NAME).path == Path(NAME)
    assert nmt("runs", "show", NAME).stdout.split()[1] == NAME


def test_what_a_packed_run_lacks_is_said_by_its_name(model: Path) -> None:
    """Not by the temporary folder to which it is unpacked, in which nothing can be kept."""
    average, search = ("average", "--last", "1", "--run"), ("translate", "a", "--run")
    confidence = [("calibrate", "--run"), ("translate", "a", "--confidence", "--run")]
    others = [["report"], ["curve"], ["card"], ["runs", "pack"], average]
    for name in (NAME, model):
        for command in (*others, *confidence):
            error = refusal(*command, name)
            assert error.startswith(f"{name}: ")
            assert f"unzip {model}" in error or command not in confidence
        assert refusal(*search, name, "--checkpoint", "step-9").startswith(f"{name}/")
        assert nmt("runs", "show", name).stdout.split()[1] == str(name)
    scores = nmt("eval", "--run", NAME, "--no-bootstrap", "--json")
    assert json.loads(scores.stdout)["run"] == NAME
    assert f"scores are not saved: {NAME} is a packed run\n" in scores.stderr
    assert "nmt-run-" not in scores.stderr
    assert not Path(NAME).exists()


ARCHIVES = sorted(FOLDER.glob("*.zip"))
SENTENCES = {
    "en": ["Where is the train station?", "I am tired.", "Thank you very much."],
    "fr": ["Où est la gare ?", "Je suis fatigué.", "Merci beaucoup."],
}


@pytest.mark.skipif(not ARCHIVES, reason="no model comes with this copy")
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_models_that_come_with_nmt_are_those_described(archive: Path) -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    content = archive.read_bytes()
    assert f"{archive.name}: {len(content)} bytes, " in text
    assert hashlib.sha256(content).hexdigest() in text
    assert len(content) <= 5_000_000
    translator = Translator.load(archive.stem, "cpu")
    source, target = translator.languages
    assert archive.stem == f"everyday-{source}-{target}"
    for translation in translator.translate(SENTENCES[source]):
        assert translation.hypotheses[0].hypothesis.finished
        assert "<unk>" not in translation.text
        assert not re.search(r"\b(.+)( \1\b){2}", translation.text)
