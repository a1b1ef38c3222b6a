"""Text in, Translation out: a trained model with its tokenizers and a way to search."""

import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from nmt.data.batching import pad_ids
from nmt.decoding.forced import force_decode
from nmt.decoding.search import SearchConfig
from nmt.decoding.search import search as find
from nmt.device import resolve_device
from nmt.errors import ConfigError, DataError, counted
from nmt.inference.parallel import Check, in_parallel, n_at_once
from nmt.models.base import Seq2Seq
from nmt.models.quantized import in_int8
from nmt.runs.directory import load_model
from nmt.settings.config_file import load_values
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import EOS_ID
from nmt.types import Encoded, FilePath, Hypothesis, TranslatedHypothesis, Translation

_PIECES_PER_SENTENCE = 100
"""A batch holds at most batch_size times as many padded pieces: memory stays bounded."""

_BATCHES_PER_CHUNK = 16
"""Texts of a stream are sorted by length within so many batches; more saves little padding."""


class Translator:
    """Translates texts with one model, in any number and of any length.

    Texts are sorted by length and searched in batches, on a CPU several at once (parallel.py),
    and come back in the order given; what a text is batched with changes its translation by
    rounding at most (search.py). The model is put in eval mode and must be on `device`. With
    `int8` a copy of it translates whose products are of 8-bit integers (models/quantized.py):
    faster, and not quite the same. Raises ConfigError where that is no CPU.

    >>> Translator.load("runs/starter").translate(["I am tired."])[0].text  # doctest: +SKIP
    'Je suis fatigué.'
    """

    def __init__(
        self,
        model: Seq2Seq,
        tokenizers: Tokenizers,
        device: torch.device,
        search: SearchConfig | None = None,
        int8: bool = False,
    ) -> None:
        if int8 and device.type != "cpu":
            raise ConfigError(f"int8: got device '{device}', allowed: cpu")
        self.model = in_int8(model) if int8 else model.eval()
        self.int8 = int8
        self.tokenizers = tokenizers
        self.device = device
        self.search = search or SearchConfig()
        self.origin = "a model of no run"

    @classmethod
    def load(
        cls,
        run: FilePath,
        device: str | torch.device = "auto",
        checkpoint: str = "best",
        search: SearchConfig | Mapping[str, object] | None = None,
        int8: bool = False,
    ) -> "Translator":
        """The translator of a run directory; what `search` leaves out is as the run's config says.

        `checkpoint` is `best`, `last` or `step-N`. Raises CheckpointError where the run or the
        checkpoint is missing or damaged, and ConfigError for a device that is not there.
        """
        chosen = resolve_device(device)
        loaded = load_model(Path(run), checkpoint=checkpoint, device=chosen)
        searching = _search_of(loaded.config.search, search)
        translator = cls(loaded.model, loaded.tokenizers, chosen, searching, int8)
        translator.origin = f"{Path(run)}, checkpoint {checkpoint} (step {loaded.step:,})"
        return translator

    def __repr__(self) -> str:
        """The languages, the run and the checkpoint, the device, the beam."""
        langs = f"{self.tokenizers.src.lang}-{self.tokenizers.tgt.lang}"
        device = f"{self.device}, int8" if self.int8 else str(self.device)
        return f"<Translator {langs} from {self.origin}, on {device}, beam {self.search.beam}>"

    @property
    def head_names(self) -> tuple[str, ...]:
        """What the heads of the model's attention are called, in the order of Hypothesis.heads."""
        return self.model.head_names

    def translate(
        self,
        texts: Iterable[str],
        n_best: int | None = None,
        restore: bool = True,
        with_heads: bool = False,
        search: SearchConfig | Mapping[str, object] | None = None,
    ) -> list[Translation]:
        """The translation of every text, in order; a text without any piece gets an empty one.

        `n_best` hypotheses each (default: the search's); `restore` writes them in the typography
        of the language; `with_heads` gives the weights of every head of the attention; `search`
        is that of this call, or has the keys of it that this call sets, such as {"beam": 1}. Raises
        ConfigError for values that SearchConfig does not allow, and where `n_best` is over the
        beam; TypeError for texts that are not str.
        """
        config = _search_of(self.search, search)
        if n_best is not None:
            config = _search_of(config, {"n_best": n_best})
        texts = _checked(texts)
        sources = [self.tokenizers.src.encode(text) for text in texts]
        vocab_size = len(self.tokenizers.tgt.vocab)
        found: list[list[Hypothesis]] = [[] for _ in sources]

        def searched(chosen: Sequence[int], check: Check) -> list[list[Hypothesis]]:
            src_ids, lengths = self._padded([sources[i] for i in chosen])
            return find(self.model, src_ids, lengths, config, vocab_size, check)

        sizes = [len(source.ids) for source in sources]
        batches = list(self._batches(sizes, n_parts=n_at_once(self.device)))
        results = in_parallel(searched, batches, self.device)
        for i, hypotheses in zip(chain(*batches), chain(*results), strict=True):
            found[i] = hypotheses
        if with_heads:
            self._add_heads(sources, found)
        return [
            Translation(text, source, tuple(self._with_text(h, restore) for h in hypotheses))
            for text, source, hypotheses in zip(texts, sources, found, strict=True)
        ]

    def translate_stream(
        self, texts: Iterable[str], n_best: int | None = None, restore: bool = True
    ) -> Iterator[Translation]:
        """`translate` for any number of texts in constant memory: read and answered by chunks.

        A chunk is 16 batches, within which texts are sorted; with batch_size 1 every text is
        answered before the next is read. Raises TypeError at once for one str, and for another
        text that is no str where it is read. Where reading the next text raises an error, those
        before it are answered first.
        """
        return self._streamed(_str_by_str(texts), n_best, restore)

    def _streamed(
        self, texts: Iterator[str], n_best: int | None, restore: bool
    ) -> Iterator[Translation]:
        fault: Exception | None = None
        while fault is None:
            part: list[str] = []
            try:
                for text in islice(texts, self.chunk_size):
                    part.append(text)
            except Exception as error:
                fault = error
            if part:
                yield from self.translate(part, n_best, restore)
            elif fault is None:
                return
        raise fault

    @property
    def chunk_size(self) -> int:
        """How many texts of a stream are read, sorted and answered together."""
        size = self.search.batch_size
        return 1 if size == 1 else min(size * _BATCHES_PER_CHUNK, sys.maxsize)

    def force(
        self, texts: Iterable[str], target_texts: Iterable[str], with_heads: bool = False
    ) -> list[Translation]:
        """What the model says of given translations: probability, score and attention of each.

        Every Translation has one finished hypothesis whose text is the one given, none where the
        source has no piece. `with_heads` as in `translate`. Raises DataError where the numbers of
        texts differ, TypeError for texts that are not str.
        """
        texts, target_texts = _checked(texts), _checked(target_texts, "target_texts")
        sources = [self.tokenizers.src.encode(text) for text in texts]
        targets = [self.tokenizers.tgt.encode(text) for text in target_texts]
        if len(sources) != len(targets):
            got = counted(len(targets), "translation")
            raise DataError(f"force: got {got} for {counted(len(sources), 'text')}")
        tgt_ids = [(*target.ids, EOS_ID) for target in targets]
        found: list[tuple[TranslatedHypothesis, ...]] = [() for _ in sources]
        for i, hypothesis in self._forced(sources, tgt_ids, with_heads):
            found[i] = (TranslatedHypothesis(target_texts[i], targets[i], hypothesis),)
        return [
            Translation(text, source, hypotheses)
            for text, source, hypotheses in zip(texts, sources, found, strict=True)
        ]

    def _add_heads(self, sources: Sequence[Encoded], found: list[list[Hypothesis]]) -> None:
        """Give what was found the weights of every head.

        The forced pass equals the steps, so it sees what the search saw, and the beam need not
        carry N matrices for hypotheses of which most are given up.
        """
        places = [(i, rank) for i, best in enumerate(found) for rank in range(len(best))]
        tgt_ids = [found[i][rank].ids for i, rank in places]
        for k, forced in self._forced([sources[i] for i, _ in places], tgt_ids, with_heads=True):
            i, rank = places[k]
            found[i][rank] = replace(found[i][rank], heads=forced.heads)

    def _forced(
        self, sources: Sequence[Encoded], tgt_ids: Sequence[Sequence[int]], with_heads: bool
    ) -> Iterator[tuple[int, Hypothesis]]:
        """What the model says of each pair whose source is not empty, with the pair's number."""
        sizes = [
            max(len(source.ids), len(ids)) if source.ids else 0
            for source, ids in zip(sources, tgt_ids, strict=True)
        ]
        for chosen in self._batches(sizes, by_area=with_heads):
            src_ids, lengths = self._padded([sources[i] for i in chosen])
            forced = force_decode(
                self.model,
                src_ids,
                lengths,
                [tgt_ids[i] for i in chosen],
                self.search.length_penalty,
                with_heads,
            )
            yield from zip(chosen, forced, strict=True)

    def _batches(
        self, sizes: Sequence[int], by_area: bool = False, n_parts: int = 1
    ) -> Iterator[list[int]]:
        """The places of what is not empty, longest first, in batches that bound the memory.

        What it takes grows with the padded pieces, or `by_area` with their square. A batch has
        no more than its share of `n_parts`.
        """
        order = sorted((i for i, size in enumerate(sizes) if size), key=lambda i: -sizes[i])
        limit = min(self.search.batch_size, -(-len(order) // n_parts))
        power = 2 if by_area else 1
        start = 0
        while start < len(order):
            longest = sizes[order[start]]
            count = max(1, min(limit, limit * _PIECES_PER_SENTENCE**power // longest**power))
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


def _search_of(
    base: SearchConfig, given: SearchConfig | Mapping[str, object] | None
) -> SearchConfig:
    """`given`; or `base` with the keys set that `given` has."""
    if isinstance(given, SearchConfig):
        return given
    if not given:
        return base
    if not isinstance(given, Mapping):
        got = reprlib.repr(given)
        raise TypeError(f"search: got {got}, allowed: a SearchConfig, or a dict of its keys")
    return load_values({**base.model_dump(), **given}, SearchConfig, "search")


def _checked(texts: Iterable[str], name: str = "texts") -> list[str]:
    return list(_str_by_str(texts, name))


def _str_by_str(texts: Iterable[str], name: str = "texts") -> Iterator[str]:
    """`texts`, each of which is checked as it is read; one would be read letter by letter."""
    if isinstance(texts, str | bytes):
        got = type(texts).__name__
        raise TypeError(f"{name}: got one {got}, allowed: several, such as [text]")
    return (_str(text, f"{name}[{index}]") for index, text in enumerate(texts))


def _str(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{where}: got {reprlib.repr(text)}, allowed: a str")
    return text
