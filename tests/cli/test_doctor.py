"""`nmt doctor`: it tells what computes, and where native code is missing how to get it."""

import pytest
import torch
from cli.helpers import nmt

import nmt as package
from nmt import device
from nmt.ops import backend
from nmt.ops.native import library


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
    assert lines["memory"].endswith(" GiB available")
    assert lines["device"].startswith("cpu (")
    assert lines["corpora in"] == "/some/where"
    assert lines["fast bf16"] == "AVX512-BF16"
    if library.available():
        assert lines["backend fp32"].startswith("native: ")
        assert lines["native code"].startswith("compiled for ")
        assert "to get it" not in lines


@pytest.mark.parametrize("compiler", [None, "/usr/bin/g++"])
def test_without_native_code_it_says_why_and_how_to_get_it(
    compiler: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    why_not = "when nmt was installed, no C++ compiler was found (c++ or g++)"
    monkeypatch.setattr(library, "_library", lambda: library.Library({}, why_not=why_not))
    for name in ("choose", "why_not"):
        monkeypatch.setattr(backend, name, getattr(backend, name).__wrapped__)  # without its cache
    monkeypatch.setattr("shutil.which", lambda name: compiler if name == "g++" else None)
    lines = facts()
    assert lines["backend fp32"] == f"fused: no native: {why_not}"
    assert lines["native code"] == f"none: {why_not}"
    assert lines["compiler"].startswith(compiler or "none")
    advice = "python " if compiler else "install a C++ compiler, then python "
    assert lines["to get it"].startswith(advice)
