"""Translator: text in, Translation out, by a trained model, its tokenizers and a beam search."""

import copy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float32

from nmt.device import resolve_device
from nmt.errors import ConfigError, DataError, counted
from nmt.models.base import Seq2Seq
from nmt.models.quantized import in_int8
from nmt.runs.trained_run import TrainedRun, load_models
from nmt.search.forced import self_attention
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import EOS_ID
from nmt.translation.arguments import checked, merged_search, several, str_by_str
from nmt.translation.batched import BatchedModel, DecodingPrecision, Padded, without_eos
from nmt.translation.constraint import Prefix, Weights, constraints_of
from nmt.translation.drawn import DrawnTranslation
from nmt.translation.parallel import CheckCancelled, never_cancelled
from nmt.translation.reranking import Reranker, check_rerankable, load_rerankers, rerank
from nmt.types import (
    AttentionKind,
    Encoded,
    FilePath,
    Hypothesis,
    TranslatedHypothesis,
    Translation,
)

_BATCHES_PER_CHUNK = 16
"""Texts of a stream are sorted by length within this many batches; more saves little padding."""


class Translator:
    """Translates any number of texts, of any length, with one model.

    Texts are sorted by length and searched in batches. On a CPU these run side by side once the
    process has called `nmt.divide_threads`. Translations come back in the order of the texts. The
    other texts of a batch change a translation by rounding at most (search/search.py).

    The model is put in eval mode and must be on `device`. With `int8` a quantized copy translates
    (models/quantized.py): it is faster on a CPU, and less exact. With `precision="bf16"` matrix
    products are of bf16 numbers: less exact too, and meant for a GPU, for on a CPU the compiled
    search is in fp32. Raises ConfigError for `int8` on another device, or with bf16.

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
        precision: DecodingPrecision = "fp32",
    ) -> None:
        if int8 and device.type != "cpu":
            raise ConfigError(f"int8: got device '{device}', allowed: cpu")
        if int8 and precision != "fp32":
            raise ConfigError(f"`precision`: got {precision}, allowed with `int8`: fp32")
        self.model = in_int8(model) if int8 else model.eval()
        self.int8 = int8
        self.tokenizers = tokenizers
        self.device = device
        self.precision = precision
        self.search = search or SearchConfig()
        self.origin = "a model without a run"
        self.step: int | None = None
        self.rerankers: tuple[Reranker, ...] = ()
        self._check_cancelled: CheckCancelled = never_cancelled

    @classmethod
    def load(  # noqa: PLR0913 - each says something else of what is loaded
        cls,
        run: FilePath | TrainedRun | Sequence[FilePath | TrainedRun],
        device: str | torch.device = "auto",
        checkpoint: str = "best",
        search: SearchConfig | Mapping[str, object] | None = None,
        int8: bool = False,
        weights: Sequence[float] | None = None,
        precision: DecodingPrecision = "fp32",
    ) -> "Translator":
        """Load the translator of a run directory, or of a run that is open already.

        Several runs, with the same vocabularies, translate as an ensemble, in which `weights` say
        how much each counts (None: the same). `search` is a SearchConfig, or keys of it to change
        in the first run's own. `checkpoint` is `best`, `last` or `step-N`. Raises CheckpointError
        if a run or checkpoint is missing or damaged, and ConfigError if the machine lacks the
        device, for vocabularies that differ, or for weights that are not one for each run.
        """
        place = resolve_device(device)
        named = run if isinstance(run, Sequence) and not isinstance(run, str) else [run]
        runs = [item if isinstance(item, TrainedRun) else TrainedRun.open(item) for item in named]
        loaded = load_models(runs, checkpoint, place, weights)
        search_config = merged_search(loaded.config.search, search)
        translator = cls(loaded.model, loaded.tokenizers, place, search_config, int8, precision)
        names = " + ".join(str(member.path) for member in runs)
        translator.step = loaded.step
        translator.origin = f"{names}, checkpoint {checkpoint} (step {loaded.step:,})"
        return translator

    def rerank_by(
        self,
        runs: Sequence[FilePath | TrainedRun],
        weights: Sequence[float] | None = None,
        checkpoints: Sequence[str] | None = None,
    ) -> None:
        """From now on, `translate` orders the hypotheses of its beam by these runs too.

        A run has the same languages, or the same two the other way round; its tokenizers may be
        others. `weights` say how much the score of each counts beside that of the search, which
        has 1 (None: 0.25 each). `checkpoints` has one for each run (None: `best`). See
        nmt.translation.reranking. Raises ConfigError for other languages, for weights or
        checkpoints that are not one for each run, for negative weights, and what `load` raises.
        """
        self.rerankers = load_rerankers(self, runs, weights, checkpoints)

    def cancelled_by(self, check: CheckCancelled) -> "Translator":
        """Return a translator that calls `check` before each step of a search.

        An exception that `check` raises ends the translation.
        """
        other = copy.copy(self)
        other._check_cancelled = check
        return other

    @property
    def languages(self) -> tuple[str, str]:
        """The source's language and the target's."""
        return self.tokenizers.src.lang, self.tokenizers.tgt.lang

    def __repr__(self) -> str:
        """The languages, the run and the checkpoint, the device, the beam."""
        langs = "-".join(self.languages)
        number_format = "int8" if self.int8 else self.precision
        device = str(self.device) if number_format == "fp32" else f"{self.device}, {number_format}"
        return f"<Translator {langs} from {self.origin}, on {device}, beam {self.search.beam}>"

    @property
    def batched(self) -> BatchedModel:
        """The model with what it searches by."""
        return BatchedModel(
            self.model, self.tokenizers.tgt, self.device, self.precision, self._check_cancelled
        )

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the model's attention heads, in the order of Hypothesis.heads."""
        return self.model.head_names

    @property
    def names_by_attention(self) -> dict[AttentionKind, tuple[str, ...]]:
        """The names of the heads of each attention; see Seq2Seq.names_by_attention."""
        return self.model.names_by_attention

    def translate(  # noqa: PLR0913 - the choices of one call
        self,
        texts: Iterable[str],
        n_best: int | None = None,
        restore: bool = True,
        with_heads: bool = False,
        search: SearchConfig | Mapping[str, object] | None = None,
        prefixes: Iterable[Prefix] | None = None,
        attention: Sequence[Mapping[int, Weights]] = (),
    ) -> list[DrawnTranslation]:
        """Translate texts; a text without any piece gets an empty Translation.

        `n_best` is the number of hypotheses per text (None: the search's). `restore` writes them
        in the typography of the language. `with_heads` adds the weights of each attention head.
        `search` is the SearchConfig of this call, or keys to change for it, such as {"beam": 1}.
        With `rerank_by` the whole beam is reranked.

        `prefixes` say how each translation begins, as text or as ids of pieces; a word that one
        ends in may be continued. With them `attention` may have for each text rows of
        weights over its pieces, eos included, to use in place of the model's own: of the piece t of
        the prefix, from 0, or of the first behind it. A row is for all shown heads (S,), or for
        each head (N, S).

        Raises ConfigError for values that SearchConfig does not allow, for an `n_best` over the
        beam, for a search that cannot be reranked (check_rerankable), and where an ensemble is
        given weights; TypeError for texts that are not str; DataError as constraints_of does.
        """
        config = merged_search(self.search, search)
        if n_best is not None:
            config = merged_search(config, {"n_best": n_best})
        widest = config
        if self.rerankers:
            check_rerankable(config)
            widest = config.model_copy(update={"n_best": config.beam})
        texts, sources = self._encoded(texts)
        begun = None if prefixes is None else list(several(prefixes, "prefixes"))
        constraints = constraints_of(
            self.model, self.tokenizers.tgt, sources, config, begun, attention
        )
        beams = self.batched.search(sources, widest, constraints)
        if self.rerankers:
            best = rerank(
                self._translations(texts, sources, beams, restore), self.rerankers, config
            )
            beams = [[output.hypothesis for output in one.hypotheses] for one in best]
        if with_heads:
            self.batched.add_heads(sources, beams, config)
        return self._translations(texts, sources, beams, restore)

    def translate_penalties(
        self,
        texts: Iterable[str],
        penalties: Sequence[float],
        search: SearchConfig | Mapping[str, object] | None = None,
    ) -> list[list[DrawnTranslation]]:
        """Translate by a beam search with each length penalty, by one search for all of them.

        See nmt.search.search.search_penalties. Raises ConfigError and TypeError as `translate`.
        """
        config = merged_search(self.search, search)
        for penalty in penalties:
            merged_search(config, {"length_penalty": penalty})
        texts, sources = self._encoded(texts)
        constraints = constraints_of(self.model, self.tokenizers.tgt, sources, config, None)
        results = self.batched.search_penalties(sources, config, penalties, constraints)
        return [self._translations(texts, sources, beams, True) for beams in results]

    def _encoded(self, texts: Iterable[str]) -> tuple[list[str], list[Encoded]]:
        """Check and encode source texts."""
        checked_texts = checked(texts)
        return checked_texts, [self.tokenizers.src.encode(text) for text in checked_texts]

    def _translations(
        self,
        texts: Sequence[str],
        sources: Sequence[Encoded],
        beams: Sequence[Sequence[Hypothesis]],
        restore: bool,
    ) -> list[DrawnTranslation]:
        return [
            DrawnTranslation(text, source, tuple(self._with_text(h, restore) for h in hypotheses))
            for text, source, hypotheses in zip(texts, sources, beams, strict=True)
        ]

    def translate_stream(
        self,
        texts: Iterable[str],
        n_best: int | None = None,
        restore: bool = True,
        prefixes: Iterable[str] | None = None,
    ) -> Iterator[DrawnTranslation]:
        """Translate any number of texts in constant memory, a chunk at a time.

        A chunk is 16 batches, within which texts are sorted. With batch_size 1 each text is
        translated before the next is read. `prefixes` say how each translation begins; what is
        left of them is not read. Raises TypeError: at once if `texts` is one str, and when a text
        is read that is no str; DataError where a text has no prefix. If reading a text raises an
        error, the texts before it are translated first.
        """
        begun = None if prefixes is None else str_by_str(prefixes, "prefixes")
        return self._translate_chunks(str_by_str(texts), begun, n_best, restore)

    def _translate_chunks(
        self,
        texts: Iterator[str],
        prefixes: Iterator[str] | None,
        n_best: int | None,
        restore: bool,
    ) -> Iterator[DrawnTranslation]:
        fault: Exception | None = None
        while fault is None:
            part: list[str] = []
            begun: list[str] | None = None if prefixes is None else []
            try:
                for text in islice(texts, self.chunk_size):
                    if begun is not None and prefixes is not None:
                        begun.append(_next_prefix(prefixes))
                    part.append(text)
            except Exception as error:
                fault = error
            if part:
                yield from self.translate(part, n_best, restore, prefixes=begun)
            elif fault is None:
                return
        raise fault

    @property
    def chunk_size(self) -> int:
        """How many texts of a stream are read, sorted and translated together."""
        size = self.search.batch_size
        batches = _BATCHES_PER_CHUNK
        if self.rerankers:  # all of a beam is kept until it is reranked
            batches = max(1, batches // self.search.beam)
        return 1 if size == 1 else min(size * batches, sys.maxsize)

    def force(
        self,
        texts: Iterable[str],
        target_texts: Iterable[str],
        with_heads: bool = False,
        search: SearchConfig | None = None,
    ) -> list[DrawnTranslation]:
        """Score given translations: probability, score and attention of each (forced decoding).

        Each Translation has one finished hypothesis, whose text is the given one, and none if the
        source has no piece. `with_heads` is as in `translate`. `search` has the penalties of the
        score and the batch size (None: the translator's own). Raises DataError if the numbers of
        texts differ, TypeError for texts that are not str.
        """
        texts, sources = self._encoded(texts)
        target_texts = checked(target_texts, "target_texts")
        if len(sources) != len(target_texts):
            got = counted(len(target_texts), "translation")
            raise DataError(f"force: got {got} for {counted(len(sources), 'text')}")
        targets = [self.tokenizers.tgt.encode(text) for text in target_texts]
        tgt_ids = [(*target.ids, EOS_ID) for target in targets]
        scored: list[tuple[TranslatedHypothesis, ...]] = [() for _ in sources]
        forced = self.batched.force(sources, tgt_ids, search or self.search, with_heads)
        for i, hypothesis in forced:
            scored[i] = (TranslatedHypothesis(target_texts[i], targets[i], hypothesis),)
        return list(map(DrawnTranslation, texts, sources, scored))

    def with_self_attention(self, translations: Iterable[Translation]) -> list[Translation]:
        """The translations with the self-attention of their hypotheses, in `Hypothesis.self_heads`.

        It is computed in a teacher-forced pass over each hypothesis. The model's
        `names_by_attention` names the heads. Raises ConfigError if it has no self-attention.
        """
        if list(self.model.names_by_attention) == ["cross"]:
            raise ConfigError("with_self_attention: this model has none: it is recurrent")
        translations = list(translations)
        pairs = [
            (translation.source, h.hypothesis)
            for translation in translations
            for h in translation.hypotheses
        ]
        sources, targets = (
            [source for source, _ in pairs],
            [output.ids for _, output in pairs],
        )

        def read(
            inputs: Padded, ids: Sequence[Sequence[int]]
        ) -> list[dict[str, Float32[np.ndarray, "N L L"]]]:
            return self_attention(self.model, *inputs, ids)

        read_pairs = self.batched.read_pairs(sources, targets, self.search.batch_size, read)
        weights, heads = dict(read_pairs), iter(range(len(pairs)))
        return [
            replace(
                translation,
                hypotheses=tuple(
                    replace(h, hypothesis=replace(h.hypothesis, self_heads=weights[next(heads)]))
                    for h in translation.hypotheses
                ),
            )
            for translation in translations
        ]

    def _with_text(self, hypothesis: Hypothesis, restore: bool) -> TranslatedHypothesis:
        ids = without_eos(hypothesis)
        tokenizer = self.tokenizers.tgt
        return TranslatedHypothesis(
            tokenizer.decode(ids, restore=restore), tokenizer.encoded_from_ids(ids), hypothesis
        )


def _next_prefix(prefixes: Iterator[str]) -> str:
    for prefix in prefixes:
        return prefix
    raise DataError("prefixes: got fewer than texts, allowed: one for each")
