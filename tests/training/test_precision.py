"""precision: auto is expected by the device when a run begins, and kept."""

import json
from pathlib import Path

import pytest
import torch
from training.toy import assert_same_checkpoint, train_tiny

from nmt.device import fast_bf16
from nmt.training import loop

AUTO = {"steps": 2, "precision": "auto"}


def test_the_unit_of_a_processor_and_a_gpu_from_ampere_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for keys, unit in (
        ([], None),
        (["avx512_bf16"], "AVX512-BF16"),
        (["avx512_bf16", "amx_bf16"], "AMX-BF16"),
    ):
        capabilities = {"avx512_bf16": False, "amx_bf16": False, **dict.fromkeys(keys, True)}
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda c=capabilities: c)
        assert fast_bf16(torch.device("cpu")) == unit
    for capability, is_fast in (((7, 5), False), ((8, 0), True), ((9, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        assert (fast_bf16(torch.device("cuda")) is not None) == is_fast
    assert fast_bf16(torch.device("mps")) is None


@pytest.mark.parametrize(("unit", "expected"), [("AMX-BF16", "bf16"), (None, "fp32")])
def test_auto_is_what_it_chooses_and_says_so(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, unit: str | None, expected: str
) -> None:
    """And a run keeps its format on another machine."""
    monkeypatch.setattr(loop, "fast_bf16", lambda device: unit)
    train_tiny(corpus, "named", train={"steps": 2, "precision": expected})
    train_tiny(corpus, "auto", stop_after=1, train=AUTO)
    monkeypatch.setattr(loop, "fast_bf16", lambda device: None if unit else "AMX-BF16")
    train_tiny(corpus, "auto", train=AUTO)
    assert_same_checkpoint(corpus / "auto", corpus / "named")
    reason = unit or "this device is not faster in bf16"
    for name, words in (("auto", f"{expected} (auto: {reason}"), ("named", expected)):
        card = json.loads((corpus / name / "run.json").read_text(encoding="utf-8"))
        assert card["hardware"]["precision"].startswith(words)
