"""The choice of the backend: by request, environment, device and dtype, and by nothing else."""

import functools
import importlib.util
import shutil
import sys

import pytest
import torch
from devices import DEVICE, HERE, IS_CPU
from laws.family import model_of
from torch import Tensor

from nmt.errors import ConfigError
from nmt.ops import Operations, backend
from nmt.ops.agreement import check
from nmt.ops.backend import choose_backend, operations
from nmt.ops.fused.operations import FusedOperations
from nmt.ops.native.library import loaded_library
from nmt.optim.losses import cross_entropy
from tests.ops.conftest import FASTER, operations_of

CPU, FP16, FP32, FP64 = torch.device("cpu"), torch.float16, torch.float32, torch.float64
BF16 = torch.bfloat16
COMPILED_TRITON = pytest.mark.skipif(
    IS_CPU or importlib.util.find_spec("triton") is None, reason="needs a GPU and Triton"
)


def test_auto_takes_native_code_where_there_is_any() -> None:
    expected = "fused" if loaded_library().why_not else "native"
    assert str(choose_backend("auto", CPU, FP32)).startswith(f"{expected} (")
    for name in ("reference", "fused"):
        assert choose_backend(name, CPU, FP16)[::2] == (name, "named by model.backend")
    choice = choose_backend("auto", CPU, FP16)
    assert choice.name == "fused"
    assert "float16" in choice.why or loaded_library().why_not
    message = r"^model.backend: got 'triton', .*cpu.* cuda .*: auto, .*fused, reference$"
    with pytest.raises(ConfigError, match=message):
        choose_backend("triton", CPU, FP32)
    with pytest.raises(ConfigError, match="native"):
        choose_backend("native", CPU, FP16)


def test_the_choice_is_one_value_whatever_is_going_on() -> None:
    x = torch.randn(3)
    for context in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
        with context:
            result = operations("auto", x.clone().requires_grad_())
            assert result is operations("auto", x) is choose_backend("auto", HERE, FP32).operations
    with torch.autocast(DEVICE, BF16):
        for tensor, dtype in ((x, BF16), (x.double(), FP64)):
            assert operations("auto", tensor) is choose_backend("auto", HERE, dtype).operations


@COMPILED_TRITON
def test_auto_takes_triton_on_a_gpu() -> None:
    for dtype in (FP32, BF16, FP16):
        assert choose_backend("auto", HERE, dtype).name == "triton"
    assert choose_backend("auto", HERE, FP64).name == "fused"


@pytest.mark.parametrize("dtype", [FP64, FP32, BF16])
def test_right_operations_pass_the_check_without_a_trace(dtype: torch.dtype) -> None:
    """Also where no gradient is wanted, and under autocast; a warning would be an error."""
    before = torch.random.get_rng_state()
    assert check(lambda: operations_of("fused", dtype), HERE, dtype) == ""
    with torch.inference_mode(), torch.autocast(DEVICE, BF16):
        assert check(lambda: operations_of("fused", dtype), HERE, dtype) == ""
    assert torch.equal(torch.random.get_rng_state(), before)


def _crash(_: Tensor) -> Tensor:
    raise RuntimeError("PTX was compiled\nwith an unsupported toolchain")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda gates: 1.01 * gates, "attentional_gru differs from the reference by 0.0"),
        # The values are right, the gradients are not.
        (lambda gates: 1.01 * gates - 0.01 * gates.detach(), "attentional_gru differs from"),
        (lambda gates: gates + torch.nan, "attentional_gru differs from the reference by nan"),
        (_crash, "RuntimeError: PTX was compiled"),
    ],
)
def test_the_check_finds_a_wrong_operation(change, reason: str) -> None:
    class Wrong(FusedOperations):
        def attentional_gru(self, gates: Tensor, *others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return super().attentional_gru(change(gates), *others)

    with pytest.warns(RuntimeWarning, match="falling back"):
        result = check(lambda: Wrong(FP32, "cpu"), CPU, FP32)
    assert result.startswith(reason)
    assert "\n" not in result


def test_triton_that_fails_its_check_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """One check for each device, however often the backend is chosen."""
    checked: list[torch.device] = []
    monkeypatch.setattr(backend, "check", lambda _, on, __: checked.append(on) or "wrong")
    monkeypatch.setattr(backend, "why_no_triton", str)
    for name in ("choose_backend", "why_not"):
        monkeypatch.setattr(backend, name, functools.cache(getattr(backend, name).__wrapped__))
    devices = [torch.device("cuda", index) for index in (0, 0, 1)]
    for device in devices:
        choice = backend.choose_backend("auto", device, FP32)
        assert (choice.name, choice.why) == ("fused", "no triton: wrong")
        with pytest.raises(ConfigError, match="which cannot compute on cuda: wrong"):
            backend.choose_backend("triton", device, FP32)
    assert checked == devices[1:]


@pytest.mark.parametrize("lacks", ["", "CUDA", "Triton", "compiler"])
def test_kernels_need_a_gpu_triton_and_a_compiler(monkeypatch, lacks: str) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: lacks != "CUDA")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: lacks != "Triton" or None)
    monkeypatch.setattr(shutil, "which", lambda _: None if lacks == "compiler" else "/bin/gcc")
    reason = backend.why_no_triton()
    assert lacks in reason
    assert bool(reason) is bool(lacks)
    monkeypatch.setenv("CC", "/opt/cc")
    assert bool(backend.why_no_triton()) is (lacks in ("CUDA", "Triton"))


@pytest.mark.skipif("pretend_cuda" in sys.modules, reason="its layers are autograd functions")
def test_the_reference_is_plain_torch_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, loss, a step and a search take no autograd function, product or C++ of nmt."""
    for place in (
        "torch.autograd.Function.apply",
        "nmt.ops.products.product",
        "nmt.ops.fused.operations.product",
        "nmt.ops.native.library.loaded_library",
        "nmt.ops.fused.operations.top_k",
    ):
        monkeypatch.setattr(place, None)
    model = model_of("rnn", backend="reference", dropout=0.2)
    ids, keep = torch.randint(4, 29, (3, 5)), torch.ones(3, 5).bool()
    for is_half in (False, True):
        with torch.autocast(DEVICE, BF16, enabled=is_half):
            cross_entropy(model(ids, keep, ids), ids, 0.1).loss_sum.backward()
            state = model.init_search_state(model.encode(ids, keep))
            step = model.step(ids[:, 0], state)
        step_operations = operations(step.vocabulary.backend, step.features)
        assert type(step_operations) is Operations
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("decoder", ["bahdanau", "conditional"])
@pytest.mark.parametrize("attention", ["additive", "concat", "dot", "multi_head"])
@pytest.mark.parametrize("name", [*FASTER, pytest.param("triton", marks=COMPILED_TRITON)])
def test_a_model_learns_the_same_by_every_backend(name, attention: str, decoder: str) -> None:
    """Loss, attention weights and every gradient, with and without dropout of the weights.

    The reference decodes step by step.
    """
    dtype, tolerance = (FP32, 1e-4) if name == "triton" else (FP64, 1e-9)
    ids, keep = torch.randint(4, 29, (3, 5)), torch.arange(5) < torch.tensor([[5], [2], [4]])
    options = {"hidden": 16, "encoder": {"hidden": 8}, "decoder": {"kind": decoder}}
    for dropout in (0.0, 0.5):
        results = []
        for one in ("reference", name):
            kinds = {"attention": {"kind": attention, "dropout": dropout}, **options}
            model = model_of("rnn", backend=one, **kinds).to(dtype).train()
            output = model(ids, keep, ids, with_weights=True)
            loss = cross_entropy(output, ids, 0.1).loss_sum
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            results.append([loss, output.weights, *gradients])
        torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance / 100)
