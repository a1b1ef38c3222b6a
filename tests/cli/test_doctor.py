"""`nmt doctor`: it tells what computes, and where native code is missing how to get it."""

import pytest
import torch
from cli.helpers import nmt

import nmt as package
from nmt import device
from nmt.ops.native.library import loaded_library


def facts() -> dict[str, str]:
    lines = nmt("doctor").stdout.splitlines()
    return {line[:14].rstrip(): line[14:] for line in lines}


def test_versions_devices_memory_and_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.cli.commands.doctor._PACKAGES", ("torch", "no-such-package"))
    monkeypatch.setenv("NMT_DATA", "/some/where")
    monkeypatch.setattr(device, "fast_bf16", lambda _: "AVX512-BF16")
    lines = facts()
    assert lines["nmt"].startswith(package.__version__)
    assert f"torch {torch.__version__}, no-such-package (not installed)" in lines["nmt"]
    assert lines["threads"].startswith(f"{torch.get_num_threads()} ")
    assert lines["device"].startswith("cpu (")
    assert lines["corpora in"] == "/some/where"
    assert lines["fast bf16"] == "AVX512-BF16"
    if not loaded_library().why_not:
        assert lines["backend fp32"].startswith("native: ")
        assert lines["native code"].startswith("compiled for ")
        assert "to get it" not in lines
