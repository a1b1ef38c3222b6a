"""A run that somebody else made: whatever its files say, it is refused in a line or it translates.

The damage here has the right checksums and the right seal: it is what was meant, not an accident.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from forging import forge_config, forge_manifest, forge_tensors, seal
from runs.test_directory import CPU, make_run

from nmt.errors import CheckpointError, NMTError
from nmt.runs.directory import RunDirectory
from nmt.runs.trained_run import TrainedRun

Forge = Callable[[Path], object]
"""Changes the run in a folder."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that loads, not to be changed."""
    path = make_run(tmp_path_factory.mktemp("sound") / "x").path
    TrainedRun.open(path).load_model("last", CPU)
    return path


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "x"))


def checkpoint(run: Path) -> Path:
    return run / "checkpoints" / "step-000003"


def with_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Forge:
    return lambda run: forge_tensors(checkpoint(run), "model", change)


def with_state(**changes: object) -> Forge:
    return lambda run: seal(checkpoint(run), lambda content: content.update(changes))


def with_config(old: str, new: str) -> Forge:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return lambda run: forge_config(run, change)


def linked(name: str) -> Forge:
    """Replace a part of the run by a link to the same thing outside of it."""

    def forge(run: Path) -> None:
        outside = run.parent / "outside"
        os.rename(run / name, outside)
        (run / name).symlink_to(outside)

    return forge


def with_tokenizer(content: bytes) -> Forge:
    def forge(run: Path) -> None:
        (run / "tokenizer" / "joint.vocab.txt").write_bytes(content)
        side = {"name": "joint.vocab.txt", "sha256": hashlib.sha256(content).hexdigest()}
        forge_manifest(run, src=side, tgt=side)

    return forge


def with_terabyte(run: Path) -> None:
    """Claim a terabyte of weights, none of it on the disk: nothing is to be allocated for it."""
    entry = {"dtype": "F32", "shape": [1 << 38], "data_offsets": [0, 1 << 40]}
    header = json.dumps({"a": entry}).encode()
    with (checkpoint(run) / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 40))


CASES: list[tuple[str, Forge, str]] = [
    ("a weight is NaN", with_weights(lambda t: t[min(t)].view(-1)[:1].fill_(float("nan"))),
     "model.safetensors: decoder.attention.W_k.weight: 1 of 154 numbers are NaN or infinite"),
    ("fp64 weights", with_weights(lambda t: t.update({k: v.double() for k, v in t.items()})),
     "does not fit config.yaml and tokenizer: 'decoder.attention.W_k.weight': got F64 ("),
    ("another name", with_weights(lambda t: t.update(evil=t.pop("decoder.output.bias"))),
     "does not fit config.yaml and tokenizer: 'decoder.output.bias': missing (and 1 more)"),
    ("a model beyond counting", with_config("    size: 7", f"    size: {2**61}"),
     ": model: no such model can be built: "),
    ("a model without end", with_config("layers: 1", "layers: 1000000000"),
     "model.layers: got 1000000000, allowed: <= 100"),
    ("a search without end", with_config("max_length: 1000", f"max_length: {2**63 - 1}"),
     "search.max_length: got 9223372036854775807, allowed: <= 100000"),
    ("another size", with_config("    size: 7", "    size: 5"),
     "step-000003: does not fit config.yaml and tokenizer: 'decoder.attention.W_k.weight': "),
    ("a terabyte of weights", with_terabyte, "does not fit config.yaml and tokenizer: "),
    ("no checksums", with_state(sha256={}), "model.safetensors: damaged: it does not match"),
    ("a step that is none", with_state(step="3"), "state.json: damaged: 'step'"),
    ("weights elsewhere", linked("checkpoints/step-000003/model.safetensors"),
     "model.safetensors: a link out of "),
    ("a checkpoint elsewhere", linked("checkpoints/step-000003"),
     "step-000003: a symbolic link, expected a folder"),
    ("checkpoints elsewhere", linked("checkpoints"), "labels.json: a link out of "),
    ("tokenizers elsewhere", linked("tokenizer"), "tokenizer: a link out of "),
    ("a tokenizer that is no text", with_tokenizer(b"\xff\xfe\n"),
     "joint.vocab.txt: not UTF-8 at byte 0"),
    ("too many words", with_tokenizer(b"<pad>\n<unk>\n<s>\n</s>\n" + b"a\n" * 1_000_000),
     "joint.vocab.txt: more than the 1,000,000 words that a vocabulary may have"),
    ("a tokenizer of another kind", lambda run: forge_manifest(run, config={"kind": "os.system"}),
     "tokenizer.json: 'config': "),
    ("a vocabulary outside of the folder",
     lambda run: forge_manifest(run, src={"name": "../x.vocab.txt", "sha256": "0" * 64}),
     "tokenizer.json: 'src.name': "),
]  # fmt: skip


@pytest.mark.parametrize(("forge", "reason"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_forged_run_is_refused_in_one_line(run: Path, forge: Forge, reason: str) -> None:
    forge(run)
    with pytest.raises(NMTError) as caught:
        TrainedRun.open(run).load_model("last", CPU)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_links_within_the_run_and_to_it_are_its_own(run: Path) -> None:
    path = checkpoint(run) / "model.safetensors"
    os.rename(path, run / "weights")
    path.symlink_to("../../weights")
    (run.parent / "link").symlink_to(run)
    for name in (run, run.parent / "link"):
        assert TrainedRun.open(name).load_model("last", CPU).step == 3
    linked("checkpoints/step-000003/state.safetensors")(run)
    with pytest.raises(CheckpointError, match=r"state\.safetensors: a link out of "):
        RunDirectory(run).checkpoint_folder.load("last")


def test_an_edit_of_the_config_by_hand_is_said(run: Path) -> None:
    """Cut short, it would silently mean the defaults of what is gone."""
    path = run / "config.yaml"
    text = path.read_text()
    below = text.partition("\n")[2]
    edits = [text.replace("beam: 5", "beam: 4"), text[: text.index("search:")], text + "\n"]
    for edited in edits:
        path.write_text(edited)
        with pytest.raises(CheckpointError, match=f"^{path}: changed since nmt wrote it; "):
            TrainedRun.open(run).load_model("last", CPU)
    path.write_text(below.replace("beam: 5", "beam: 4"))
    assert TrainedRun.open(run).load_model("last", CPU).config.search.beam == 4
    RunDirectory(run).write_config(TrainedRun.open(run).with_config(["search.beam=3"]).config)
    assert path.read_text().startswith("# sha256 of the lines below: ")
    assert TrainedRun.open(run).load_model("last", CPU).config.search.beam == 3
