"""The choice of the backend: by request, environment, device and dtype, and by nothing else."""

import functools
import warnings

import pytest
import torch
from torch import Tensor

from nmt.errors import ConfigError
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.ops import Operations, backend
from nmt.ops.agreement import disagreement
from nmt.ops.backend import (
    BackendName,
    Candidate,
    checked,
    choose,
    first_that_runs,
    operations,
    why,
)
from nmt.ops.fused.operations import FusedOperations
from nmt.ops.native import library
from nmt.ops.precision import dtypes_of
from nmt.optim.losses import cross_entropy
from tests.ops.conftest import NEEDS_NATIVE, operations_of

CPU = torch.device("cpu")
FP32 = dtypes_of(torch.float32)
OTHERS = pytest.mark.parametrize("name", ["fused", pytest.param("native", marks=NEEDS_NATIVE)])


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(backend.VARIABLE, raising=False)


def test_auto_takes_native_code_where_there_is_any() -> None:
    expected = "native" if library.available() else "fused"
    assert choose("auto", CPU, torch.float32).name == expected
    assert why("auto", CPU, torch.float32).startswith(f"{expected} (")
    for dtype in (torch.float16, torch.float64, torch.bfloat16):
        for name in ("reference", "fused"):
            assert choose(name, CPU, dtype)[::2] == (name, "named by model.backend")
    assert choose("auto", CPU, torch.float16).name == "fused"
    assert "float16" in why("auto", CPU, torch.float16) or not library.available()


def test_the_choice_is_one_value_whatever_is_going_on() -> None:
    x = torch.randn(3)
    expected = operations("auto", x)
    with torch.no_grad():
        assert operations("auto", x) is expected
    with torch.inference_mode():
        assert operations("auto", x) is expected
    assert operations("auto", x.clone().requires_grad_()) is expected
    with torch.autocast("cpu", torch.bfloat16):
        assert operations("auto", x) is choose("auto", CPU, torch.bfloat16).operations
        assert operations("auto", x.double()) is choose("auto", CPU, torch.float64).operations


def test_the_environment_stands_in_for_auto_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backend.VARIABLE, "reference")
    assert why("auto", CPU, torch.float32) == "reference (named by NMT_BACKEND)"
    assert choose("fused", CPU, torch.float32).name == "fused"
    monkeypatch.setenv(backend.VARIABLE, "auto")
    assert choose("auto", CPU, torch.float32).name != "reference"
    monkeypatch.setenv(backend.VARIABLE, "Fuse")
    with pytest.raises(ConfigError, match=r"^NMT_BACKEND: got 'Fuse', .*did you mean 'fused'"):
        choose("auto", CPU, torch.float32)


def test_a_backend_that_cannot_run_is_refused_with_the_reason() -> None:
    message = r"^model.backend: got 'triton', .*cpu.* cuda .*: auto, .*fused, reference$"
    with pytest.raises(ConfigError, match=message):
        choose("triton", CPU, torch.float32)
    with pytest.raises(ConfigError, match="native"):
        choose("native", CPU, torch.float16)


@OTHERS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_backend_agrees_with_the_reference(name: str, dtype: torch.dtype) -> None:
    """The check that a CUDA device gets; also where no gradient is wanted, and under autocast."""
    checked_operations = operations_of(name, dtype)
    before = torch.random.get_rng_state()
    assert disagreement(checked_operations, CPU, dtype) == ""
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert disagreement(checked_operations, CPU, dtype) == ""
    assert torch.equal(torch.random.get_rng_state(), before)


class _WrongValues(FusedOperations):
    def additive_attention_step(self, query: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        return super().additive_attention_step(1.01 * query, *others)


class _WrongGradients(FusedOperations):
    """The values are right."""

    def attentional_gru(self, gates: Tensor, *others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().attentional_gru(gates + 0.01 * (gates - gates.detach()), *others)


class _NaN(FusedOperations):
    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super().linear(x, weight, bias) + torch.nan


class _Crashing(FusedOperations):
    def gru_layer(self, *arguments: object) -> tuple[Tensor, Tensor]:
        raise RuntimeError("PTX was compiled\nwith an unsupported toolchain")


class _Absent(FusedOperations):
    def __init__(self, *arguments: object) -> None:
        raise ImportError("no module named triton")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (_WrongValues, "additive_attention_step differs from the reference by 0.0"),
        (_WrongGradients, "attentional_gru differs from the reference by 0.01"),
        (_NaN, "linear differs from the reference by nan"),
        (_Crashing, "gru_layer does not run: RuntimeError: PTX was compiled"),
        (_Absent, "ImportError: no module named triton"),
    ],
)
def test_a_wrong_operation_is_not_used(wrong: type[FusedOperations], reason: str) -> None:
    def build() -> Operations:
        return wrong(FP32, "cpu")

    fused = FusedOperations(FP32, "cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what agrees is used without a word
        assert checked(lambda: fused, CPU, torch.float32) == ""
    candidates = [
        Candidate("triton", None, "", lambda: checked(build, CPU, torch.float32), build),
        Candidate("fused", None, "", lambda: "", lambda: fused),
    ]
    with pytest.warns(RuntimeWarning, match="falling back") as caught:
        choice = first_that_runs(candidates)
    assert choice.operations is fused
    assert choice.name == "fused"
    assert choice.why.startswith(f"no triton: {reason}")
    assert len(caught) == 1
    assert "\n" not in choice.why + str(caught[0].message)


class _TF32(FusedOperations):
    """Rounds to the 10 bits of TF32 where the process lets a GPU do so."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y = super().linear(x, weight, bias)
        is_exact = torch.backends.cuda.matmul.fp32_precision == "ieee"
        return y if is_exact else y + (y.half().float() - y).detach()


def test_the_check_is_without_tf32() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        flag = torch.backends.cuda.matmul.fp32_precision
        assert disagreement(_TF32(FP32, "cpu"), CPU, torch.float32) == ""
        assert torch.backends.cuda.matmul.fp32_precision == flag
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_each_gpu_is_checked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[torch.device] = []

    def check(build: object, device: torch.device, dtype: torch.dtype) -> str:
        checks.append(device)
        return "" if device.index == 1 else "it is another GPU"

    monkeypatch.setattr(backend, "checked", check)
    monkeypatch.setattr(backend.launch, "why_not", lambda: "")
    monkeypatch.setattr(backend, "_choose", functools.cache(backend._choose.__wrapped__))
    first, second = (torch.device("cuda", index) for index in range(2))
    for _ in range(2):
        assert choose("auto", first, torch.float32).name == "fused"
        assert choose("auto", second, torch.float32).name == "triton"
    assert checks == [first, second]


def test_the_reference_is_plain_torch_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, loss, a step and a search take no autograd function, product or C++ of nmt."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("not plain torch")

    for place in (
        "torch.autograd.Function.apply",
        "nmt.ops.products.product",
        "nmt.ops.fused.linear.product",
        "nmt.ops.native.library.function",
        "nmt.ops.fused.operations.top_k",
        "nmt.ops.fused.operations.int8_product",
    ):
        monkeypatch.setattr(place, refuse)
    torch.manual_seed(0)
    config = RNNConfig.model_validate({"backend": "reference", "embedding": 5})
    model = build_model(config, 29, 29)
    ids, keep = torch.randint(4, 29, (3, 5)), torch.ones(3, 5).bool()
    for is_half in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
            cross_entropy(model(ids, keep, ids), ids, 0.1).loss_sum.backward()
            state = model.init_search_state(model.encode(ids, keep))
            step = model.step(ids[:, 0], state)
        step_operations = operations(step.vocabulary.backend, step.features)
        assert type(step_operations) is Operations
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("attention", ["additive", "concat", "dot", "multi_head"])
@OTHERS
def test_a_model_learns_the_same_by_every_backend(name: BackendName, attention: str) -> None:
    """Loss, attention weights and every gradient, in fp64."""
    torch.manual_seed(0)
    ids, keep = torch.randint(4, 29, (3, 5)), torch.arange(5) < torch.tensor([[5], [2], [4]])
    results = []
    for one in ("reference", name):
        settings = {"backend": one, "attention": {"kind": attention}, "dropout": 0.0}
        sizes = {"embedding": 5, "encoder": {"hidden": 8}, "hidden": 16}
        torch.manual_seed(1)
        model = build_model(RNNConfig.model_validate({**settings, **sizes}), 29, 29).double()
        output = model(ids, keep, ids, with_weights=True)
        loss = cross_entropy(output, ids, 0.1).loss_sum
        results.append([loss, output.weights, *torch.autograd.grad(loss, list(model.parameters()))])
    for expected, result in zip(*results, strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-11)
