"""What launches need, with Triton and without."""

import importlib.util
import shutil

import pytest
import torch

from nmt.ops.triton.launch import device_of, rows, why_not, writable


@pytest.mark.parametrize(
    ("gpu", "triton", "compiler", "lacks"),
    [
        (True, True, True, ""),
        (True, True, False, "compiler"),
        (True, False, True, "Triton"),
        (False, True, True, "CUDA"),
    ],
)
def test_kernels_need_a_gpu_triton_and_a_compiler(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, triton: bool, compiler: bool, lacks: str
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if triton else None)
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/gcc" if compiler else None)
    assert lacks in why_not()
    assert bool(why_not()) is bool(lacks)
    monkeypatch.setenv("CC", "/opt/cc")
    assert bool(why_not()) is (not gpu or not triton)


def test_rows_copies_only_what_is_not_in_one_piece() -> None:
    x = torch.randn(3, 5, 7)
    whole, part, turned = rows(x, x[:, ::2, 1:], x.transpose(1, 2))
    assert whole is x
    assert part.data_ptr() == x[0, 0, 1:].data_ptr()
    assert turned.is_contiguous()
    assert torch.equal(turned, x.transpose(1, 2))


def test_only_a_row_in_one_piece_is_writable() -> None:
    x = torch.empty(3, 5)
    assert writable(x, x[:, 1:3])[0] is x
    with pytest.raises(AssertionError):
        writable(x, x.t())


def test_without_a_gpu_no_device_is_chosen() -> None:
    with device_of(torch.zeros(1)) as chosen:
        assert chosen is None
