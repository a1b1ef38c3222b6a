"""nmt doctor: it tells what computes, and where native code is missing how to get it."""

import json
from typing import Any

import pytest
import torch
from cli.helpers import nmt

import nmt as package
from nmt import device
from nmt.ops import backend
from nmt.ops.native import library


def facts() -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(nmt("doctor", "--json").stdout)
    return fields


def test_json_has_versions_devices_backends_native_code_and_folders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = facts()
    assert fields["versions"]["nmt"] == package.__version__
    assert fields["versions"]["torch"] == torch.__version__
    assert fields["system"]["threads"] == torch.get_num_threads()
    assert fields["system"]["cores"] >= 1
    assert fields["system"]["memory_bytes"] > fields["system"]["available_memory_bytes"] > 0
    assert fields["devices"][-1].startswith("cpu (")
    assert fields["native"]["available"] == library.available()
    assert bool(fields["native"]["why_not"]) != bool(fields["native"]["variant"])
    assert set(fields["backend"]) == {"fp32", "bf16"}
    assert set(fields["folders"]) == {"package", "corpora"}
    monkeypatch.setattr("nmt.cli.commands.doctor._PACKAGES", ("torch", "no-such-package"))
    monkeypatch.setenv("NMT_DATA", "/some/where")
    assert facts()["versions"]["no-such-package"] is None
    text = nmt("doctor").stdout
    assert "no-such-package (not installed)" in text
    assert "corpora in    /some/where\n" in text


@pytest.mark.parametrize(("unit", "text"), [("AVX512-BF16", "AVX512-BF16"), (None, "no: ")])
def test_it_says_whether_bf16_is_fast(
    unit: str | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "fast_bf16", lambda _: unit)
    assert facts()["fast_bf16"] == unit
    assert f"fast bf16     {text}" in nmt("doctor").stdout


@pytest.mark.skipif(not library.available(), reason=library.why_not())
def test_native_code_is_what_computes_where_there_is_any() -> None:
    assert {chosen["name"] for chosen in facts()["backend"].values()} == {"native"}
    text = nmt("doctor").stdout
    variant = {"native": "this processor"}.get(library.variant(), library.variant())
    assert f"native code   compiled for {variant}\n" in text
    assert "to get it" not in text


@pytest.mark.parametrize("compiler", [None, "/usr/bin/g++"])
def test_without_native_code_it_says_why_and_how_to_get_it(
    compiler: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    why_not = "when nmt was installed, no C++ compiler was found (c++ or g++)"
    monkeypatch.setattr(library, "_library", lambda: library.Library({}, why_not=why_not))
    monkeypatch.setattr(backend, "_choose", backend._choose.__wrapped__)  # without its cache
    monkeypatch.setattr("shutil.which", lambda name: compiler if name == "g++" else None)
    assert facts()["compiler"] == compiler
    text = nmt("doctor").stdout
    assert f"backend fp32  fused: no native: {why_not}\n" in text
    assert f"native code   none: {why_not}\n" in text
    assert f"compiler      {compiler or 'none'}" in text
    advice = "python " if compiler else "install a C++ compiler, then python "
    assert f"to get it     {advice}" in text
