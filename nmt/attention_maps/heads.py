"""The choice of attention heads to show: by name, by number, or their mean."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.errors import ConfigError


@dataclass(frozen=True)
class Head:
    """A head by its name and its index in the model; index None is the mean of all heads."""

    name: str
    index: int | None = None


MEAN = Head("mean")


def choose_heads(heads: str, names: Sequence[str]) -> tuple[Head, ...]:
    """The heads that the comma-separated parts of `heads` select, in that order, each once.

    A part is `mean`, `all`, the number of a head counted from 1, or consecutive words of its
    name in any case. Of `layer 1 head 1` to `layer 2 head 4`, `layer 2` selects the last four
    and `head 3` one of each layer. Raises ConfigError for a part that selects none.
    """
    chosen: dict[Head, None] = {}
    for part in heads.split(","):
        found = _selected(part.lower().split(), names)
        if not found:
            raise ConfigError(f"`heads`: got '{part.strip()}', allowed: {_allowed(names)}")
        chosen.update(dict.fromkeys(found))
    return tuple(chosen)


def _selected(words: list[str], names: Sequence[str]) -> list[Head]:
    heads = [Head(name, index) for index, name in enumerate(names)]
    if words == ["mean"]:
        return [MEAN]
    if words == ["all"]:
        return heads
    if len(words) == 1 and words[0].isdecimal():
        return [head for head in heads if head.index == int(words[0]) - 1]
    exact = [head for head in heads if head.name.lower().split() == words]
    return exact or [head for head in heads if _has_words(words, head.name.lower().split())]


def _has_words(words: list[str], name: list[str]) -> bool:
    """Whether `words`, at least one, are consecutive words of `name`."""
    n = len(words)
    return bool(words) and any(name[i : i + n] == words for i in range(len(name) - n + 1))


def _allowed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"mean, all, 1, or the head's name, '{names[0]}'"
    return (
        f"mean, all, 1 to {len(names)}, or words of the names "
        f"'{names[0]}' to '{names[-1]}'; several with commas"
    )
