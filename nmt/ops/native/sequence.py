"""The contract of steps.py, and the vocabulary's loss, by native/sequence.cpp.

For training on a CPU in fp32 or with products in bf16, and for tests in fp64.
"""

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.ops.native.build import Built, built
from nmt.ops.precision import Dtypes
from nmt.ops.products import product
from nmt.ops.steps import AdditiveSteps, Steps

_SOURCE = Path(__file__).with_name("sequence.cpp")
_DTYPES = {
    Dtypes(torch.float32, torch.float32): ("LOW=float", "WORK=float"),
    Dtypes(torch.bfloat16, torch.float32): ("LOW=bf16", "WORK=float"),
    Dtypes(torch.float64, torch.float64): ("LOW=double", "WORK=double"),
}
_FEW = 8
"""Columns; native/sequence.cpp has no more."""

_SIGNATURES = {
    "gru_gates": "nnpnn" + 8 * "p" + "nn",
    "gru_gates_backward": "nnpppnnppnnppnpp",
    "look_keys": "nnppp",
    "look": 4 * "n" + 10 * "p",
    "look_backward": 4 * "n" + 17 * "p" + "n",
    "softmax_loss": "nnpppnrnppp",
    "product": "nnnppnnp",
    "turned": "nnpp",
}
"""What native/sequence.cpp has; see `function`."""

_KINDS = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "r": ctypes.c_double}


@functools.cache
def native_steps(dtypes: Dtypes) -> "NativeSteps | None":
    """The operations for these dtypes on a CPU; None where no native code is available for them."""
    library = _built(dtypes).library if dtypes in _DTYPES else None
    return NativeSteps(dtypes, library) if library else None


def why_not_compiled(dtypes: Dtypes) -> str:
    """Why there are no compiled operations for these dtypes; empty where there are."""
    if dtypes not in _DTYPES:
        return f"none for {str(dtypes.compute).removeprefix('torch.')}"
    return _built(dtypes).why_not


def _built(dtypes: Dtypes) -> Built:
    return built(_SOURCE, *_DTYPES[dtypes], functions=tuple(_SIGNATURES))


def function(library: ctypes.CDLL, name: str, signature: str) -> Any:
    """One of a library that returns nothing, of (p)ointers, whole (n)umbers and (r)eal ones."""
    found = getattr(library, name)
    found.argtypes = [_KINDS[kind] for kind in signature]
    found.restype = None
    return found


class NativeSteps(Steps):
    """See Steps; contiguous tensors, but for what strides are passed of."""

    def __init__(self, dtypes: Dtypes, library: ctypes.CDLL) -> None:
        super().__init__(dtypes)

        def operation(name: str) -> Any:
            return function(library, name, _SIGNATURES[name])

        self._gates = operation("gru_gates")
        self._gates_backward = operation("gru_gates_backward")
        self._look_keys = operation("look_keys")
        self._look = operation("look")
        self._look_backward = operation("look_backward")
        self._loss = operation("softmax_loss")
        self._product = operation("product")
        self._turned = operation("turned")

    def product(
        self, weight: Float[Tensor, "M K"], x: Float[Tensor, "K N"]
    ) -> Float[Tensor, "M N"]:
        """See Steps. Of few columns by code of our own: libraries read a weight much slower."""
        (size, inner), n_columns = weight.shape, x.shape[1]
        if not 0 < n_columns <= _FEW:
            return product(weight, x)
        out = weight.new_empty(size, n_columns)
        self._product(size, inner, n_columns, at(weight), x.data_ptr(), *x.stride(), at(out))
        return out

    def gru_gates(
        self,
        x: Float[Tensor, "G B"],
        read: Float[Tensor, "G B"] | None,
        h: Float[Tensor, "G B"],
        bias: Float[Tensor, " F"],
        state: Float[Tensor, "H B"],
        made: Float[Tensor, "F B"],
        out: Float[Tensor, "B H"],
    ) -> tuple[Float[Tensor, "H B"], Float[Tensor, "H B"]]:
        """See Steps."""
        following = torch.empty_like(state)
        low = (
            following
            if self.compute_dtype == self.accumulate_dtype
            else torch.empty_like(state, dtype=self.compute_dtype)
        )
        self._gates(
            *state.shape, x.data_ptr(), *x.stride(), at(read), at(h), at(bias), at(state),
            at(made), at(following), None if low is following else at(low), out.data_ptr(),
            *out.t().stride(),
        )  # fmt: skip
        return following, low

    def gru_gates_backward(
        self,
        kept: Float[Tensor, "H B"],
        through: Float[Tensor, "H B"] | None,
        of_out: Float[Tensor, "B H"] | None,
        made: Float[Tensor, "F B"],
        before: Float[Tensor, "B H"],
        shares: Float[Tensor, "F B"],
        every: Float[Tensor, "F B"],
        of_bias: Float[Tensor, " F"],
    ) -> Float[Tensor, "H B"]:
        """See Steps."""
        stays = torch.empty_like(kept)
        more = (None, 0, 0) if of_out is None else (of_out.data_ptr(), *of_out.t().stride())
        self._gates_backward(
            *kept.shape, at(kept), at(through), *more, at(made), before.data_ptr(),
            *before.t().stride(), at(shares), every.data_ptr(), every.stride(0), at(of_bias),
            at(stays),
        )  # fmt: skip
        return stays

    def additive_attention(
        self,
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> AdditiveSteps:
        """See Steps."""
        memory = (
            keys.to(self.compute_dtype).contiguous(),
            values.to(self.compute_dtype).contiguous(),
        )
        return _NativeAttention(
            self, *memory, keep.contiguous(), v.to(self.accumulate_dtype).contiguous()
        )

    def loss(
        self,
        logits: Float[Tensor, "V N"],
        bias: Float[Tensor, " V"],
        targets: Int[Tensor, " N"],
        n_real: int,
        smoothing: float,
        of_bias: Float[Tensor, " V"] | None,
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Each column's -log p(target), and with smoothing its mean over the `n_real` first rows.

        Where `of_bias` is given, `logits` become the gradient of the smoothed loss by the logits,
        and its sum over columns is added to `of_bias`. `logits` come without `bias`. Raises
        IndexError for a target that is no row.
        """
        if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < len(logits):
            raise IndexError(f"a target lies outside of the {len(logits)} rows of the vocabulary")
        nlls = bias.new_empty(len(targets))
        means = torch.empty_like(nlls)
        wanted = of_bias is not None
        self._loss(
            *logits.shape, at(logits), at(bias), at(targets), n_real, smoothing, wanted,
            at(nlls), at(means), at(of_bias),
        )  # fmt: skip
        return nlls, means

    def transpose(self, weight: Float[Tensor, "M K"]) -> Float[Tensor, "K M"]:
        """See Steps."""
        out = weight.new_empty(weight.shape[1], weight.shape[0])
        self._turned(*weight.shape, at(weight), at(out))
        return out


class _NativeAttention(AdditiveSteps):
    def __init__(
        self, by: NativeSteps, keys: Tensor, values: Tensor, keep: Tensor, v: Tensor
    ) -> None:
        self.by = by
        decays = torch.empty_like(keys, dtype=by.accumulate_dtype)
        far = torch.empty_like(keep)
        by._look_keys(far.numel(), keys.shape[2], at(keys), at(decays), at(far))
        self.memory = keys, decays, far, values, keep, v  # held, for their addresses are
        self.sizes = *keys.shape, values.shape[2]
        self.places = tuple(map(at, self.memory))

    @functools.cached_property
    def back(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of all looks: the sums of slopes, (B, S, K), and of v's gradient, (B, K); a buffer."""
        keys, work = self.memory[0], self.by.accumulate_dtype
        rows = keys.new_empty(len(keys), keys.shape[2], dtype=work)
        return torch.zeros_like(keys, dtype=work), torch.zeros_like(rows), rows

    def attend(
        self,
        query: Float[Tensor, "K B"],
        asked: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        context: Float[Tensor, "B M"],
    ) -> None:
        """See AdditiveSteps."""
        self.by._look(
            *self.sizes, at(query), *self.places, at(asked), at(weights), at(context)
        )  # fmt: skip

    def attend_backward(
        self,
        of_read: Float[Tensor, "M B"],
        of_context: Float[Tensor, "B M"] | None,
        of_weights: Float[Tensor, "B S"] | None,
        asked: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        whole: Float[Tensor, "B M"],
        of_query: Float[Tensor, "K B"],
        every: Float[Tensor, "K B"],
    ) -> None:
        """See AdditiveSteps."""
        slopes, of_v, of_asked = self.back
        self.by._look_backward(
            *self.sizes, at(of_read), at(of_context), at(of_weights), at(asked), at(weights),
            *self.places, at(whole), at(of_asked), at(slopes), at(of_v),
            at(of_query), every.data_ptr(), every.stride(0),
        )  # fmt: skip

    def grad_keys(self) -> Float[Tensor, "B S K"]:
        """See AdditiveSteps."""
        return self.back[0] * (4 * self.memory[-1])

    def grad_v(self) -> Float[Tensor, " K"]:
        """See AdditiveSteps."""
        return 2 * self.back[1].sum(0)


def at(tensor: Tensor | None) -> int | None:
    """Its address; what C++ gets no strides of has to lie in one piece."""
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()
