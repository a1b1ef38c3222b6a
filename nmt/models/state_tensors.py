"""Conversion of a decoder's state to named tensors and back."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from nmt.models.base import State

_Value = TypeVar("_Value")


def named_tensors(value: object) -> dict[str, Tensor]:
    """Return the tensors of nested dataclasses and tuples, by paths like `layers.0.target.keys`."""
    tensors: dict[str, Tensor] = {}
    _map(lambda name, tensor: tensors.setdefault(name, tensor), value, "")
    return tensors


def with_tensors(value: _Value, tensors: Mapping[str, Tensor]) -> _Value:
    """Return a copy of `value` with the tensors of `tensors`, which must contain every name."""
    result: _Value = _map(tensors.get, value, "")
    return result


def _map(new: Callable[[str, Tensor], Tensor], value: Any, name: str) -> Any:
    """Return `value` with each tensor replaced by `new(path, tensor)`."""

    def part(field: object, inner: object) -> Any:
        return _map(new, inner, f"{name}.{field}" if name else str(field))

    if isinstance(value, Tensor):
        return new(name, value)
    if isinstance(value, tuple):
        return tuple(part(i, item) for i, item in enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return replace(value, **{field: part(field, getattr(value, field)) for field in names})
    return value


def row_tensor_names(state: State) -> frozenset[str]:
    """Return the names of the tensors that a search stores for each row, not for each sentence.

    `state` must be on the CPU and hold at least two sentences. If more rows than sentences are
    selected, only the tensors stored for each row grow.
    """
    tensors = named_tensors(state)
    sentences = torch.arange(len(next(iter(tensors.values()))))
    rows = torch.cat([sentences[:1], sentences])
    selected = named_tensors(state.select(rows))
    return frozenset(name for name in tensors if len(selected[name]) == len(rows))
