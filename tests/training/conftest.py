"""Corpora for runs of a second."""

import os
from pathlib import Path

import pytest
from training.toy import copy_begun, train_tiny, write_reversal


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a small corpus of reversals: four updates an epoch."""
    write_reversal(tmp_path, n_train=100, n_test=10)
    return tmp_path


@pytest.fixture(scope="module")
def _stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    write_reversal(folder, n_train=100, n_test=10)
    train_tiny(folder, stop_after=3)
    return folder


@pytest.fixture
def begun(_stopped: Path, tmp_path: Path) -> Path:
    """A folder with that corpus, and its `run` that was stopped after 3 of 8 updates."""
    return copy_begun(_stopped, tmp_path)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has no cache to flush; test_power_cut.py records the calls all the same."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
