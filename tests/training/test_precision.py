"""precision: auto is expected by the device when a run begins, and kept."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from training.toy import last_checkpoint, log_of, train_tiny

from nmt.device import fast_bf16
from nmt.training import loop

AUTO: dict[str, Any] = {"train": {"steps": 2, "precision": "auto"}}


def _unit(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    monkeypatch.setattr(loop, "fast_bf16", lambda device: name)


def _card(run: Path) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    return card["hardware"]


@pytest.mark.parametrize(
    ("keys", "unit"),
    [([], None), (["avx512_bf16"], "AVX512-BF16"), (["avx512_bf16", "amx_bf16"], "AMX-BF16")],
)
def test_the_unit_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, keys: list[str], unit: str | None
) -> None:
    capabilities = {"avx512_bf16": False, "amx_bf16": False, **dict.fromkeys(keys, True)}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert fast_bf16(torch.device("cpu")) == unit


def test_a_gpu_is_fast_in_bf16_from_ampere_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for capability, is_fast in (((7, 5), False), ((8, 0), True), ((9, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        assert (fast_bf16(torch.device("cuda")) is not None) == is_fast
    assert fast_bf16(torch.device("mps")) is None


@pytest.mark.parametrize(("unit", "expected"), [("AMX-BF16", "bf16"), (None, "fp32")])
def test_auto_is_what_it_chooses_and_says_so(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, unit: str | None, expected: str
) -> None:
    _unit(monkeypatch, unit)
    train_tiny(corpus, **AUTO)
    auto = last_checkpoint(corpus / "run").model_tensors
    assert _card(corpus / "run")["precision"].startswith(f"{expected} (auto: ")
    log = log_of(corpus / "run")
    assert f", {expected} (auto: {unit or 'this device is not faster in bf16'}" in log
    (corpus / "run").rename(corpus / "auto")
    train_tiny(corpus, train={"steps": 2, "precision": expected})
    assert _card(corpus / "run")["precision"] == expected
    named = last_checkpoint(corpus / "run").model_tensors
    assert all(torch.equal(auto[name], tensor) for name, tensor in named.items())


def test_a_run_keeps_its_format_on_another_machine(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer: dict[str, Any] = {"train": {**AUTO["train"], "steps": 4}}
    _unit(monkeypatch, None)
    train_tiny(corpus, **longer)
    weights = last_checkpoint(corpus / "run").model_tensors
    (corpus / "run").rename(corpus / "whole")
    train_tiny(corpus, stop_after=2, **longer)
    _unit(monkeypatch, "AMX-BF16")
    train_tiny(corpus, **longer)
    resumed = last_checkpoint(corpus / "run").model_tensors
    assert all(torch.equal(weights[name], tensor) for name, tensor in resumed.items())
    log = log_of(corpus / "run")
    assert "fp32 (auto: AMX-BF16 of this device, but the run was begun in fp32)" in log
