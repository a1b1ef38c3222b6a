"""A check that the attentional GRU of a backend agrees with the reference."""

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from nmt.ops.reference import AdditiveMemory, DecoderWeights, Operations

_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
_HALF_TOLERANCE = 0.05  # largest norm of an error in 16 bits, relative to the reference's norm

B, S, T, H, K, M = 3, 5, 4, 32, 48, 16
"""Sizes of the tensors; several are multiples of 16, for which kernels have special code."""

_Inputs = tuple[Tensor, Tensor, AdditiveMemory, DecoderWeights]


def check(build: Callable[[], Operations], device: torch.device, dtype: torch.dtype) -> str:
    """Return why operations must not be used, or "" if they agree with the reference.

    Values and gradients of `attentional_gru` are compared on small tensors. A difference or an
    exception also causes a warning. `dtype` is the dtype of matrix products; 16-bit products are
    computed under autocast. Products in fp32 do not use TF32, even if the process allows it. The
    states of torch's generators and the caller's gradient mode do not change.
    """
    matmul = torch.backends.cuda.matmul
    precision, matmul.fp32_precision = matmul.fp32_precision, "ieee"
    try:
        with torch.inference_mode(False), torch.enable_grad():
            reason = _disagreement(build(), device, dtype)
    except Exception as failure:  # importing, building or compiling a backend may raise anything
        reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
    finally:
        matmul.fp32_precision = precision
    if reason:
        warnings.warn(f"falling back to another backend: {reason}", RuntimeWarning, stacklevel=2)
    return reason


def _disagreement(operations: Operations, device: torch.device, dtype: torch.dtype) -> str:
    """Return how `attentional_gru` differs from the reference, in a line, or "" if it agrees."""
    is_half = torch.finfo(dtype).bits < 32
    for inputs in _cases(device, torch.float32 if is_half else dtype):
        with torch.autocast(device.type, enabled=False):
            expected = _values_and_gradients(Operations(), inputs)
        with torch.autocast(device.type, dtype if is_half else None, enabled=is_half):
            computed = _values_and_gradients(operations, inputs)
        error = max(map(_relative_error, computed, expected))
        if not error <= _TOLERANCES.get(dtype, _HALF_TOLERANCE):  # NaN is an error too
            return f"attentional_gru differs from the reference by {error:.1g}"
    return ""


def _relative_error(computed: Tensor, expected: Tensor) -> float:
    difference = (computed.double() - expected.double()).norm()
    return float(difference / expected.double().norm().clamp(min=1e-12))


def _cases(device: torch.device, dtype: torch.dtype) -> Iterator[_Inputs]:
    """Yield inputs of the three decoders. One of the sentences is all padding."""
    generator = torch.Generator("cpu").manual_seed(0)

    def draw(*shape: int) -> Tensor:
        x = torch.randn(shape, generator=generator, device="cpu")
        return x.div(2).to(device, dtype).requires_grad_()

    keep = (torch.arange(S) < torch.tensor([[S], [2], [0]])).to(device)
    memory = AdditiveMemory(draw(B, S, K), draw(B, S, M), keep, draw(K))
    weights = DecoderWeights(draw(3 * H, M), draw(3 * H, H), draw(3 * H), draw(K, H))
    transition = {"W_t": draw(3 * H, H), "b_t": draw(3 * H)}
    feed = {"W_c": draw(3 * H, H), "W_fc": draw(H, M), "W_fs": draw(H, H)}
    for others in ({}, transition, feed):
        yield draw(T, B, 3 * H), draw(B, H), memory, weights._replace(**others)


def _values_and_gradients(operations: Operations, inputs: _Inputs) -> list[Tensor]:
    """Return the outputs, and the gradients of a sum that weights each number differently."""
    gates, hidden, memory, weights = inputs
    outputs = operations.attentional_gru(*inputs)
    tensors = (gates, hidden, *memory, *weights)
    leaves = [x for x in tensors if x is not None and x.requires_grad]
    total = torch.zeros((), dtype=torch.float64, device=gates.device)
    for out in outputs:
        total = total + out.double().flatten() @ torch.linspace(-1, 2, out.numel()).to(total)
    return [*(out.detach() for out in outputs), *torch.autograd.grad(total, leaves)]
