"""A decoder's state as named tensors, and back."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from nmt.models.base import State

_Value = TypeVar("_Value")


def named_tensors(value: object, name: str = "") -> dict[str, Tensor]:
    """Tensors of nested dataclasses and tuples, by path such as `layers.0.target.keys`.

    Fields that are no tensors are left out.
    """
    if isinstance(value, Tensor):
        return {name: value}
    tensors: dict[str, Tensor] = {}
    for part, inner in _parts(value):
        tensors.update(named_tensors(inner, f"{name}.{part}" if name else part))
    return tensors


def with_tensors(value: _Value, tensors: Mapping[str, Tensor], name: str = "") -> _Value:
    """`value` with other tensors; those that `tensors` does not name stay."""
    inner: Any = {
        part: with_tensors(tensor, tensors, f"{name}.{part}" if name else part)
        for part, tensor in _parts(value)
    }
    result: Any = value
    if isinstance(value, Tensor):
        result = tensors.get(name, value)
    elif isinstance(value, tuple):
        result = tuple(inner.values())
    elif inner:
        result = replace(result, **inner)
    changed: _Value = result
    return changed


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


def _parts(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, tuple):
        yield from ((str(i), item) for i, item in enumerate(value))
    elif is_dataclass(value):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
