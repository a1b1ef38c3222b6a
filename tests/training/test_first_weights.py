"""First weights of another run or of a file, and frozen ones."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forging import forge_tensors
from training.toy import last_checkpoint, toy_config, write_reversal

from nmt.config import RunConfig
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.runs.trained_run import TrainedRun
from nmt.training.first_weights import run_named
from nmt.training.loop import train

TABLE = "encoder.embedding.weight"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=60, n_test=5)
    train(toy_config(folder, train={"epochs": 3}), folder / "first", quiet=True)
    return folder


def config(begun: Path, model: dict[str, Any] | None = None, **train: Any) -> RunConfig:
    sections = {} if model is None else {"model": model}
    return toy_config(
        begun, train={"init_from": str(begun / "first"), "epochs": 1, **train}, **sections
    )


def log_of(run: Path) -> str:
    return (run / "train.log").read_text(encoding="utf-8")


def test_a_training_begins_where_the_other_run_ended(begun: Path, tmp_path: Path) -> None:
    """With a vanishing learning rate the weights stay those of the named checkpoint."""
    for checkpoint in ("last", "best"):
        chosen = config(begun, init_from=f"{begun / 'first'}@{checkpoint}", lr=1e-30)
        run = tmp_path / checkpoint
        train(chosen, run, quiet=True)
        _, wanted = TrainedRun.open(begun / "first").directory.checkpoint_folder.load_weights(
            checkpoint
        )
        got = last_checkpoint(run).model_tensors
        assert got.keys() == wanted.keys()
        assert all(torch.equal(got[name], wanted[name]) for name in wanted)
        for side in ("src", "tgt"):
            ours, theirs = (TrainedRun.open(path).tokenizers() for path in (run, begun / "first"))
            assert getattr(ours, side).model_bytes == getattr(theirs, side).model_bytes


def test_a_run_whose_path_has_an_at_sign_is_found(begun: Path, tmp_path: Path) -> None:
    run = tmp_path / "a@b" / "first@last"
    run.parent.mkdir()
    run.symlink_to(begun / "first")
    opened = [run_named(str(run)), run_named(f"{run}@last")]
    assert [(other.path, checkpoint) for other, checkpoint in opened] == [
        (run, "best"),
        (run, "last"),
    ]


def test_what_does_not_fit_is_named_and_drawn(begun: Path, tmp_path: Path) -> None:
    model = {"hidden": 7, "decoder": {"kind": "luong"}}
    train(config(begun, model), tmp_path / "run", quiet=True)
    log = log_of(tmp_path / "run")
    assert "other shapes, drawn anew: " in log
    assert "not in it, drawn anew: " in log
    assert "decoder.W_c.weight" in log


def test_nothing_that_fits_is_an_error(begun: Path, tmp_path: Path) -> None:
    model = {"kind": "transformer", "size": 12, "heads": 2, "layers": 1}
    with pytest.raises(ConfigError, match=r"init_from: .*first: none of its matrices"):
        train(config(begun, model), tmp_path / "run", quiet=True)
    with pytest.raises(CheckpointError, match="no such run"):
        train(config(begun, init_from=str(tmp_path / "absent")), tmp_path / "run", quiet=True)
    with pytest.raises(CheckpointError, match="no checkpoint 'step-9'"):
        train(config(begun, init_from=f"{begun / 'first'}@step-9"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "forge",
    [
        lambda tensors: tensors.update({TABLE: tensors[TABLE][:5].clone()}),
        lambda tensors: tensors.update({TABLE: tensors[TABLE].long()}),
        lambda tensors: tensors.update({TABLE: torch.zeros(())}),
        lambda tensors: tensors.update(more=torch.zeros(3)),
        lambda tensors: tensors.pop(TABLE),
    ],
)
@pytest.mark.parametrize("size", [None, 8])
def test_tensors_that_do_not_fit_their_run_are_refused(
    begun: Path,
    tmp_path: Path,
    forge: Callable[[dict[str, torch.Tensor]], object],
    size: int | None,
) -> None:
    """With right checksums, and whether the pieces are the same or others."""
    shutil.copytree(begun / "first", tmp_path / "first")
    checkpoint = max((tmp_path / "first" / "checkpoints").glob("step-*"))
    forge_tensors(checkpoint, "model", forge)
    tokenizer = {} if size is None else {"kind": "word", "max_size": size}
    train_section = {"init_from": f"{tmp_path / 'first'}@last", "init_tokenizers": size is None}
    other = toy_config(begun, tokenizer=tokenizer, train=train_section)
    with pytest.raises(CheckpointError, match="does not fit config"):
        train(other, tmp_path / "run", quiet=True)


def test_other_pieces_take_the_rows_of_those_in_both(begun: Path, tmp_path: Path) -> None:
    other = toy_config(
        begun,
        tokenizer={"kind": "word", "max_size": 8},
        train={
            "init_from": str(begun / "first"),
            "init_tokenizers": False,
            "lr": 1e-30,
            "epochs": 1,
        },
    )
    train(other, tmp_path / "run", quiet=True)
    first, second = (TrainedRun.open(path) for path in (begun / "first", tmp_path / "run"))
    before, after = first.tokenizers().src.vocab, second.tokenizers().src.vocab
    assert before != after
    tables = [
        run.directory.checkpoint_folder.load_weights("last")[1]["encoder.embedding.weight"]
        for run in (TrainedRun.open(begun / "first"), second)
    ]
    wanted = first.directory.checkpoint_folder.load_weights("best")[1]["encoder.embedding.weight"]
    shared = [piece for piece in after.pieces if piece in before.pieces]
    assert len(shared) == 8
    for piece in shared:
        assert torch.equal(tables[1][after.id_of(piece)], wanted[before.id_of(piece)])
    assert "rows, of the pieces in both" in log_of(tmp_path / "run")


def test_tokenizers_of_another_config_are_refused(begun: Path, tmp_path: Path) -> None:
    other = toy_config(
        begun,
        tokenizer={"kind": "word", "max_size": 9},
        train={"init_from": str(begun / "first"), "epochs": 1},
    )
    with pytest.raises(
        ConfigError, match=r"init_from: .*another tokenizer\..*max_size .*init_tokenizers: false"
    ):
        train(other, tmp_path / "run", quiet=True)


def test_a_resumed_run_needs_the_other_one_no_more(begun: Path, tmp_path: Path) -> None:
    """And it ends as the unbroken run."""
    moved = tmp_path / "moved"
    moved.mkdir()
    write_reversal(moved, n_train=60, n_test=5)
    train(toy_config(moved, train={"epochs": 1}), moved / "first", quiet=True)
    begin = {"init_from": str(moved / "first"), "freeze": ["encoder.*"]}
    whole, parted = (toy_config(moved, train={**begin, "epochs": n}) for n in (4, 2))
    train(whole, tmp_path / "whole", quiet=True)
    train(parted, tmp_path / "parted", quiet=True)
    (moved / "first").rename(moved / "gone")
    train(whole, tmp_path / "parted", quiet=True)
    one, other = (last_checkpoint(tmp_path / name) for name in ("whole", "parted"))
    for name in ("model_tensors", "state_tensors"):
        tensors = getattr(one, name)
        unequal = {
            n for n, each in tensors.items() if not torch.equal(each, getattr(other, name)[n])
        }
        assert unequal <= {"rng.python"}  # the type checks of the tests draw from it


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_frozen_weights_stay_and_the_others_learn(
    begun: Path, tmp_path: Path, backend: str
) -> None:
    chosen = config(
        begun,
        {"backend": backend, **toy_config(begun).model.model_dump(include={"hidden", "embedding"})},
        freeze=["encoder.*", "*.bias"],
        epochs=2,
    )
    train(chosen, tmp_path / "run", quiet=True)
    _, before = TrainedRun.open(begun / "first").directory.checkpoint_folder.load_weights("best")
    after = last_checkpoint(tmp_path / "run").model_tensors
    for name, weight in before.items():
        is_frozen = name.startswith("encoder.") or name.endswith(".bias")
        assert torch.equal(weight, after[name]) == is_frozen, name
    assert "frozen        " in log_of(tmp_path / "run")


@pytest.mark.parametrize(
    ("patterns", "words"),
    [(["encodr.*"], "no weight has such a name"), (["*"], "all weights are frozen")],
)
def test_patterns_that_freeze_nothing_or_all(
    begun: Path, tmp_path: Path, patterns: list[str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        train(config(begun, freeze=patterns), tmp_path / "run", quiet=True)


def test_vectors_of_a_file_become_embeddings(begun: Path, tmp_path: Path) -> None:
    tokenizers = TrainedRun.open(begun / "first").tokenizers()
    pieces = tokenizers.src.vocab.pieces[4:7]
    size = toy_config(begun).model.embedding
    vectors = np.random.default_rng(1).normal(size=(3, size)).astype(np.float32)
    lines = [
        f"4 {size}",
        *(" ".join([p.strip("▁"), *map(str, v)]) for p, v in zip(pieces, vectors, strict=True)),
        " ".join(["absent", *["0"] * size]),
    ]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    chosen = toy_config(
        begun, train={"src_embeddings": str(tmp_path / "vectors.txt"), "lr": 1e-30, "epochs": 1}
    )
    train(chosen, tmp_path / "run", quiet=True)
    run = TrainedRun.open(tmp_path / "run")
    table = run.directory.checkpoint_folder.load_weights("last")[1]["encoder.embedding.weight"]
    for piece, vector in zip(pieces, vectors, strict=True):
        got = table[run.tokenizers().src.vocab.id_of(piece)].numpy()
        assert np.array_equal(got, vector)
    assert "embeddings    " in log_of(tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a 1 2\n", r"vectors.txt:1: got 2 numbers, allowed: \d+"),
        ("absent {}\n", "none of its pieces"),
        ("{piece} x{}\n", "finite"),
        ("{piece} nan{}\n", "finite"),
    ],
)
def test_a_bad_file_of_vectors(begun: Path, tmp_path: Path, content: str, words: str) -> None:
    size = toy_config(begun).model.embedding
    piece = TrainedRun.open(begun / "first").tokenizers().src.vocab.pieces[4].strip("▁")
    is_word = "x{}" in content or "nan{}" in content
    rest = " 0" * (size - 1) if is_word else " ".join(["0"] * size)
    text = content.replace("{piece}", piece).replace("{}", rest)
    (tmp_path / "vectors.txt").write_text(text, encoding="utf-8")
    chosen = toy_config(begun, train={"src_embeddings": str(tmp_path / "vectors.txt"), "epochs": 1})
    with pytest.raises((ConfigError, DataError), match=words):
        train(chosen, tmp_path / "run", quiet=True)
