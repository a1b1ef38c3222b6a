"""Checks of a Translator's arguments: the texts, and the search config of a call."""

import reprlib
from collections.abc import Iterable, Iterator, Mapping

from nmt.search.search_config import SearchConfig
from nmt.settings.config_file import load_values


def merged_search(
    base: SearchConfig, changes: SearchConfig | Mapping[str, object] | None
) -> SearchConfig:
    """Return `changes` if it is a SearchConfig, else `base` updated by the dict `changes`, if any.

    Raises ConfigError for a value that SearchConfig does not allow, TypeError for another type.
    """
    if isinstance(changes, SearchConfig):
        return changes
    if not changes:
        return base
    if not isinstance(changes, Mapping):
        got = reprlib.repr(changes)
        raise TypeError(f"search: got {got}, allowed: a SearchConfig, or a dict of its keys")
    return load_values({**base.model_dump(), **changes}, SearchConfig, "search")


def checked_texts(texts: Iterable[str], name: str = "texts") -> Iterator[str]:
    """Iterate over `texts`. Raises TypeError for a single str, or at an item that is not a str."""
    reject_single_text(name, texts)
    return (_str(text, f"{name}[{index}]") for index, text in enumerate(texts))


def reject_single_text(name: str, texts: object) -> None:
    """Raise TypeError if `texts` is one str or bytes, which would be read letter by letter."""
    if isinstance(texts, str | bytes):
        got = type(texts).__name__
        raise TypeError(f"{name}: got one {got}, allowed: several, such as [text]")


def _str(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{where}: got {reprlib.repr(text)}, allowed: a str")
    return text
