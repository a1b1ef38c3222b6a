"""The choice of the backend: by request, environment, device and dtype, and by nothing else."""

import functools
import importlib.util
import shutil
from collections.abc import Callable

import pytest
import torch
from devices import DEVICE, HERE, IS_CPU
from laws.family import model_of
from torch import Tensor

from nmt.errors import ConfigError
from nmt.ops import Operations, backend
from nmt.ops.agreement import check
from nmt.ops.backend import BackendName, choose_backend, operations
from nmt.ops.fused.operations import FusedOperations
from nmt.ops.native.library import loaded_library
from nmt.optim.losses import cross_entropy
from tests.ops.conftest import NEEDS_NATIVE, operations_of

CPU = torch.device("cpu")
COMPILED_TRITON = pytest.mark.skipif(
    IS_CPU or importlib.util.find_spec("triton") is None, reason="needs a GPU and Triton"
)


def test_auto_takes_native_code_where_there_is_any() -> None:
    expected = "fused" if loaded_library().why_not else "native"
    assert choose_backend("auto", CPU, torch.float32).name == expected
    assert str(choose_backend("auto", CPU, torch.float32)).startswith(f"{expected} (")
    for dtype in (torch.float16, torch.float64, torch.bfloat16):
        for name in ("reference", "fused"):
            assert choose_backend(name, CPU, dtype)[::2] == (name, "named by model.backend")
    assert choose_backend("auto", CPU, torch.float16).name == "fused"
    reason = choose_backend("auto", CPU, torch.float16).why
    assert "float16" in reason or loaded_library().why_not


@COMPILED_TRITON
def test_auto_takes_triton_on_a_gpu() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert choose_backend("auto", HERE, dtype).name == "triton"
    assert choose_backend("auto", HERE, torch.float64).name == "fused"


def test_the_choice_is_one_value_whatever_is_going_on() -> None:
    x = torch.randn(3)
    expected = operations("auto", x)
    with torch.no_grad():
        assert operations("auto", x) is expected
    with torch.inference_mode():
        assert operations("auto", x) is expected
    assert operations("auto", x.clone().requires_grad_()) is expected
    with torch.autocast(DEVICE, torch.bfloat16):
        assert operations("auto", x) is choose_backend("auto", x.device, torch.bfloat16).operations
        assert (
            operations("auto", x.double())
            is choose_backend("auto", x.device, torch.float64).operations
        )


def test_a_backend_that_cannot_run_is_refused_with_the_reason() -> None:
    message = r"^model.backend: got 'triton', .*cpu.* cuda .*: auto, .*fused, reference$"
    with pytest.raises(ConfigError, match=message):
        choose_backend("triton", CPU, torch.float32)
    with pytest.raises(ConfigError, match="native"):
        choose_backend("native", CPU, torch.float16)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_right_operations_pass_the_check_without_a_trace(dtype: torch.dtype) -> None:
    """Also where no gradient is wanted, and under autocast; a warning would be an error."""
    before = torch.random.get_rng_state()
    assert check(lambda: operations_of("fused", dtype), HERE, dtype) == ""
    with torch.inference_mode(), torch.autocast(DEVICE, torch.bfloat16):
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
def test_the_check_finds_a_wrong_operation(change: Callable[[Tensor], Tensor], reason: str) -> None:
    class Wrong(FusedOperations):
        def attentional_gru(self, gates: Tensor, *others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return super().attentional_gru(change(gates), *others)

    with pytest.warns(RuntimeWarning, match="falling back"):
        result = check(lambda: Wrong(torch.float32, "cpu"), CPU, torch.float32)
    assert result.startswith(reason)
    assert "\n" not in result


def test_triton_that_fails_its_check_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """One check for each device, however often the backend is chosen."""
    checked: list[torch.device] = []

    def fail(_: object, device: torch.device, dtype: torch.dtype) -> str:
        checked.append(device)
        return "wrong"

    monkeypatch.setattr(backend, "check", fail)
    monkeypatch.setattr(backend, "why_no_triton", lambda: "")
    for name in ("choose_backend", "why_not"):
        monkeypatch.setattr(backend, name, functools.cache(getattr(backend, name).__wrapped__))
    devices = [torch.device("cuda", index) for index in (0, 0, 1)]
    for device in devices:
        choice = backend.choose_backend("auto", device, torch.float32)
        assert (choice.name, choice.why) == ("fused", "no triton: wrong")
        with pytest.raises(ConfigError, match="which cannot compute on cuda: wrong"):
            backend.choose_backend("triton", device, torch.float32)
    assert checked == devices[1:]


def test_the_check_is_without_tf32() -> None:
    class TF32(FusedOperations):
        """Rounds to the 10 bits of TF32 where the process lets a GPU do so."""

        def attentional_gru(self, *arguments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            outputs = super().attentional_gru(*arguments)
            is_exact = torch.backends.cuda.matmul.fp32_precision == "ieee"
            return outputs if is_exact else tuple(x + (x.half().float() - x) for x in outputs)

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        flag = torch.backends.cuda.matmul.fp32_precision
        assert check(lambda: TF32(torch.float32, "cpu"), CPU, torch.float32) == ""
        assert torch.backends.cuda.matmul.fp32_precision == flag
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("lacks", ["", "CUDA", "Triton", "compiler"])
def test_kernels_need_a_gpu_triton_and_a_compiler(
    monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    monkeypatch.delenv("CC", raising=False)
    spec, compiler = (None if lacks == name else "/bin/gcc" for name in ("Triton", "compiler"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: lacks != "CUDA")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(shutil, "which", lambda name: compiler)
    assert lacks in backend.why_no_triton()
    assert bool(backend.why_no_triton()) is bool(lacks)
    monkeypatch.setenv("CC", "/opt/cc")
    assert bool(backend.why_no_triton()) is (lacks in ("CUDA", "Triton"))


def test_the_reference_is_plain_torch_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, loss, a step and a search take no autograd function, product or C++ of nmt."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("not plain torch")

    for place in (
        "torch.autograd.Function.apply",
        "nmt.ops.products.product",
        "nmt.ops.fused.operations.product",
        "nmt.ops.native.library.loaded_library",
        "nmt.ops.fused.operations.top_k",
    ):
        monkeypatch.setattr(place, refuse)
    model = model_of("rnn", backend="reference", dropout=0.2)
    ids, keep = torch.randint(4, 29, (3, 5)), torch.ones(3, 5).bool()
    for is_half in (False, True):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=is_half):
            cross_entropy(model(ids, keep, ids), ids, 0.1).loss_sum.backward()
            state = model.init_search_state(model.encode(ids, keep))
            step = model.step(ids[:, 0], state)
        step_operations = operations(step.vocabulary.backend, step.features)
        assert type(step_operations) is Operations
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("decoder", ["bahdanau", "conditional"])
@pytest.mark.parametrize("attention", ["additive", "concat", "dot", "multi_head"])
@pytest.mark.parametrize(
    "name",
    [
        "fused",
        pytest.param("native", marks=NEEDS_NATIVE),
        pytest.param("triton", marks=COMPILED_TRITON),
    ],
)
def test_a_model_learns_the_same_by_every_backend(
    name: BackendName, attention: str, decoder: str
) -> None:
    """Loss, attention weights and every gradient; the reference decodes step by step."""
    dtype, tolerance = (torch.float32, 1e-4) if name == "triton" else (torch.float64, 1e-9)
    torch.manual_seed(0)
    ids, keep = torch.randint(4, 29, (3, 5)), torch.arange(5) < torch.tensor([[5], [2], [4]])
    results = []
    for one in ("reference", name):
        kinds = {"attention": {"kind": attention}, "decoder": {"kind": decoder}}
        model = model_of("rnn", backend=one, hidden=16, encoder={"hidden": 8}, **kinds).to(dtype)
        output = model(ids, keep, ids, with_weights=True)
        loss = cross_entropy(output, ids, 0.1).loss_sum
        results.append([loss, output.weights, *torch.autograd.grad(loss, list(model.parameters()))])
    for expected, result in zip(*results, strict=True):
        torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance / 100)
