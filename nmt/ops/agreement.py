"""Whether operations agree with the reference on small tensors, values and gradients."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from nmt.ops.reference import AdditiveMemory, DecoderWeights, Operations

_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
_HALF_TOLERANCE = 0.05
"""The largest norm of an error, relative to the norm of the reference."""

B, S, T, H, K, M, V = 3, 5, 4, 32, 48, 16, 100
"""Sizes of the tensors; several are multiples of 16, for which kernels have code of their own."""


def disagreement(operations: Operations, device: torch.device, dtype: torch.dtype) -> str:
    """The first difference from the reference, or failure, in one line; empty where all agree.

    `dtype` is that of matrix products; a 16-bit one is computed under autocast. Products in fp32
    are exact, also in a process that allows TF32 on a GPU. The state of torch's generators and the
    caller's gradient mode stay as they are.
    """
    reference = Operations()
    is_half = torch.finfo(dtype).bits < 32
    with torch.inference_mode(False), torch.enable_grad(), _exact_products():
        for name, arguments in _cases(device, torch.float32 if is_half else dtype):
            with torch.autocast(device.type, enabled=False):
                expected = _values_and_gradients(reference, name, arguments)
            try:
                with torch.autocast(device.type, dtype if is_half else None, enabled=is_half):
                    computed = _values_and_gradients(operations, name, arguments)
                error = max(map(_relative_error, computed, expected))
            except Exception as failure:  # whatever a kernel or its compiler raises
                first_line = str(failure).partition("\n")[0]
                return f"{name} does not run: {type(failure).__name__}: {first_line}"
            if not error <= _TOLERANCES.get(dtype, _HALF_TOLERANCE):  # NaN is an error too
                return f"{name} differs from the reference by {error:.1g}"
    return ""


@contextlib.contextmanager
def _exact_products() -> Iterator[None]:
    """Compute products of fp32 matrices in fp32 on a GPU in this block."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def _relative_error(computed: Tensor, expected: Tensor) -> float:
    difference = (computed.double() - expected.double()).norm()
    return float(difference / expected.double().norm().clamp(min=1e-12))


def _cases(device: torch.device, dtype: torch.dtype) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The names of operations, and their arguments in order; one sentence has no kept position."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).div(2).to(device, dtype).requires_grad_()

    def ids(*values: int) -> Tensor:
        return torch.tensor(values, device=device)

    keep = (torch.arange(S) < torch.tensor([[S], [2], [0]])).to(device)
    memory = AdditiveMemory(draw(B, S, K), draw(B, S, M), keep, draw(K))
    weights = DecoderWeights(draw(3 * H, M), draw(3 * H, H), draw(3 * H), draw(K, H))
    decoder = {"gates": draw(T, B, 3 * H), "hidden": draw(B, H), "memory": memory}
    yield "attentional_gru", {**decoder, "weights": weights}
    transition = {"W_t": draw(3 * H, H), "b_t": draw(3 * H)}
    yield "attentional_gru", {**decoder, "weights": weights._replace(**transition)}
    query = {"query": draw(4, K), "sentences": ids(2, 0, 0, 1)}
    yield "additive_attention_step", {**query, "memory": memory}
    layer: dict[str, object] = {"x": draw(B, H), "weight": draw(V, H), "bias": draw(V)}
    yield "linear", layer
    targets = {"targets": ids(0, 7, V - 2), "n_real": V - 1, "smoothing": 0.1}
    yield "linear_cross_entropy", {**layer, **targets}
    directions = [(draw(3 * H, M), draw(3 * H, H), draw(3 * H), draw(3 * H)) for _ in range(2)]
    yield "gru_layer", {"x": draw(B, S, M), "lengths": ids(S, 1, 3), "weights": directions}


def _values_and_gradients(
    operations: Operations, name: str, arguments: Mapping[str, object]
) -> list[Tensor]:
    """The outputs, and the gradients of a sum in which each of their numbers counts differently."""
    outputs = list(_tensors(getattr(operations, name)(*arguments.values())))
    learned = [x for x in _tensors(list(arguments.values())) if x.requires_grad]
    total = sum(
        (out.double().flatten() * torch.linspace(-1, 2, out.numel(), device=out.device)).sum()
        for out in outputs
        if out.requires_grad
    )
    assert isinstance(total, Tensor)
    return [*(out.detach() for out in outputs), *torch.autograd.grad(total, learned)]


def _tensors(value: object) -> Iterator[Tensor]:
    """All tensors in nested sequences."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _tensors(inner)
