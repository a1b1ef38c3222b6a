"""Memory to come, and the device that is meant."""

import pytest
import torch

from nmt.device import MemoryUse, resolve_device
from nmt.errors import ConfigError


def test_memory_is_estimated_for_the_largest_batch() -> None:
    use = MemoryUse(now=100, peak=150)
    assert use.expected_peak(n_positions=300, n_largest=200) == 100 + 1.5 * 50
    assert use.expected_peak(n_positions=100, n_largest=200) == 150
    assert use.expected_peak(n_positions=300, n_largest=200, growth=2.0) == 100 + 2 * 50
    assert use.expected_peak(n_positions=600, n_largest=200, growth=2.0) == 100 + 3 * 50


def test_a_device_is_named_and_a_gpu_has_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one it would mean another GPU in another thread."""
    assert resolve_device("cpu") == resolve_device(torch.device("cpu")) == torch.device("cpu")
    for wrong in ("", "gpu", "cpu:", "cpu:0", "cuda:", "cuda:-1", "mps:0", "CPU"):
        with pytest.raises(ConfigError, match=f"^device: got '{wrong}', allowed: auto, cpu, cuda"):
            resolve_device(wrong)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert resolve_device("auto") == resolve_device("cuda") == torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    assert resolve_device("auto") == resolve_device("cuda") == torch.device("cuda", 2)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
