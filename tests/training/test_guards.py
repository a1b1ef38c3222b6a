"""What ends a run says what to change, and the run goes on with it."""

import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from training.toy import last_checkpoint, toy_config, write_reversal

from nmt.cli.shared.process import deterministic
from nmt.config import TrainConfig
from nmt.device import is_out_of_memory
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.inference.translator import Translator
from nmt.models.base import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.training.distributed import Ranks
from nmt.training.guards import DivergenceWatch, explain_update_errors
from nmt.training.log import RunLog
from nmt.training.loop import Outcome, train
from nmt.training.trainer import Trainer

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
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), True),
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
        assert "with padding: to go on from the last checkpoint, of step 3, " in message
        assert message.endswith("`train.batch_size=12` `train.accumulate=2` `allow_change`")
        smaller = {**sizes, "batch_size": 12, "accumulate": 2}
        with pytest.raises(ConfigError, match=r"train.batch_size: 25 -> 12 \(needs `allow_change`"):
            _train(corpus, train=smaller)
        outcome = _train(corpus, allow_change=True, train=smaller)
    assert outcome.reason == "2 epochs done"
    # 100 pairs: three batches of 25, the last 25 pairs by 12 (3, by twos); then 9 of 12, by twos.
    assert outcome.step == 3 + 2 + 5
    lines = (corpus / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [r["step"] for r in map(json.loads, lines) if r["type"] == "train"]
    assert steps == list(range(1, 11))


@pytest.mark.parametrize(
    ("fails_at", "in_optimizer", "saved"), [(1, True, None), (3, True, None), (3, False, 2)]
)
def test_a_way_on_is_from_a_checkpoint_that_exists(
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails_at: int,
    in_optimizer: bool,
    saved: int | None,
) -> None:
    """An optimiser without memory leaves weights that are half changed, which are not saved."""
    sizes = {"epochs": 1, "batch_size": 25, "save_every": 9}
    calls = itertools.count(1)
    kind, name = (torch.optim.Adam, "step") if in_optimizer else (Seq2Seq, "forward")
    real = getattr(kind, name)

    def failing(self: Any, *args: Any, **options: Any) -> Any:
        if next(calls) == fails_at:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, failing)
        with pytest.raises(NMTError, match=r"^out of memory at step") as caught:
            _train(corpus, train=sizes)
    steps = RunDirectory(corpus / "run").checkpoint_folder.steps()
    assert steps == ([] if saved is None else [saved])
    assert ("checkpoint" in str(caught.value)) is (saved is not None)
    smaller = {**sizes, "batch_size": 12, "accumulate": 2}
    assert _train(corpus, allow_change=saved is not None, train=smaller).reason is not None


def test_a_rank_without_a_batch_can_run_out_of_memory() -> None:
    config = TrainConfig(batch_size=8)
    with (
        pytest.raises(NMTError, match=r"^out of memory at step 3: .*`train\.batch_size=4`"),
        explain_update_errors([], 3, config, None, lambda: None),
    ):
        raise MemoryError


@pytest.mark.parametrize("weights", [{"kind": "sparsemax"}, {"kind": "hard"}])
def test_weights_without_a_deterministic_form_are_refused(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, weights: dict[str, str]
) -> None:
    """On a GPU, before the data are prepared."""
    monkeypatch.setattr(Ranks, "device", lambda self, name: torch.device("cuda:0"))
    sections = {
        "model": {"attention": {"kind": "additive", "weights": weights}},
        "train": {"deterministic": True},
    }
    with deterministic(True), pytest.raises(ConfigError, match=weights["kind"]):
        _train(corpus, **sections)
    assert not (corpus / "run").exists()


def test_every_pair_is_seen_once_an_epoch_however_the_batches_change(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    update = Trainer._update

    def spied(self: Trainer, group: Any, interrupted: Any) -> Any:
        for batch in group:
            seen.extend(map(tuple, batch.src_ids.tolist()))
        return update(self, group, interrupted)

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
    assert (outcome.step, outcome.best) == (whole.step, whole.best)
    one, two = (last_checkpoint(corpus / name) for name in ("whole", "run"))
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
    with (
        deterministic(True),
        pytest.raises(
            ConfigError,
            match=r"^train\.deterministic: cumsum_cuda does not .* implementation, but$",
        ),
    ):
        _train(corpus, train={"epochs": 1, "deterministic": True})
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_library_call_does_not_make_the_process_deterministic(corpus: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^train\.deterministic: got true, but .* in this process"
    ):
        _train(corpus, train={"epochs": 1, "deterministic": True})
    assert not torch.are_deterministic_algorithms_enabled()
    assert not (corpus / "run").exists()


def test_deterministic_runs_are_the_same(corpus: Path) -> None:
    found = []
    for _ in range(2):
        with deterministic(True):
            _train(corpus, train={"steps": 3, "deterministic": True}, model={"dropout": 0.3})
        found.append(last_checkpoint(corpus / "run").model_tensors)
        (corpus / "run").rename(corpus / f"done-{len(found)}")
    assert all(torch.equal(tensor, found[1][name]) for name, tensor in found[0].items())


def _states(corpus: Path, one: str, two: str) -> None:
    """Raise unless two runs have the same last checkpoint, but for what tells the time."""
    a, b = (last_checkpoint(corpus / name) for name in (one, two))
    assert a.step == b.step
    assert all(torch.equal(t, b.model_tensors[n]) for n, t in a.model_tensors.items())
    # The type checks of the tests draw from Python's generator.
    names = a.state_tensors.keys() - {"rng.python"}
    assert all(torch.equal(a.state_tensors[n], b.state_tensors[n]) for n in names)


def _records(run: Path) -> list[tuple[object, ...]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [(r["type"], r["step"], r["loss"]) for r in map(json.loads, lines)]


OPTIONS: dict[str, Any] = {
    "train": {"epochs": 2, "log_every": 2, "batch_size": 25},
    "model": {"dropout": 0.3},
}


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a fault"), KeyboardInterrupt()])
@pytest.mark.parametrize("half_way", [False, True], ids=["before the step", "within the step"])
def test_an_error_in_an_update_loses_none_before_it(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, half_way: bool
) -> None:
    """And the run that goes on is the one that never failed; unless weights were half changed."""
    _train(corpus, **OPTIONS)
    (corpus / "run").rename(corpus / "whole")
    calls = itertools.count(1)
    kind, name = (torch.optim.Adam, "step") if half_way else (Seq2Seq, "forward")
    real = getattr(kind, name)

    def failing(self: Any, *args: Any, **options: Any) -> Any:
        result = real(self, *args, **options)
        training = half_way or self.training
        if training and next(calls) == 3:
            raise error
        return result

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, failing)
        with pytest.raises((type(error), NMTError)):
            _train(corpus, **OPTIONS)
    saved = RunDirectory(corpus / "run").checkpoint_folder.steps()
    assert saved == ([] if half_way else [2])
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8").splitlines()
    assert ("saved at step 2, before an error" in log[-2]) is not half_way
    assert f"stopped: {'NMTError' if isinstance(error, MemoryError) else ''}" in log[-1]
    _train(corpus, **OPTIONS)
    _states(corpus, "whole", "run")
    assert _records(corpus / "whole") == _records(corpus / "run")


@pytest.mark.parametrize(("at", "step"), [(1, 2), (2, 4), (3, 4)])
def test_a_record_that_cannot_be_written_loses_no_update_and_is_written_later(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, at: int, step: int
) -> None:
    """The disk refuses one record, of an update or a validation, and takes it a moment later."""
    _train(corpus, **OPTIONS)
    (corpus / "run").rename(corpus / "whole")
    calls = itertools.count(1)
    real = RunLog.record

    def failing(self: RunLog, record: Any) -> None:
        if next(calls) != at:
            real(self, record)
            return
        self._metrics.write(json.dumps(record) + "\n")  # it waits in the stream's buffer
        raise OSError(28, "No space left on device", "metrics.jsonl")

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "record", failing)
        with pytest.raises(
            CheckpointError, match=rf"at step {(2, 4, 4)[at - 1]}; step \d is the last"
        ):
            _train(corpus, **OPTIONS)
    assert RunDirectory(corpus / "run").checkpoint_folder.steps() == [(2, 4, 4)[at - 1]]
    _train(corpus, **OPTIONS)
    _states(corpus, "whole", "run")
    assert _records(corpus / "whole") == _records(corpus / "run")


def test_weights_that_are_no_numbers_are_not_saved_and_cost_no_checkpoint(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"epochs": 1, "batch_size": 25, "save_every": 1, "keep_last": 1}
    with monkeypatch.context() as patch:
        asked = itertools.count(1)
        config = toy_config(corpus, train=sizes)
        train(config, corpus / "run", ["nmt"], lambda: next(asked) > 2, quiet=True)
        before = last_checkpoint(corpus / "run")
        real = torch.optim.Adam.step

        def poisoned(self: Any, *args: Any, **options: Any) -> None:
            real(self, *args, **options)
            self.param_groups[0]["params"][0].data[0] = torch.nan

        patch.setattr(torch.optim.Adam, "step", poisoned)
        message = (
            r"^the weights: \S+: 16 of \d+ numbers are NaN or infinite after step 3; earlier "
            r"checkpoints are intact: .* go on from the last one, of step 2$"
        )
        with pytest.raises(NMTError, match=message):
            _train(corpus, train=sizes)
        with pytest.raises(NMTError, match=r"after step 1; nothing was saved yet: lower train.lr"):
            train(config, corpus / "new", ["nmt"], quiet=True)
    after = last_checkpoint(corpus / "run")
    assert before.step == after.step == 2
    assert all(torch.equal(t, after.model_tensors[n]) for n, t in before.model_tensors.items())
    assert _train(corpus, train=sizes).step == 4


def test_a_validation_of_weights_that_are_no_numbers_is_not_recorded(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = torch.optim.Adam.step

    def poisoned(self: Any, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self.param_groups[0]["params"][0].data[0] = torch.inf

    monkeypatch.setattr(torch.optim.Adam, "step", poisoned)
    with pytest.raises(NMTError, match="numbers are NaN or infinite after step 1"):
        _train(corpus, valid={"every": 1}, train={"epochs": 1, "log_every": 99})
    assert _records(corpus / "run") == []


def test_a_loss_that_diverges_is_said_once(corpus: Path) -> None:
    rates = {"epochs": 3, "lr": 30.0, "optimizer": {"kind": "sgd"}, "clip_norm": None}
    _train(corpus, train=rates, valid={"every": 2, "patience": None})
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert log.count("the loss has diverged: ") == 1
    assert "with a lower train.lr or more train.schedule.warmup" in log


@pytest.mark.parametrize(
    ("losses", "valid_loss", "says"),
    [
        ((6.0, 50.0), 50.0, True),
        ((6.0, 1.0), 50.0, False),  # overfitting
        ((40.0, 45.0), 45.0, False),  # large weights at the start
        ((6.0, 50.0), 6.0, False),  # one odd batch
        ((6.0, 11.0), 11.0, False),
    ],
)
def test_what_is_a_divergence(losses: tuple[float, ...], valid_loss: float, says: bool) -> None:
    watch = DivergenceWatch(tgt_vocab_size=500)  # a guess has 6.2 nats
    for loss in losses:
        watch.update(loss)
    assert (watch.report(valid_loss) is not None) is says
    assert watch.report(valid_loss) is None or not says


def test_a_divergence_is_seen_after_a_resume_too() -> None:
    watch = DivergenceWatch(tgt_vocab_size=500, is_new=False)
    watch.update(50.0)
    assert watch.report(50.0) is not None
