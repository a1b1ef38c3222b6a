"""Text in, Translation out: a trained model with its tokenizers and a way to search."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from nmt.corpus.batching import pad_ids
from nmt.corpus.tokenizer import Tokenizers
from nmt.corpus.vocab import EOS_ID
from nmt.device import resolve_device
from nmt.errors import ConfigError, DataError
from nmt.models.base import Seq2Seq
from nmt.run import load_model
from nmt.schema import Encoded, Hypothesis, TranslatedHypothesis, Translation
from nmt.translation.search import SearchConfig, force, search

_PIECES_PER_SENTENCE = 100
"""A batch holds at most batch_size times as many padded pieces: memory stays bounded."""

_BATCHES_PER_CHUNK = 16
"""Texts of a stream are sorted by length within so many batches; more saves little padding."""


class Translator:
    """Translates texts with one model, in any number and of any length.

    Texts are sorted by length and searched in batches, and come back in the order given; what
    a text is batched with changes its translation by rounding at most (search.py). The model is
    put in eval mode and must be on `device`.

    >>> Translator.load("runs/starter").translate(["I am tired."])[0].text  # doctest: +SKIP
    'Je suis fatigué.'
    """

    def __init__(
        self,
        model: Seq2Seq,
        tokenizers: Tokenizers,
        device: torch.device,
        search: SearchConfig | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.device = device
        self.search = search or SearchConfig()

    @classmethod
    def load(
        cls,
        run: str | Path,
        device: str = "auto",
        checkpoint: str = "best",
        search: SearchConfig | None = None,
    ) -> "Translator":
        """The translator of a run directory; without `search`, as the run's config says.

        `checkpoint` is `best`, `last` or `step-N`. Raises CheckpointError where the run or the
        checkpoint is missing or damaged, and ConfigError for a device that is not there.
        """
        chosen = resolve_device(device)
        loaded = load_model(Path(run), checkpoint=checkpoint, device=chosen)
        return cls(loaded.model, loaded.tokenizers, chosen, search or loaded.config.search)

    def translate(
        self, texts: Sequence[str], n_best: int | None = None, restore: bool = True
    ) -> list[Translation]:
        """The translation of every text, in order; a text without any piece gets an empty one.

        `n_best` hypotheses each (default: the search's); `restore` writes them in the typography
        of the language. Raises ConfigError where `n_best` is over the beam.
        """
        config = self._config(n_best)
        sources = [self.tokenizers.src.encode(text) for text in _list(texts)]
        vocab_size = len(self.tokenizers.tgt.vocab)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for chosen in self._batches([len(source.ids) for source in sources]):
            src_ids, lengths = self._padded([sources[i] for i in chosen])
            hypotheses = search(self.model, src_ids, lengths, config, vocab_size)
            for i, of_sentence in zip(chosen, hypotheses, strict=True):
                found[i] = of_sentence
        return [
            Translation(text, source, tuple(self._with_text(h, restore) for h in hypotheses))
            for text, source, hypotheses in zip(texts, sources, found, strict=True)
        ]

    def translate_stream(
        self, texts: Iterable[str], n_best: int | None = None, restore: bool = True
    ) -> Iterator[Translation]:
        """`translate` for any number of texts in constant memory: read and answered by chunks.

        A chunk is 16 batches, within which texts are sorted; with batch_size 1 every text is
        answered before the next is read.
        """
        size = self.search.batch_size
        chunk = 1 if size == 1 else size * _BATCHES_PER_CHUNK
        remaining = iter(texts)
        while part := list(islice(remaining, chunk)):
            yield from self.translate(part, n_best, restore)

    def force(self, texts: Sequence[str], target_texts: Sequence[str]) -> list[Translation]:
        """What the model says of given translations: probability, score and attention of each.

        Every Translation has one finished hypothesis whose text is the one given, none where the
        source has no piece. Raises DataError where the numbers of texts differ.
        """
        sources = [self.tokenizers.src.encode(text) for text in _list(texts)]
        targets = [self.tokenizers.tgt.encode(text) for text in _list(target_texts)]
        if len(sources) != len(targets):
            raise DataError(f"force: got {len(targets)} translations for {len(sources)} texts")
        found: list[tuple[TranslatedHypothesis, ...]] = [() for _ in sources]
        for chosen in self._batches(_longer_side(sources, targets)):
            src_ids, lengths = self._padded([sources[i] for i in chosen])
            tgt_ids = [(*targets[i].ids, EOS_ID) for i in chosen]
            forced = force(self.model, src_ids, lengths, tgt_ids, self.search.length_penalty)
            for i, hypothesis in zip(chosen, forced, strict=True):
                found[i] = (TranslatedHypothesis(target_texts[i], targets[i], hypothesis),)
        return [
            Translation(text, source, hypotheses)
            for text, source, hypotheses in zip(texts, sources, found, strict=True)
        ]

    def _config(self, n_best: int | None) -> SearchConfig:
        if n_best is None:
            return self.search
        if not 1 <= n_best <= self.search.beam:
            raise ConfigError(f"n_best: got {n_best}, allowed: 1 to the beam, {self.search.beam}")
        return self.search.model_copy(update={"n_best": n_best})

    def _batches(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        """The places of what is not empty, longest first, in batches that bound the memory."""
        limit = self.search.batch_size
        order = sorted((i for i, size in enumerate(sizes) if size), key=lambda i: -sizes[i])
        start = 0
        while start < len(order):
            longest = sizes[order[start]]
            count = max(1, min(limit, limit * _PIECES_PER_SENTENCE // longest))
            yield order[start : start + count]
            start += count

    def _padded(self, sources: Sequence[Encoded]) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
        """The ids with eos, padded, and their lengths."""
        rows = [(*source.ids, EOS_ID) for source in sources]
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        return pad_ids(rows).to(self.device), lengths

    def _with_text(self, hypothesis: Hypothesis, restore: bool) -> TranslatedHypothesis:
        ids = hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids
        tokenizer = self.tokenizers.tgt
        return TranslatedHypothesis(
            tokenizer.decode(ids, restore=restore), tokenizer.encoded_from_ids(ids), hypothesis
        )


def _list(texts: Sequence[str]) -> Sequence[str]:
    """`texts`, unless it is one string, which would be read letter by letter."""
    if isinstance(texts, str):
        raise TypeError("texts: got one str, allowed: a sequence of str, such as [text]")
    return texts


def _longer_side(sources: Sequence[Encoded], targets: Sequence[Encoded]) -> list[int]:
    """The pieces of the longer side of each pair; 0 where the source has none."""
    return [
        max(len(source.ids), len(target.ids)) if source.ids else 0
        for source, target in zip(sources, targets, strict=True)
    ]
