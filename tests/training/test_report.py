"""report.py: what a training says of its memory."""

import re
from pathlib import Path

import pytest
from training.toy import toy_config, toy_state

from nmt.data.batching import Batcher, EncodedCorpus
from nmt.device import MemoryUse, glibc
from nmt.training import report
from nmt.training.log import RunLog
from nmt.training.step import StepResult


def test_the_memory_said_counts_the_growth_of_the_heap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the largest batch was among the first."""
    monkeypatch.setattr(report, "_RELEASE_EVERY", 1)
    monkeypatch.setattr(report.MemoryUse, "of", lambda device: MemoryUse(now=2**30, peak=2**31))
    batcher = Batcher(EncodedCorpus([(5, 6)], [(7,)]), 32, "sentences", seed=1)
    state, result = toy_state(), StepResult(1.0, 1, 1.0)
    with RunLog(tmp_path, quiet=True) as log:
        reporter = report.Reporter(state, log, toy_config(tmp_path).train, batcher)
        reporter.count_update([batcher.corpus.batch([0])], result, 3)
        state.progress.step += 1
        reporter.after_update(result, 1, 1)
    text = (tmp_path / "train.log").read_text(encoding="utf-8")
    (expected,) = re.findall(r" about ([0-9.]+) GiB of memory with", text)
    assert (float(expected) > 2.0) == (glibc() is not None)
