"""Selection of attention heads by kind of attention, layer, name or number, or of their mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from nmt.errors import ConfigError
from nmt.types import AttentionKind

HeadNames = Mapping[AttentionKind, Sequence[str]]
"""The names of the heads of each attention of a model, in order; `cross` is always a key."""


@dataclass(frozen=True)
class Head:
    """A head of one kind of attention: its name, and its index among the heads of that kind.

    `index` None stands for the mean of the cross-attention heads that the model shows.
    """

    name: str
    index: int | None = None
    attention: AttentionKind = "cross"


MEAN = Head("mean")


def choose_heads(heads: str, names: HeadNames) -> tuple[Head, ...]:
    """Return the heads selected by the comma-separated parts of `heads`, in order, each once.

    A part is one of these, in upper or lower case:

    - `mean`: the mean; `all`: every head of every attention;
    - `encoder`, `decoder` or `cross`: all heads of that attention; `encoder.2`: the heads of its
      second layer; `encoder.2.3`: the third head of that layer; `encoder head 3`: the third head of
      every layer;
    - anything else selects heads of `cross`, by a number from 1 or by consecutive words of the
      name: `layer 2` selects four of the heads `layer 1 head 1` to `layer 2 head 4`.

    Raises ConfigError if a part selects no head.
    """
    selection: list[Head] = []
    for part in heads.split(","):
        matches = _selected(part.lower().replace(".", " ").split(), names)
        if not matches:
            raise ConfigError(f"`heads`: got '{part.strip()}', allowed: {_allowed(part, names)}")
        selection += matches
    return tuple(dict.fromkeys(selection))


def cross_head_indices(heads: str, names: HeadNames) -> tuple[int, ...] | None:
    """Return the indices of the cross-attention heads that `heads` selects; None for `mean`.

    Raises ConfigError as `choose_heads` does, and also if `heads` selects a head of self-attention
    or combines `mean` with heads.
    """
    selection = choose_heads(heads, names)
    if selection == (MEAN,):
        return None
    indices = tuple(h.index for h in selection if h.attention == "cross" and h.index is not None)
    if len(indices) < len(selection):
        allowed = "heads over the source, or mean alone"
        raise ConfigError(f"`heads`: got '{heads}', allowed here: {allowed}")
    return indices


def _selected(words: list[str], names: HeadNames) -> list[Head]:
    if words == ["mean"]:
        return [MEAN]
    if words == ["all"]:
        return [head for attention in names for head in _heads(attention, names)]
    for attention in get_args(AttentionKind):
        if words[:1] == [attention]:
            return _with_words(_numbered(words[1:]), _heads(attention, names))
    heads = _heads("cross", names)
    if len(words) == 1 and words[0].isdecimal():
        return [head for head in heads if head.index == int(words[0]) - 1]
    return _with_words(words, heads) if words else []


def _heads(attention: AttentionKind, names: HeadNames) -> list[Head]:
    return [Head(name, index, attention) for index, name in enumerate(names.get(attention, ()))]


def _numbered(words: list[str]) -> list[str]:
    """Expand `2 3` to the words of a name, `layer 2 head 3`; return other words unchanged."""
    if not all(word.isdecimal() for word in words) or len(words) > 2:
        return words
    return [word for pair in zip(("layer", "head"), words, strict=False) for word in pair]


def _with_words(words: list[str], heads: list[Head]) -> list[Head]:
    """Return the head of exactly this name, else all heads whose names contain these words."""
    split = [(head, head.name.lower().split()) for head in heads]
    n = len(words)
    return [head for head, name in split if name == words] or [
        head
        for head, name in split
        if any(name[first : first + n] == words for first in range(len(name) - n + 1))
    ]


def _allowed(part: str, names: HeadNames) -> str:
    cross = names["cross"]
    allowed = f"mean, all, 1, or the head's name, '{cross[0]}'"
    if len(cross) > 1:
        words = f"words of the names '{cross[0]}' to '{cross[-1]}'"
        allowed = f"mean, all, 1 to {len(cross)}, or {words}; several with commas"
    if len(names) > 1:
        return f"{', '.join(names)}, each also with .LAYER or .LAYER.HEAD; {allowed}"
    if part.strip().lower().startswith(("encoder", "decoder")):
        return f"{allowed}; this model has no self-attention: it is recurrent"
    return allowed
