"""Whole runs: the updates they make, their ends, and the cures that errors name."""

import itertools
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch.nn.functional import cross_entropy
from training.toy import (
    assert_same_checkpoint,
    assert_same_run,
    last_checkpoint,
    log_of,
    records,
    spy,
    train_tiny,
)

from nmt.batches.batching import Batch
from nmt.cli.shared.process import deterministic
from nmt.device import is_out_of_memory
from nmt.errors import ConfigError, NMTError
from nmt.evaluation.attention_health import AttentionHealth
from nmt.models.base import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.text.vocabulary import PAD_ID
from nmt.training import loop, trainer
from nmt.training.guards import divergence_note
from nmt.training.trainer import Trainer
from nmt.translation.translator import Translator


def test_a_run_is_the_plain_loop_over_its_batches(corpus: Path, monkeypatch) -> None:
    """The mean cross-entropy over the target tokens, clipping and SGD, written in plain PyTorch."""
    models: list[Seq2Seq] = []
    batches: list[Batch] = []

    def record(trainer: Trainer, group: Sequence[Batch]) -> None:
        models.append(deepcopy(trainer.state.model))
        batches.extend(group)

    spy(monkeypatch, Trainer, "_update", record)
    sgd = {"kind": "sgd", "momentum": 0.5}
    train_tiny(corpus, train={"optimizer": sgd, "lr": 1.0, "clip_norm": 0.1})
    model, measured = models[0], []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
    for batch in batches:
        logits = model(batch.src_ids, batch.src_ids != PAD_ID, batch.tgt_in).logits
        loss = cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        measured.append(loss.item())
    expected = [record["loss"] for record in records(corpus / "run", "train")]
    assert measured == pytest.approx(expected, abs=1e-3)
    weights = last_checkpoint(corpus / "run").model_tensors
    torch.testing.assert_close(model.state_dict(), weights, rtol=1e-3, atol=1e-5)


def test_the_first_limit_ends_the_run(corpus: Path) -> None:
    """A number of epochs, of updates, of minutes, or of validations without a better one."""
    for name, limits in (
        ("5 steps done", {"epochs": None, "steps": 5}),
        ("0.001 minutes done", {"epochs": None, "max_minutes": 0.001}),
        ("1 epoch done", {"epochs": 1, "steps": 500}),
    ):
        assert train_tiny(corpus, name, train=limits).reason == name
    sections = {"train": {"epochs": 50, "lr": 1e-9}, "valid": {"patience": 2, "every": 3}}
    outcome = train_tiny(corpus, **sections)
    assert outcome.reason == "no better BLEU in 2 validations"
    assert outcome.best is not None
    assert outcome.step == outcome.best.step + 2 * 3


def test_best_and_last_checkpoints_are_kept(corpus: Path) -> None:
    sections = {"train": {"epochs": 4, "keep_last": 1}, "valid": {"every": 2, "metric": "loss"}}
    outcome = train_tiny(corpus, **sections)
    assert outcome.best is not None
    checkpoints = RunDirectory(corpus / "run").checkpoint_folder
    assert checkpoints.labels() == {"best": outcome.best.step, "last": outcome.step}
    assert set(checkpoints.steps()) == {outcome.step, outcome.best.step}
    validations = records(corpus / "run", "valid")
    assert [record["epoch"] for record in validations] == [1, 1, 2, 2, 3, 3, 4, 4]
    best = min(validations, key=lambda record: record["loss"])
    assert outcome.best.step == best["step"]


def test_a_loss_that_is_no_number_leaves_the_checkpoints(begun: Path, monkeypatch) -> None:
    def poison(trainer: Trainer, group: Any) -> None:
        next(trainer.state.model.parameters()).data.fill_(torch.nan)

    spy(monkeypatch, Trainer, "_update", poison)
    with pytest.raises(NMTError, match=r"loss is nan at step 4; earlier checkpoints are intact"):
        train_tiny(begun)
    assert RunDirectory(begun / "run").checkpoint_folder.steps() == [3]


def test_validation_takes_several_references(corpus: Path) -> None:
    """Pairs that do not fit, here and in training, are reported."""
    (corpus / "train.tsv").write_text("a b\tb a\na b c\tc b a\nh h\t\n", encoding="utf-8")
    for name, text in (("src", "a b\nb c\n"), ("one", "b a\n\n"), ("two", "b a\nc c\n")):
        (corpus / name).write_text(text, encoding="utf-8")
    valid = {"src": str(corpus / "src"), "tgt": [str(corpus / "one"), str(corpus / "two")]}
    data = {"valid": valid, "max_pieces": 2}
    outcome = train_tiny(corpus, data=data, train={"steps": 1})
    assert outcome.best is not None
    log = log_of(corpus / "run")
    assert "1 empty target" in log
    assert "1 longer than 2 pieces" in log
    assert "2 sentences for validation (1 pairs with an empty side" in log


CPU_WORDS = "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you"


def test_out_of_memory_is_known() -> None:
    for error in (
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError(CPU_WORDS),
        RuntimeError("Storage size calculation overflowed with sizes=[9, 9]"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
    ):
        assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("size mismatch"))
    assert not is_out_of_memory(ValueError("out of memory"))


@pytest.mark.parametrize("saved", [2, None])
def test_a_batch_too_large_is_named_and_smaller_ones_go_on(corpus, monkeypatch, saved) -> None:
    """From the last checkpoint; without one the run begins anew."""
    sizes = {"epochs": 1, "batch_size": 25, "save_every": saved}
    calls = itertools.count(1)

    def limited(model: Seq2Seq, src_ids: Any, *others: Any, **options: Any) -> None:
        if len(src_ids) == 25 and model.training and next(calls) > 3:
            raise RuntimeError(CPU_WORDS)

    spy(monkeypatch, Seq2Seq, "forward", limited)
    with pytest.raises(NMTError, match=r"^out of memory at step 4: ") as caught:
        train_tiny(corpus, train=sizes)
    assert "`train.batch_size=12` `train.accumulate=2`" in str(caught.value)
    assert str(caught.value).endswith("`allow_change`") is (saved is not None)
    smaller = {**sizes, "batch_size": 12, "accumulate": 2}
    outcome = train_tiny(corpus, allow_change=saved is not None, train=smaller)
    assert (outcome.step, outcome.reason) == ((saved or 0) + 5, "1 epoch done")
    steps = [record["step"] for record in records(corpus / "run", "train")]
    assert steps == list(range(1, outcome.step + 1))


def test_a_validation_without_memory_leaves_its_step_saved(corpus: Path, monkeypatch) -> None:
    sections = {"train": {"epochs": 1}, "search": {"batch_size": 2}}
    train_tiny(corpus, "whole", **sections)
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", Mock(side_effect=MemoryError))
        with pytest.raises(NMTError, match=r"validation after step 4, "):
            train_tiny(corpus, train={"epochs": 1})
    train_tiny(corpus, **sections)
    assert_same_run(corpus / "whole", corpus / "run")


def test_an_operation_without_a_deterministic_form_is_named(corpus: Path, monkeypatch) -> None:
    """A library call does not make the process deterministic; the command does, meanwhile."""

    def refused(self: object, *arguments: Any, **options: Any) -> None:
        assert torch.are_deterministic_algorithms_enabled()
        raise RuntimeError("cumsum_cuda does not have a deterministic implementation, but\nmore")

    sections = {"train": {"steps": 1, "deterministic": True}}
    with pytest.raises(ConfigError, match=r"^train\.deterministic: got true"):
        train_tiny(corpus, **sections)
    with deterministic(True):
        assert train_tiny(corpus, **sections).step == 1
        monkeypatch.setattr(Seq2Seq, "forward", refused)
        with pytest.raises(ConfigError, match=r"^train\.deterministic: cumsum"):
            train_tiny(corpus, "other", **sections)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(("every", "n_records"), [(4, 2), (1, 0)])
def test_bad_weights_are_neither_saved_nor_validated(corpus, monkeypatch, every, n_records) -> None:
    sections: dict[str, Any] = {"train": {"save_every": 1}, "valid": {"every": every}}
    genuine, calls, first_bad = torch.optim.Adam.step, itertools.count(1), n_records + 1

    def poisoned(self: Any, *arguments: Any, **options: Any) -> None:
        genuine(self, *arguments, **options)
        if next(calls) >= first_bad:
            self.param_groups[0]["params"][0].data[0] = torch.nan

    saved = r"from the last one \(step 2\)" if n_records else "no checkpoint was saved"
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", poisoned)
        with pytest.raises(NMTError, match=rf"NaN or infinite after step {first_bad}; .*{saved}"):
            train_tiny(corpus, **sections)
    assert len(records(corpus / "run", "valid")) == 0
    if n_records:
        assert last_checkpoint(corpus / "run").step == n_records
    assert train_tiny(corpus, **sections).step == 8


def test_divergence_and_collapse_are_reported(corpus: Path, monkeypatch) -> None:
    """Overfitting is no divergence, nor is one odd batch; a uniform guess has 6.2 nats.

    A collapse not in the first validation, when attention may not have learned yet.
    """
    assert divergence_note(50.0, 50.0, tgt_vocab_size=500) is not None
    for loss, valid_loss in ((1.0, 50.0), (50.0, 6.0), (11.0, 11.0)):
        assert divergence_note(loss, valid_loss, tgt_vocab_size=500) is None
    pairs: list[tuple[float, float]] = []
    note = "the loss has diverged"
    monkeypatch.setattr(trainer, "divergence_note", lambda *of: pairs.append(of[:2]) or note)
    monkeypatch.setattr(AttentionHealth, "describe_collapse", lambda self: "all but even")
    train_tiny(corpus, valid={"every": 4})
    assert log_of(corpus / "run").count(note) == 2
    assert log_of(corpus / "run").count("attention has collapsed: all but even") == 1
    train_losses, valid_losses = (
        [record["loss"] for record in records(corpus / "run", kind) if record["step"] in (4, 8)]
        for kind in ("train", "valid")
    )
    assert [loss for pair in pairs for loss in pair] == pytest.approx(
        [loss for pair in zip(train_losses, valid_losses, strict=True) for loss in pair], abs=1e-3
    )


AUTO = {"steps": 2, "precision": "auto"}


@pytest.mark.parametrize(("unit", "expected"), [("AMX-BF16", "bf16"), (None, "fp32")])
def test_auto_is_what_it_chooses_and_says_so(corpus, monkeypatch, unit, expected) -> None:
    """And a run keeps its format on another machine."""
    monkeypatch.setattr(loop, "bf16_unit", lambda device: unit)
    train_tiny(corpus, "named", train={"steps": 2, "precision": expected})
    train_tiny(corpus, "auto", stop_after=1, train=AUTO)
    monkeypatch.setattr(loop, "bf16_unit", lambda device: None if unit else "AMX-BF16")
    train_tiny(corpus, "auto", train=AUTO)
    assert_same_checkpoint(corpus / "auto", corpus / "named")
    reason = unit or "this device is not faster in bf16"
    for name, words in (("auto", f"{expected} (auto: {reason}"), ("named", expected)):
        card = json.loads((corpus / name / "run.json").read_text(encoding="utf-8"))
        assert card["hardware"]["precision"].startswith(words)
