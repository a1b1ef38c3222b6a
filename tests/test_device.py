"""device.py: the device that is meant, or one line why there is none."""

import pytest
import torch

from nmt.device import MemoryUse, resolve_device
from nmt.errors import ConfigError


def test_a_device_is_named_or_given() -> None:
    assert resolve_device("cpu") == resolve_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("wrong", ["", "gpu", "cpu:", "cpu:0", "cuda:", "cuda:-1", "mps:0", "CPU"])
def test_what_names_no_device_is_refused_in_a_line(wrong: str) -> None:
    with pytest.raises(ConfigError, match=f"^device: got '{wrong}', allowed: auto, cpu, cuda"):
        resolve_device(wrong)


def test_memory_is_estimated_for_the_largest_batch() -> None:
    use = MemoryUse(now=100, peak=150)
    assert use.expected_peak(n_positions=300, n_largest=200) == 100 + 1.5 * 50
    assert use.expected_peak(n_positions=100, n_largest=200) == 150
    assert use.expected_peak(n_positions=300, n_largest=200, growth=2.0) == 100 + 2 * 50
    assert use.expected_peak(n_positions=600, n_largest=200, growth=2.0) == 100 + 3 * 50


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_a_gpu_has_its_index(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one it would mean another GPU in another thread."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert resolve_device(name) == torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    assert resolve_device(name) == torch.device("cuda", 2)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
