"""What ends a run says what to change, and the run goes on with it."""

import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from training.toy import toy_config, write_reversal

from nmt.errors import ConfigError, NMTError
from nmt.models.base import Seq2Seq
from nmt.run import RunDirectory
from nmt.training.guards import is_out_of_memory
from nmt.training.loop import Outcome, train
from nmt.training.trainer import Trainer
from nmt.translation.translator import Translator

CPU_WORDS = "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a small corpus of reversals."""
    write_reversal(tmp_path, n_train=100, n_test=10)
    return tmp_path


def _train(folder: Path, allow_change: bool = False, **sections: Any) -> Outcome:
    config = toy_config(folder, **sections)
    return train(config, folder / "run", ["nmt"], quiet=True, allow_change=allow_change)


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError(CPU_WORDS), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)"), True),
        (RuntimeError("Storage size calculation overflowed with sizes=[9, 9]"), True),
        (TypeError('empty(): ... error "Overflow when unpacking long long'), True),
        (RuntimeError("size mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_out_of_memory_is_known(error: Exception, is_it: bool) -> None:
    assert is_out_of_memory(error) is is_it


def _exhausted(monkeypatch: pytest.MonkeyPatch, most: int, error: Exception) -> None:
    """Let a forward pass over more than `most` sentences find no memory."""
    forward = Seq2Seq.forward

    def limited(self: Seq2Seq, src_ids: Any, *others: Any, **options: Any) -> Any:
        if len(src_ids) > most and self.training:
            raise error
        return forward(self, src_ids, *others, **options)

    monkeypatch.setattr(Seq2Seq, "forward", limited)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError(CPU_WORDS)])
def test_a_batch_too_large_is_named_and_the_run_goes_on_with_smaller_ones(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    sizes = {"epochs": 2, "batch_size": 25, "save_every": 2, "log_every": 1}
    with monkeypatch.context() as patch:
        asked = itertools.count(1)
        config = toy_config(corpus, train=sizes)
        train(config, corpus / "run", ["nmt"], lambda: next(asked) > 3, quiet=True)
        _exhausted(patch, 24, error)
        with pytest.raises(NMTError) as caught:
            _train(corpus, train=sizes)
        message = str(caught.value)
        assert "\n" not in message
        assert message.startswith("out of memory at step 4 on a batch of 25 pairs, ")
        assert "with padding: to go on from the last checkpoint, " in message
        assert message.endswith("--set train.batch_size=12 --set train.accumulate=2 --allow-change")
        smaller = {**sizes, "batch_size": 12, "accumulate": 2}
        with pytest.raises(ConfigError, match=r"train.batch_size: 25 -> 12 \(needs --allow-change"):
            _train(corpus, train=smaller)
        outcome = _train(corpus, allow_change=True, train=smaller)
    assert outcome.reason == "2 epochs done"
    # 100 pairs: three batches of 25, the last 25 pairs by 12 (3, by twos); then 9 of 12, by twos.
    assert outcome.step == 3 + 2 + 5
    lines = (corpus / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [r["step"] for r in map(json.loads, lines) if r["type"] == "train"]
    assert steps == list(range(1, 11))


def test_every_pair_is_seen_once_an_epoch_however_the_batches_change(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    update = Trainer._update

    def spied(self: Trainer, group: Any) -> None:
        for batch in group:
            seen.extend(map(tuple, batch.src_ids.tolist()))
        update(self, group)

    monkeypatch.setattr(Trainer, "_update", spied)
    for batch_size, by, stop in ((32, "sentences", 2), (7, "sentences", 3), (120, "tokens", 99)):
        sizes = {"epochs": 1, "batch_size": batch_size, "batch_by": by}
        config = toy_config(corpus, train=sizes, data={"max_pieces": 20})
        asked = itertools.count(1)
        stopped = partial(lambda asked, stop: next(asked) > stop, asked, stop)
        train(config, corpus / "run", ["nmt"], stopped, quiet=True, allow_change=True)
    stripped = [tuple(i for i in ids if i) for ids in seen]
    assert len(stripped) == len(set(stripped)) == 100


def test_a_validation_without_memory_leaves_its_step_saved(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(self: Translator, *args: Any, **options: Any) -> None:
        raise MemoryError

    whole = _train(corpus, train={"epochs": 1})
    (corpus / "run").rename(corpus / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", exhausted)
        with pytest.raises(
            NMTError,
            match=r"in the validation after step 4, which is saved: .*search.batch_size=16",
        ):
            _train(corpus, train={"epochs": 1})
    outcome = _train(corpus, train={"epochs": 1}, search={"batch_size": 16})
    assert (outcome.step, outcome.best_bleu) == (whole.step, whole.best_bleu)
    one, two = (RunDirectory(corpus / name).load_state() for name in ("whole", "run"))
    assert all(torch.equal(t, two.model_tensors[n]) for n, t in one.model_tensors.items())


@pytest.mark.parametrize("where", ["forward", "translate"])
def test_another_error_passes(corpus: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def broken(self: object, *args: Any, **options: Any) -> None:
        raise RuntimeError("size mismatch")

    monkeypatch.setattr(Seq2Seq if where == "forward" else Translator, where, broken)
    with pytest.raises(RuntimeError, match="size mismatch"):
        _train(corpus, train={"epochs": 1})


def test_an_operation_without_a_deterministic_form_is_said(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: object, *args: Any, **options: Any) -> None:
        assert torch.are_deterministic_algorithms_enabled()
        raise RuntimeError("cumsum_cuda does not have a deterministic implementation, but\nmore")

    monkeypatch.setattr(Seq2Seq, "forward", refused)
    with pytest.raises(
        ConfigError, match=r"^train\.deterministic: cumsum_cuda does not .* implementation, but$"
    ):
        _train(corpus, train={"epochs": 1, "deterministic": True})
    assert not torch.are_deterministic_algorithms_enabled()


def test_deterministic_runs_are_the_same(corpus: Path) -> None:
    found = []
    for _ in range(2):
        _train(corpus, train={"steps": 3, "deterministic": True}, model={"dropout": 0.3})
        found.append(RunDirectory(corpus / "run").load_state().model_tensors)
        (corpus / "run").rename(corpus / f"done-{len(found)}")
    assert all(torch.equal(tensor, found[1][name]) for name, tensor in found[0].items())
