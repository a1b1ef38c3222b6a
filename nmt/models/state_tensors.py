"""A decoder's state as named tensors, and back."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from nmt.models.base import State

_Value = TypeVar("_Value")


def named_tensors(value: object) -> dict[str, Tensor]:
    """Tensors of nested dataclasses and tuples, by path such as `layers.0.target.keys`.

    Fields that are no tensors are left out.
    """
    tensors: dict[str, Tensor] = {}
    _map(lambda name, tensor: tensors.setdefault(name, tensor), value, "")
    return tensors


def with_tensors(value: _Value, tensors: Mapping[str, Tensor]) -> _Value:
    """`value` with other tensors; those that `tensors` does not name stay."""
    changed: _Value = _map(tensors.get, value, "")
    return changed


def _map(new: Callable[[str, Tensor], Tensor], value: Any, name: str) -> Any:
    """`value` with `new(path, tensor)` in place of each tensor."""

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


def names_of_rows(state: State) -> frozenset[str]:
    """The tensors that a search holds for each of its rows; the others belong to a sentence.

    `state` is that of at least two sentences. A search with more rows than sentences tells them
    apart: `State.select` copies only what belongs to a row.
    """
    tensors = named_tensors(state)
    sentences = torch.arange(len(next(iter(tensors.values()))))
    rows = torch.cat([sentences[:1], sentences])
    selected = named_tensors(state.select(rows))
    return frozenset(name for name in tensors if len(selected[name]) == len(rows))
