"""precision: auto is expected by the device when a run begins, and kept."""

import json
from pathlib import Path

import pytest
import torch
from training.toy import assert_same_checkpoint, log_of, train_tiny

from nmt.device import fast_bf16
from nmt.training import loop

AUTO = {"steps": 2, "precision": "auto"}


def _unit(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    monkeypatch.setattr(loop, "fast_bf16", lambda device: name)


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
    train_tiny(corpus, "auto", train=AUTO)
    train_tiny(corpus, "named", train={"steps": 2, "precision": expected})
    assert_same_checkpoint(corpus / "auto", corpus / "named")
    reason = unit or "this device is not faster in bf16"
    for name, words in (("auto", f"{expected} (auto: {reason}"), ("named", expected)):
        card = json.loads((corpus / name / "run.json").read_text(encoding="utf-8"))
        assert card["hardware"]["precision"].startswith(words)
    assert f", {expected} (auto: {reason}" in log_of(corpus / "auto")


def test_a_run_keeps_its_format_on_another_machine(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _unit(monkeypatch, None)
    train_tiny(corpus, "whole", train=AUTO)
    train_tiny(corpus, stop_after=1, train=AUTO)
    _unit(monkeypatch, "AMX-BF16")
    train_tiny(corpus, train=AUTO)
    assert_same_checkpoint(corpus / "whole", corpus / "run")
    reason = "AMX-BF16 of this device, but the run was begun in fp32"
    assert f"fp32 (auto: {reason})" in log_of(corpus / "run")
