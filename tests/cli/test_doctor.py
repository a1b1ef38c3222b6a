"""nmt doctor: it tells what computes, and where native code is missing how to get it."""

import json
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import nmt
from nmt import device
from nmt.cli.app import app
from nmt.ops import backend
from nmt.ops.native import library


def _doctor(*options: str) -> str:
    result = CliRunner().invoke(app, ["doctor", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def _json() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_doctor("--json"))
    return found


@pytest.fixture
def no_native(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that found no compiler."""
    why_not = "when nmt was installed, no C++ compiler was found (c++ or g++)"
    monkeypatch.setattr(library, "_library", lambda: library.Library({}, why_not=why_not))
    monkeypatch.setattr(backend, "_choose", backend._choose.__wrapped__)  # without its cache


def test_json_has_versions_devices_backends_native_code_and_folders() -> None:
    found = _json()
    assert found["versions"]["nmt"] == nmt.__version__
    assert found["versions"]["torch"] == torch.__version__
    assert found["system"]["threads"] == torch.get_num_threads()
    assert found["system"]["cores"] >= 1
    assert found["system"]["memory_bytes"] > found["system"]["available_memory_bytes"] > 0
    assert found["devices"][-1].startswith("cpu (")
    assert found["native"]["available"] == library.available()
    assert bool(found["native"]["why_not"]) != bool(found["native"]["variant"])
    assert set(found["backend"]) == {"fp32", "bf16"}
    assert set(found["folders"]) == {"package", "corpora"}


@pytest.mark.parametrize(
    ("unit", "text"),
    [("AVX512-BF16", "AVX512-BF16"), (None, "no: train.precision: auto takes fp32 here")],
)
def test_it_says_whether_bf16_is_fast(
    unit: str | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "fast_bf16", lambda _: unit)
    assert _json()["fast_bf16"] == unit
    assert f"fast bf16     {text}\n" in _doctor()


@pytest.mark.skipif(not library.available(), reason=library.why_not())
def test_native_code_is_what_computes_where_there_is_any() -> None:
    for chosen in _json()["backend"].values():
        assert chosen["name"] == "native"
    text = _doctor()
    wanted = {"native": "this processor"}.get(library.variant(), library.variant())
    assert f"native code   compiled for {wanted}\n" in text
    assert "to get it" not in text


@pytest.mark.usefixtures("no_native")
def test_without_native_code_it_says_why_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    text = _doctor()
    why_not = "when nmt was installed, no C++ compiler was found (c++ or g++)"
    assert f"backend fp32  fused: no native: {why_not}\n" in text
    assert f"native code   none: {why_not}\n" in text
    assert "compiler      none (Debian, Ubuntu: apt-get install g++)\n" in text
    assert "to get it     install a C++ compiler, then python " in text
    assert _json()["compiler"] is None


@pytest.mark.usefixtures("no_native")
def test_with_a_compiler_by_now_one_command_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/g++" if name == "g++" else None)
    text = _doctor()
    assert "compiler      /usr/bin/g++\n" in text
    assert "to get it     python " in text


def test_a_package_that_is_missing_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.cli.doctor._PACKAGES", ("torch", "no-such-package"))
    assert _json()["versions"]["no-such-package"] is None
    assert "no-such-package (not installed)" in _doctor()


def test_the_folder_of_corpora_is_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_DATA", "/some/where")
    assert "corpora in    /some/where\n" in _doctor()
