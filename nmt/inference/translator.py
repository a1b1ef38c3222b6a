"""Translator: text in, Translation out, by a trained model, its tokenizers and a beam search."""

import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from nmt.data.batching import pad_ids
from nmt.decoding.forced import force_decode
from nmt.decoding.sampling import sample
from nmt.decoding.search import SearchConfig, search_penalties
from nmt.decoding.search import search as beam_search
from nmt.decoding.self_attention import self_attention
from nmt.device import resolve_device
from nmt.errors import ConfigError, DataError, counted
from nmt.inference.minimum_risk import Utility, expected_utilities, minimum_risk
from nmt.inference.parallel import CheckCancelled, n_workers, parallel_map
from nmt.inference.search_batches import search_batches
from nmt.models.base import Seq2Seq
from nmt.models.quantized import in_int8
from nmt.runs.trained_run import TrainedRun, load_models
from nmt.settings.config_file import load_values
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import EOS_ID
from nmt.types import (
    AttentionKind,
    Encoded,
    FilePath,
    Hypothesis,
    TranslatedHypothesis,
    Translation,
)

_Found = TypeVar("_Found")
_BATCHES_PER_CHUNK = 16
"""Texts of a stream are sorted by length within this many batches; more saves little padding."""


class Translator:
    """Translates any number of texts, of any length, with one model.

    Texts are sorted by length and searched in batches. On a CPU these run side by side once the
    process has called `nmt.divide_threads`. Translations come back in the order of the texts. The
    other texts of a batch change a translation by rounding at most (decoding/search.py).

    The model is put in eval mode and must be on `device`. With `int8` a quantized copy translates
    (models/quantized.py): it is faster on a CPU, and less exact. Raises ConfigError for `int8` on
    another device.

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
        self.origin = "a model without a run"

    @classmethod
    def load(
        cls,
        run: FilePath | TrainedRun | Sequence[FilePath | TrainedRun],
        device: str | torch.device = "auto",
        checkpoint: str = "best",
        search: SearchConfig | Mapping[str, object] | None = None,
        int8: bool = False,
        weights: Sequence[float] | None = None,
    ) -> "Translator":
        """Load the translator of a run directory, or of a run that is open already.

        Several runs, with the same vocabularies, translate as an ensemble, in which `weights` say
        how much each counts (None: the same). `search` is a SearchConfig, or keys of it to change
        in the first run's own. `checkpoint` is `best`, `last` or `step-N`. Raises CheckpointError
        if a run or checkpoint is missing or damaged, and ConfigError if the machine lacks the
        device, for vocabularies that differ, or for weights that are not one for each run.
        """
        chosen = resolve_device(device)
        several = run if isinstance(run, Sequence) and not isinstance(run, str) else [run]
        runs = [each if isinstance(each, TrainedRun) else TrainedRun.open(each) for each in several]
        loaded = load_models(runs, checkpoint, chosen, weights)
        search_config = _merged_search(loaded.config.search, search)
        translator = cls(loaded.model, loaded.tokenizers, chosen, search_config, int8)
        names = " + ".join(str(each.path) for each in runs)
        translator.origin = f"{names}, checkpoint {checkpoint} (step {loaded.step:,})"
        return translator

    def __repr__(self) -> str:
        """The languages, the run and the checkpoint, the device, the beam."""
        langs = f"{self.tokenizers.src.lang}-{self.tokenizers.tgt.lang}"
        device = f"{self.device}, int8" if self.int8 else str(self.device)
        return f"<Translator {langs} from {self.origin}, on {device}, beam {self.search.beam}>"

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the model's attention heads, in the order of Hypothesis.heads."""
        return self.model.head_names

    @property
    def names_by_attention(self) -> dict[AttentionKind, tuple[str, ...]]:
        """The names of the heads of each attention; see Seq2Seq.names_by_attention."""
        return self.model.names_by_attention

    def translate(
        self,
        texts: Iterable[str],
        n_best: int | None = None,
        restore: bool = True,
        with_heads: bool = False,
        search: SearchConfig | Mapping[str, object] | None = None,
    ) -> list[Translation]:
        """Translate texts; a text without any piece gets an empty Translation.

        `n_best` is the number of hypotheses per text (None: the search's). `restore` writes them
        in the typography of the language. `with_heads` adds the weights of each attention head.
        `search` is the SearchConfig of this call, or keys to change for it, such as {"beam": 1}.
        Raises ConfigError for values that SearchConfig does not allow and for an `n_best` over
        the beam, TypeError for texts that are not str.
        """
        config = _merged_search(self.search, search)
        if n_best is not None:
            config = _merged_search(config, {"n_best": n_best})
        texts = _checked(texts)
        sources = [self.tokenizers.src.encode(text) for text in texts]
        found = self._search(sources, config)
        if with_heads:
            self._add_heads(sources, found)
        return self._translations(texts, sources, found, restore)

    def translate_penalties(
        self,
        texts: Iterable[str],
        penalties: Sequence[float],
        search: SearchConfig | Mapping[str, object] | None = None,
    ) -> list[list[Translation]]:
        """For each length penalty what a beam search with it gives, by one search for all of them.

        See nmt.decoding.search.search_penalties. Raises ConfigError and TypeError likewise.
        """
        config = _merged_search(self.search, search)
        for penalty in penalties:
            _merged_search(config, {"length_penalty": penalty})
        texts = _checked(texts)
        sources = [self.tokenizers.src.encode(text) for text in texts]

        def work(
            src_ids: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], check: CheckCancelled
        ) -> list[tuple[list[Hypothesis], ...]]:
            found = search_penalties(self.model, src_ids, lengths, config, penalties, check)
            return list(zip(*found, strict=True))

        found = self._in_batches(sources, config.batch_size, work)
        nothing: tuple[list[Hypothesis], ...] = ([],) * len(penalties)
        each = zip(*(found.get(i, nothing) for i in range(len(texts))), strict=True)
        return [self._translations(texts, sources, best, True) for best in each]

    def _translations(
        self,
        texts: Sequence[str],
        sources: Sequence[Encoded],
        found: Sequence[Sequence[Hypothesis]],
        restore: bool,
    ) -> list[Translation]:
        return [
            Translation(text, source, tuple(self._with_text(h, restore) for h in hypotheses))
            for text, source, hypotheses in zip(texts, sources, found, strict=True)
        ]

    def _search(self, sources: Sequence[Encoded], config: SearchConfig) -> list[list[Hypothesis]]:
        """The n best hypotheses of each source; none for an empty one."""

        def work(
            src_ids: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], check: CheckCancelled
        ) -> list[list[Hypothesis]]:
            mbr = config.mbr
            if mbr is None:
                return beam_search(self.model, src_ids, lengths, config, check)
            if mbr.samples is None:
                widest = config.model_copy(update={"n_best": config.beam})
                candidates = beam_search(self.model, src_ids, lengths, widest, check)
            else:
                candidates = sample(self.model, src_ids, lengths, config, mbr, check)
            return [
                self._least_risk(each, mbr.utility, check)[: config.n_best] for each in candidates
            ]

        found = self._in_batches(sources, config.batch_size, work)
        return [found.get(i, []) for i in range(len(sources))]

    def _least_risk(
        self, candidates: Sequence[Hypothesis], utility: Utility, check: CheckCancelled
    ) -> list[Hypothesis]:
        """The candidates by expected utility; see minimum_risk."""
        check()
        tokenizer = self.tokenizers.tgt
        texts = [tokenizer.decode(_without_eos(each), restore=False) for each in candidates]
        utilities = expected_utilities(texts, utility, tokenizer.lang)
        return minimum_risk(candidates, texts, utilities)

    def _in_batches(
        self,
        sources: Sequence[Encoded],
        batch_size: int,
        work: Callable[[Int[Tensor, "B S"], Int[Tensor, " B"], CheckCancelled], Sequence[_Found]],
    ) -> dict[int, _Found]:
        """The results of `work` for the sources that are not empty, by the source's index."""

        def work_on(batch: Sequence[int], check: CheckCancelled) -> Sequence[_Found]:
            return work(*self._padded([sources[i] for i in batch]), check)

        workers = n_workers(self.device)
        sizes = [len(source.ids) for source in sources]
        batches = list(search_batches(sizes, batch_size, workers))
        results = parallel_map(work_on, batches, workers)
        return dict(zip(chain(*batches), chain(*results), strict=True))

    def translate_stream(
        self, texts: Iterable[str], n_best: int | None = None, restore: bool = True
    ) -> Iterator[Translation]:
        """Translate any number of texts in constant memory, a chunk at a time.

        A chunk is 16 batches, within which texts are sorted. With batch_size 1 each text is
        translated before the next is read. Raises TypeError: at once if `texts` is one str, and
        when a text is read that is no str. If reading a text raises an error, the texts before it
        are translated first.
        """
        return self._translate_chunks(_str_by_str(texts), n_best, restore)

    def _translate_chunks(
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
        """How many texts of a stream are read, sorted and translated together."""
        size = self.search.batch_size
        return 1 if size == 1 else min(size * _BATCHES_PER_CHUNK, sys.maxsize)

    def force(
        self, texts: Iterable[str], target_texts: Iterable[str], with_heads: bool = False
    ) -> list[Translation]:
        """Score given translations: probability, score and attention of each (forced decoding).

        Each Translation has one finished hypothesis, whose text is the given one, and none if the
        source has no piece. `with_heads` is as in `translate`. Raises DataError if the numbers of
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

    def with_self_attention(self, translations: Iterable[Translation]) -> list[Translation]:
        """The translations with the self-attention of their hypotheses, in `Hypothesis.self_heads`.

        It is computed in a teacher-forced pass over each hypothesis. The model's
        `names_by_attention` names the heads. Raises ConfigError if it has no self-attention.
        """
        if list(self.model.names_by_attention) == ["cross"]:
            raise ConfigError("with_self_attention: this model has none: it is recurrent")
        translations = list(translations)
        pairs = [(each.source, found) for each in translations for found in each.hypotheses]
        sizes = [max(len(src.ids), len(found.hypothesis.ids)) + 1 for src, found in pairs]
        heads: list[dict[str, Float32[np.ndarray, "N L L"]]] = [{} for _ in pairs]
        for batch in search_batches(sizes, self.search.batch_size, by_area=True):
            src_ids, lengths = self._padded([pairs[k][0] for k in batch])
            tgt_ids = [pairs[k][1].hypothesis.ids for k in batch]
            for k, each in zip(
                batch, self_attention(self.model, src_ids, lengths, tgt_ids), strict=True
            ):
                heads[k] = each
        found_heads = iter(heads)
        return [
            replace(
                translation,
                hypotheses=tuple(
                    replace(h, hypothesis=replace(h.hypothesis, self_heads=next(found_heads)))
                    for h in translation.hypotheses
                ),
            )
            for translation in translations
        ]

    def _add_heads(self, sources: Sequence[Encoded], found: list[list[Hypothesis]]) -> None:
        """Add the weights of each head to the hypotheses that a search found.

        Forced decoding computes them anew, with equal weights. So the beam need not carry a matrix
        per head for hypotheses of which most are dropped.
        """
        places = [(i, rank) for i, best in enumerate(found) for rank in range(len(best))]
        tgt_ids = [found[i][rank].ids for i, rank in places]
        for k, forced in self._forced([sources[i] for i, _ in places], tgt_ids, with_heads=True):
            i, rank = places[k]
            found[i][rank] = replace(found[i][rank], heads=forced.heads)

    def _forced(
        self, sources: Sequence[Encoded], tgt_ids: Sequence[Sequence[int]], with_heads: bool
    ) -> Iterator[tuple[int, Hypothesis]]:
        """The index and the Hypothesis of each pair whose source is not empty."""
        sizes = [
            max(len(source.ids), len(ids)) if source.ids else 0
            for source, ids in zip(sources, tgt_ids, strict=True)
        ]
        for batch in search_batches(sizes, self.search.batch_size, by_area=with_heads):
            src_ids, lengths = self._padded([sources[i] for i in batch])
            forced = force_decode(
                self.model,
                src_ids,
                lengths,
                [tgt_ids[i] for i in batch],
                self.search.length_penalty,
                with_heads,
            )
            yield from zip(batch, forced, strict=True)

    def _padded(self, sources: Sequence[Encoded]) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
        """The ids with eos, padded, and their lengths, eos included."""
        rows = [(*source.ids, EOS_ID) for source in sources]
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        return pad_ids(rows).to(self.device), lengths

    def _with_text(self, hypothesis: Hypothesis, restore: bool) -> TranslatedHypothesis:
        ids = _without_eos(hypothesis)
        tokenizer = self.tokenizers.tgt
        return TranslatedHypothesis(
            tokenizer.decode(ids, restore=restore), tokenizer.encoded_from_ids(ids), hypothesis
        )


def _without_eos(hypothesis: Hypothesis) -> tuple[int, ...]:
    return hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids


def _merged_search(
    base: SearchConfig, given: SearchConfig | Mapping[str, object] | None
) -> SearchConfig:
    """`given` if it is a SearchConfig, else `base` with the keys of `given`."""
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
    """`texts`, each checked as it is read. One str is refused: it would be read by letters."""
    if isinstance(texts, str | bytes):
        got = type(texts).__name__
        raise TypeError(f"{name}: got one {got}, allowed: several, such as [text]")
    return (_str(text, f"{name}[{index}]") for index, text in enumerate(texts))


def _str(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{where}: got {reprlib.repr(text)}, allowed: a str")
    return text
