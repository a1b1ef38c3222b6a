"""The end of a run names the step and a cure, with which the run goes on."""

import itertools
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from training.toy import assert_same_run, last_checkpoint, log_of, records, train_tiny

from nmt.cli.shared.process import deterministic
from nmt.device import is_out_of_memory
from nmt.errors import ConfigError, NMTError
from nmt.evaluation.attention_health import AttentionHealth
from nmt.models.base import Seq2Seq
from nmt.training.guards import divergence_note
from nmt.translation.translator import Translator

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
def test_a_batch_too_large_is_named_and_smaller_ones_go_on(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, saved: int | None
) -> None:
    """From the last checkpoint; without one the run begins anew."""
    sizes = {"epochs": 1, "batch_size": 25, "save_every": saved}
    forward, calls = Seq2Seq.forward, itertools.count(1)

    def limited(self: Seq2Seq, src_ids: Any, *others: Any, **options: Any) -> Any:
        if len(src_ids) == 25 and self.training and next(calls) > 3:
            raise RuntimeError(CPU_WORDS)
        return forward(self, src_ids, *others, **options)

    monkeypatch.setattr(Seq2Seq, "forward", limited)
    with pytest.raises(NMTError, match=r"^out of memory at step 4: ") as caught:
        train_tiny(corpus, train=sizes)
    assert "`train.batch_size=12` `train.accumulate=2`" in str(caught.value)
    assert str(caught.value).endswith("`allow_change`") is (saved is not None)
    smaller = {**sizes, "batch_size": 12, "accumulate": 2}
    outcome = train_tiny(corpus, allow_change=saved is not None, train=smaller)
    assert (outcome.step, outcome.reason) == ((saved or 0) + 5, "1 epoch done")
    steps = [record["step"] for record in records(corpus / "run", "train")]
    assert steps == list(range(1, outcome.step + 1))


def test_a_validation_without_memory_leaves_its_step_saved(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = {"epochs": 1}
    train_tiny(corpus, "whole", train=epoch)
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", Mock(side_effect=MemoryError))
        with pytest.raises(NMTError, match=r"validation after step 4, .*search.batch_size=16"):
            train_tiny(corpus, train=epoch)
    train_tiny(corpus, train=epoch, search={"batch_size": 16})
    assert_same_run(corpus / "whole", corpus / "run")


def test_an_operation_without_a_deterministic_form_is_named(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_bad_weights_are_neither_saved_nor_validated(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, every: int, n_records: int
) -> None:
    sections: dict[str, Any] = {"train": {"save_every": 1}, "valid": {"every": every}}
    genuine, calls = torch.optim.Adam.step, itertools.count(1)
    first_bad = n_records + 1

    def poisoned(self: Any, *arguments: Any, **options: Any) -> None:
        genuine(self, *arguments, **options)
        if next(calls) >= first_bad:
            self.param_groups[0]["params"][0].data[0] = torch.nan

    saved = "from the last one, of step 2" if n_records else "nothing was saved yet"
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", poisoned)
        with pytest.raises(NMTError, match=rf"NaN or infinite after step {first_bad}; .*{saved}"):
            train_tiny(corpus, **sections)
    assert len(records(corpus / "run", "valid")) == 0
    if n_records:
        assert last_checkpoint(corpus / "run").step == n_records
    assert train_tiny(corpus, **sections).step == 8


def test_a_divergence_is_in_training_and_validation() -> None:
    """Overfitting is none, nor is one odd batch; a uniform guess has 6.2 nats."""
    assert divergence_note(50.0, 50.0, tgt_vocab_size=500) is not None
    for loss, valid_loss in ((1.0, 50.0), (50.0, 6.0), (11.0, 11.0)):
        assert divergence_note(loss, valid_loss, tgt_vocab_size=500) is None


def test_divergence_and_collapsed_attention_are_reported(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collapse not in the first validation, when attention may not have learned yet."""
    monkeypatch.setattr(AttentionHealth, "collapse", lambda self: "all but even")
    rates = {"epochs": 2, "lr": 30.0, "optimizer": {"kind": "sgd"}, "clip_norm": None}
    train_tiny(corpus, train=rates)
    assert "the loss has diverged: " in log_of(corpus / "run")
    assert log_of(corpus / "run").count("attention has collapsed: all but even") == 1
