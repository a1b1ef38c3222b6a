"""The needs of launches, with Triton and without."""

import importlib.util
import shutil

import pytest
import torch

from nmt.ops.triton.launch import check_writable, device_of, rows, why_not


@pytest.mark.parametrize("lacks", ["", "CUDA", "Triton", "compiler"])
def test_kernels_need_a_gpu_triton_and_a_compiler(
    monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    monkeypatch.delenv("CC", raising=False)
    spec, compiler = (None if lacks == name else "/bin/gcc" for name in ("Triton", "compiler"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: lacks != "CUDA")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(shutil, "which", lambda name: compiler)
    assert lacks in why_not()
    assert bool(why_not()) is bool(lacks)
    monkeypatch.setenv("CC", "/opt/cc")
    assert bool(why_not()) is (lacks in ("CUDA", "Triton"))


def test_only_what_is_not_in_one_piece_is_copied() -> None:
    x = torch.randn(3, 5, 7)
    same, part, turned = rows(x, x[:, ::2, 1:], x.transpose(1, 2))
    assert same is x
    assert part.data_ptr() == x[0, 0, 1:].data_ptr()
    assert turned.is_contiguous()
    assert torch.equal(turned, x.transpose(1, 2))
    check_writable(x[0], x[0, :, 1:3])
    with pytest.raises(AssertionError):
        check_writable(x[0], x[0].t())
    with device_of(x) as device:
        assert device is None
