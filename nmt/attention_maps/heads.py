"""Which heads of an attention are to be shown, by name, by number, or their mean."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.errors import ConfigError


@dataclass(frozen=True)
class Head:
    """A head, its place among the model's heads being `index`; None is the mean of them all."""

    name: str
    index: int | None = None


MEAN = Head("mean")


def choose_heads(wanted: str, names: Sequence[str]) -> tuple[Head, ...]:
    """The heads that the comma-separated parts of `wanted` mean, in that order, each once.

    A part is `mean`; `all`; the number of a head, counted from 1; or words that stand together
    in its name, whatever their case: of `layer 1 head 1` to `layer 2 head 4`, `layer 2` means
    the last four and `head 3` one of each layer. Raises ConfigError for a part that means none.
    """
    chosen: dict[Head, None] = {}
    for part in wanted.split(","):
        found = _meant(part.lower().split(), names)
        if not found:
            raise ConfigError(f"`heads`: got '{part.strip()}', allowed: {_allowed(names)}")
        chosen.update(dict.fromkeys(found))
    return tuple(chosen)


def _meant(words: list[str], names: Sequence[str]) -> list[Head]:
    heads = [Head(name, index) for index, name in enumerate(names)]
    if words == ["mean"]:
        return [MEAN]
    if words == ["all"]:
        return heads
    if len(words) == 1 and words[0].isdecimal():
        return [head for head in heads if head.index == int(words[0]) - 1]
    exact = [head for head in heads if head.name.lower().split() == words]
    return exact or [head for head in heads if _within(words, head.name.lower().split())]


def _within(words: list[str], name: list[str]) -> bool:
    """Whether `words`, of which there is one at least, stand together in `name`."""
    n = len(words)
    return bool(words) and any(name[i : i + n] == words for i in range(len(name) - n + 1))


def _allowed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"mean, all, 1, or the head's name, '{names[0]}'"
    return (
        f"mean, all, 1 to {len(names)}, or words of the names "
        f"'{names[0]}' to '{names[-1]}'; several with commas"
    )
