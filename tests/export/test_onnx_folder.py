"""ONNX export: the graphs equal the model, and the consumer in NumPy translates as nmt does."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from training.toy import toy_config, write_reversal

from nmt.errors import ConfigError, DataError
from nmt.export import ctranslate2_folder, onnx_folder
from nmt.export.folder import check_packages
from nmt.export.onnx_folder import export_onnx
from nmt.models.state_tensors import named_tensors
from nmt.ops.masks import keep_from_lengths
from nmt.runs.trained_run import TrainedRun
from nmt.storage.atomic import ASIDE
from nmt.training.loop import train
from nmt.translation.translator import Translator

_RNN = {"kind": "rnn", "embedding": 6, "hidden": 10, "dropout": 0.0}
_LAYERS = {"layers": 1, "decoder_layers": 2, "dropout": 0.0}
_TRANSFORMER = {"kind": "transformer", "size": 12, "heads": 2, **_LAYERS}
_LOCAL = {"kind": "local_p", "window": 2}
_TIED = {"tie_embeddings": "target"}
MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": _RNN,
    "conditional-two-layers": {
        **{**_RNN, **_TIED, "layers": 2, "embedding": 10},
        "decoder": {"kind": "conditional"},
    },
    "luong-lstm-local-coverage": {
        **{**_RNN, "encoder": {"cell": "lstm"}, "decoder": {"kind": "luong", "cell": "lstm"}},
        "attention": {"kind": "general", "span": _LOCAL, "coverage": {"kind": "sum"}},
    },
    "transformer-tied": {**_TRANSFORMER, **_TIED},
    "transformer-learned-post": {
        **{**_TRANSFORMER, "norm": "post"},
        "positions": {"kind": "learned", "max_length": 1000},
    },
}
QUICK = ("transformer-tied", "bahdanau")
DTYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(bool)": "bool"}
TOLERANCE = 1e-5
"""The largest difference of a log-probability, weight or tensor of the state that is allowed."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    write_reversal(folder, n_train=120, n_test=12)
    return folder


@pytest.fixture(
    scope="module",
    params=[*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in MODELS if n not in QUICK)],
)
def exported(
    request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TrainedRun, Path]:
    """A run that has begun to learn, and its folder."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"needs {package}: pip install 'attention-nmt[onnx]'")
    path = tmp_path_factory.mktemp("run") / request.param  # pytest may build a fixture again
    model = MODELS[request.param]
    train(toy_config(corpus, model=model, train={"epochs": 3, "batch_size": 8}), path, quiet=True)
    run = TrainedRun.open(path)
    out = path.with_suffix(".onnx")
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)  # its checks would fix the traced sizes
    try:
        is_first = request.param == QUICK[0]
        assert export_onnx(run, "last", out, int8=is_first) == out / "manifest.json"
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
    return run, out


def manifest_of(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


@torch.inference_mode()
def test_the_graphs_equal_the_model_for_any_sizes(exported) -> None:
    from onnx_translate import OnnxTranslator

    run, folder = exported
    consumer = OnnxTranslator(folder)
    model = run.with_config(["model.backend=reference"]).load_model("last", torch.device("cpu"))
    after = consumer.manifest["state"]
    differences = []

    def compare(ours: torch.Tensor, theirs: np.ndarray) -> None:
        assert ours.shape == theirs.shape
        if ours.numel():
            differences.append(np.abs(ours.double().numpy() - theirs.astype(float)).max())

    for sources in ([(5, 6, 7, 8, 4, 9, 3), (9, 4, 3), (4, 3)], [(3,)]):
        lengths = torch.tensor([len(source) for source in sources])
        width = int(lengths.max())
        ids = torch.tensor([[*source, *[0] * (width - len(source))] for source in sources])
        state = model.model.init_state(model.model.encode(ids, keep_from_lengths(lengths, width)))
        feeds = consumer.run("encoder", {"src_ids": ids.numpy(), "src_lengths": lengths.numpy()})
        for name, theirs in feeds.items():
            compare(named_tensors(state)[name], theirs)
        rows = torch.arange(len(sources))
        last, which = torch.full_like(rows, 2), rows
        for piece in (4, 5, 6):
            out = model.model.step(last, state)
            inputs = {"last_ids": last.numpy(), "sentences": which.numpy()}
            outputs = consumer.run("step", {**inputs, **feeds})
            compare(out.logits.log_softmax(dim=1), outputs["log_probs"])
            compare(out.weights, outputs["weights"])
            rows = torch.arange(len(which))[[-1, 0, -1]]  # a sentence may lose all its rows
            rows, _ = rows.sort()
            state = out.state.select(rows)
            feeds.update({name: outputs[output][rows.numpy()] for output, name in after.items()})
            which, last = which[rows], torch.full_like(rows, piece)
    assert max(differences) < TOLERANCE


def test_the_consumer_reads_what_the_manifest_has_checksums_of(exported, tmp_path) -> None:
    from onnx_translate import OnnxTranslator

    folder = tmp_path / "folder"
    shutil.copytree(exported[1], folder)
    shutil.copy(folder / "step.onnx", tmp_path / "outside.onnx")
    text = (folder / "manifest.json").read_text("utf-8")
    checksum = json.loads(text)["sha256"]["step.onnx"]
    for old, new in (('"step.onnx",', '"../outside.onnx",'), (checksum, "0" * 64)):
        assert old in text
        (folder / "manifest.json").write_text(text.replace(old, new), "utf-8")
        with pytest.raises(ValueError, match=r"manifest\.json"):
            OnnxTranslator(folder)


@pytest.mark.parametrize("beam", [1, 5])
def test_the_consumer_translates_as_nmt_does(exported, corpus, beam) -> None:
    from onnx_translate import OnnxTranslator

    run, folder = exported
    lines = (corpus / "test.tsv").read_text(encoding="utf-8").splitlines()
    texts = [*(line.split("\t")[0] for line in lines), "a b a b a b a b a b", "x", ""]
    translator = Translator.load(run, "cpu", "last", {"beam": beam})
    expected = [translation.text for translation in translator.translate(texts)]
    consumer = OnnxTranslator(folder, beam=beam)
    assert len(set(expected)) > 1
    assert [consumer.translate(text) for text in texts] == expected


def test_the_manifest_is_true(exported) -> None:
    import onnxruntime

    run, folder = exported
    manifest = manifest_of(folder)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(manifest["sha256"]) == names - {"manifest.json"}
    for name, checksum in manifest["sha256"].items():
        content = (folder / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == checksum
        assert b"/nmt/models/" not in content  # no traces of this machine
    cached = {f"layers.{i}.target.{x}" for i in (0, 1) for x in ("keys", "values")}
    states = {"bahdanau": {"hidden"}, "transformer-tied": cached}
    if folder.stem in states:
        assert set(manifest["state"].values()) == states[folder.stem]
    assert manifest["ids"] == {"pad": 0, "unk": 1, "bos": 2, "eos": 3}
    assert manifest["languages"] == {"src": "en", "tgt": "de"}
    assert manifest["search"] == run.config.search.model_dump(mode="json")
    assert {file["file"] for file in manifest["data"]["files"]} >= {"train.tsv"}
    assert manifest["data"]["licence"] is None
    for graph in manifest["graphs"].values():
        for file in filter(None, (graph["file"], graph.get("int8"))):
            session = onnxruntime.InferenceSession(folder / file)
            inputs = [(port["name"], port["dtype"], port["shape"]) for port in graph["inputs"]]
            ports = session.get_inputs()
            assert [(port.name, DTYPES[port.type], port.shape) for port in ports] == inputs
            outputs = [port.name for port in session.get_outputs()]
            assert outputs == [output["name"] for output in graph["outputs"]]
    with pytest.raises(DataError, match="it already exists"):
        export_onnx(run, "last", folder)
    assert not list(folder.parent.glob(f"{ASIDE}*"))


def test_int8_copies_translate_without_pytorch(exported) -> None:
    _, folder = exported
    if "int8" not in manifest_of(folder)["graphs"]["step"]:
        pytest.skip("the int8 copies of one model are enough")
    code = (
        "import sys; sys.path.insert(0, 'scripts'); from pathlib import Path; "
        "from onnx_translate import OnnxTranslator; "
        f"print(OnnxTranslator(Path({str(folder)!r}), int8=True).translate('a b c')); "
        "assert 'torch' not in sys.modules"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.strip()


@pytest.mark.parametrize(
    ("layout", "model", "key"),
    [
        (onnx_folder, {**_RNN, "attention": {"kind": "location"}}, "attention.kind"),
        (onnx_folder, {**_TRANSFORMER, "self_attention_window": 3}, "self_attention_window"),
        (ctranslate2_folder, _RNN, "kind"),
        (ctranslate2_folder, {**_TRANSFORMER, "positions": {"kind": "relative"}}, "positions.kind"),
        (ctranslate2_folder, {**_TRANSFORMER, "self_attention_window": 3}, "self_attention_window"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_layout_has_no_place_for_is_named(corpus, layout, model, key) -> None:
    with pytest.raises(ConfigError, match=rf"cannot export model\.{key}: got "):
        layout.check_exportable(toy_config(corpus, model=model))


def test_a_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs onnx: pip install 'attention-nmt\[onnx\]'"):
        check_packages("onnx", "onnx")
