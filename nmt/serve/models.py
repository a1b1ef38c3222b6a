"""The runs that are served, each with its worker."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from nmt.errors import ConfigError
from nmt.serve.limits import Limits
from nmt.serve.worker import Check, Worker
from nmt.translation.parallel import thread_shares
from nmt.translation.translator import Translator
from nmt.types import Translation


class Decoding(NamedTuple):
    """The decoding options of a request; requests that agree in it share batches."""

    n_best: int = 1
    prefix: str | tuple[int, ...] = ()
    attention: tuple[tuple[int, tuple[float, ...]], ...] = ()


@dataclass(frozen=True)
class ServedModel:
    """A translator by the name of its run, and the thread that calls it."""

    name: str
    translator: Translator
    worker: Worker[Translation]

    @property
    def source(self) -> str:
        """Return the source language."""
        return self.translator.tokenizers.src.lang

    @property
    def target(self) -> str:
        """Return the target language."""
        return self.translator.tokenizers.tgt.lang

    @property
    def beam(self) -> int:
        """Return the most hypotheses of a text."""
        return self.translator.search.beam


def start_models(
    translators: Sequence[tuple[str, Translator]],
    limits: Limits,
    on_batch: Callable[[str, int], None],
) -> Mapping[str, ServedModel]:
    """Return a ServedModel for each named translator, in their order, and start its worker.

    `on_batch` gets the name of the model and the size of each batch. Raises ConfigError for two of
    one name.
    """
    names = [name for name, _ in translators]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"`run`: two runs are named '{name}', allowed: one of each name")
    return {
        name: ServedModel(name, translator, _start(name, translator, limits, on_batch))
        for name, translator in translators
    }


def _start(
    name: str, translator: Translator, limits: Limits, on_batch: Callable[[str, int], None]
) -> Worker[Translation]:
    def translate(texts: Sequence[str], options: Hashable, check: Check) -> Sequence[Translation]:
        assert isinstance(options, Decoding)
        checked = translator.cancelled_by(check)
        if options == Decoding(options.n_best):
            return checked.translate(texts, options.n_best)
        prefixes = [options.prefix] * len(texts)
        rows = [dict(options.attention)] * len(texts)
        by_beam = {"mbr": None, "sampling": None}
        return checked.translate(
            texts, options.n_best, search=by_beam, prefixes=prefixes, attention=rows
        )

    def size_of(text: str, options: Hashable) -> int:
        assert isinstance(options, Decoding)
        return len(text) + len(options.prefix)

    return Worker(
        translate,
        translator.search.batch_size,
        limits.waiting,
        on_start=thread_shares(),
        on_batch=lambda size: on_batch(name, size),
        compute=lambda: torch.ones(1, device=translator.device).item(),
        size_of=size_of,
    )
