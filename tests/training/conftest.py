"""Corpora for runs of a second."""

import os
from pathlib import Path

import pytest
from training.toy import write_reversal


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a small corpus of reversals: four updates an epoch."""
    write_reversal(tmp_path, n_train=100, n_test=10)
    return tmp_path


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has no cache to flush; test_power_cut.py records the calls all the same."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
