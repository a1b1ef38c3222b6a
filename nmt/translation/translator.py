"""Translator: text in, Translation out, by a trained model, its tokenizers and a beam search."""

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import torch

from nmt.device import resolve_device
from nmt.errors import ConfigError, DataError, counted
from nmt.models.base import Seq2Seq
from nmt.models.quantized import in_int8
from nmt.runs.trained_run import TrainedRun, load_models
from nmt.search.forced import force_decode, self_attention
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import EOS_ID
from nmt.translation.arguments import merged_search, str_by_str
from nmt.translation.batched import BatchedModel, DecodingPrecision, Padded, without_eos
from nmt.translation.constraint import Prefix, Weights, constraints_of
from nmt.translation.drawn import DrawnTranslation
from nmt.translation.parallel import CheckCancelled
from nmt.translation.reranking import (
    DEFAULT_WEIGHT,
    Reranker,
    check_rerankable,
    check_weights,
    is_backward,
    rerank,
)
from nmt.types import Encoded, FilePath, Hypothesis, TranslatedHypothesis

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
        self.batched = BatchedModel(self.model, tokenizers.tgt, device, precision)

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
        weights = [DEFAULT_WEIGHT] * len(runs) if weights is None else weights
        names = checkpoints or ["best"] * len(runs)
        for what, values in (("weights", weights), ("checkpoints", names)):
            if len(values) != len(runs):
                allowed = f"one for each of {counted(len(runs), 'run')}"
                got = ",".join(map(str, values))
                raise ConfigError(f"reranker {what}: got {got}, allowed: {allowed}")
        check_weights("reranker weights", weights)
        rerankers = []
        for run, weight, name in zip(runs, weights, names, strict=True):
            other = self.load(run, self.device, name, int8=self.int8, precision=self.precision)
            backward = is_backward(self.languages, other.languages, other.origin)
            rerankers.append(Reranker(other, backward, weight))
        self.rerankers = tuple(rerankers)

    def cancelled_by(self, check: CheckCancelled) -> "Translator":
        """Return a translator that calls `check` before each step of a search.

        An exception that `check` raises ends the translation.
        """
        other = copy.copy(self)
        other.batched = replace(self.batched, check_cancelled=check)
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

    def translate(
        self,
        texts: Iterable[str],
        n_best: int | None = None,
        with_heads: bool = False,
        search: SearchConfig | Mapping[str, object] | None = None,
        prefixes: Sequence[Prefix] | None = None,
        attention: Sequence[Mapping[int, Weights]] = (),
    ) -> list[DrawnTranslation]:
        """Translate texts; a text without any piece gets an empty Translation.

        `n_best` is the number of hypotheses per text (None: the search's). `with_heads` adds the
        weights of each attention head. `search` is the SearchConfig of this call, or keys to change
        for it, such as {"beam": 1}. With `rerank_by` the whole beam is reranked.

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
        constraints = constraints_of(
            self.model, self.tokenizers.tgt, sources, config, prefixes, attention
        )
        beams = self.batched.search(sources, widest, constraints)
        translations = [
            DrawnTranslation(text, source, tuple(map(self._with_text, hypotheses)))
            for text, source, hypotheses in zip(texts, sources, beams, strict=True)
        ]
        if self.rerankers:
            translations = rerank(translations, self.rerankers, config)
        if with_heads:
            # Forced decoding computes the weights anew, so that the beam need not carry a matrix
            # per head for hypotheses of which most are dropped.
            def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[dict[str, object]]:
                forced = force_decode(self.model, *inputs, ids, 0.0, with_heads=True)
                return [{"heads": hypothesis.heads} for hypothesis in forced]

            translations = self._with_fields(translations, config.batch_size, read)
        return translations

    def _encoded(self, texts: Iterable[str]) -> tuple[list[str], list[Encoded]]:
        """Check and encode source texts."""
        texts = list(str_by_str(texts))
        return texts, [self.tokenizers.src.encode(text) for text in texts]

    def translate_stream(
        self, texts: Iterable[str], prefix: str = ""
    ) -> Iterator[DrawnTranslation]:
        """Translate any number of texts in constant memory, a chunk at a time.

        A chunk is 16 batches, within which texts are sorted. With batch_size 1 each text is
        translated before the next is read. Every translation begins with `prefix`. Raises
        TypeError: at once if `texts` is one str, and when a text is read that is no str. If reading
        a text raises an error, the texts before it are translated first.
        """
        return self._translate_chunks(str_by_str(texts), prefix)

    def _translate_chunks(self, texts: Iterator[str], prefix: str) -> Iterator[DrawnTranslation]:
        fault: Exception | None = None
        while fault is None:
            chunk: list[str] = []
            try:
                chunk.extend(islice(texts, self.chunk_size))  # keeps those before an error
            except Exception as error:
                fault = error
            if not chunk and fault is None:
                return
            yield from self.translate(chunk, prefixes=[prefix] * len(chunk) if prefix else None)
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
        target_texts = list(str_by_str(target_texts, "target_texts"))
        if len(sources) != len(target_texts):
            got = counted(len(target_texts), "translation")
            raise DataError(f"force: got {got} for {counted(len(sources), 'text')}")
        targets = [self.tokenizers.tgt.encode(text) for text in target_texts]
        tgt_ids = [(*target.ids, EOS_ID) for target in targets]
        config = search or self.search

        def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[Hypothesis]:
            return force_decode(self.model, *inputs, ids, config.length_penalty, with_heads)

        scored: list[tuple[TranslatedHypothesis, ...]] = [() for _ in sources]
        pairs = self.batched.read_pairs(sources, tgt_ids, config.batch_size, read, with_heads)
        for i, hypothesis in pairs:
            scored[i] = (TranslatedHypothesis(target_texts[i], targets[i], hypothesis),)
        return list(map(DrawnTranslation, texts, sources, scored))

    def with_self_attention(
        self, translations: Iterable[DrawnTranslation]
    ) -> list[DrawnTranslation]:
        """The translations with the self-attention of their hypotheses, in `Hypothesis.self_heads`.

        It is computed in a teacher-forced pass over each hypothesis. The model's
        `names_by_attention` names the heads. Raises ConfigError if it has no self-attention.
        """
        if list(self.model.names_by_attention) == ["cross"]:
            raise ConfigError("with_self_attention: this model has none: it is recurrent")

        def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[dict[str, object]]:
            return [{"self_heads": heads} for heads in self_attention(self.model, *inputs, ids)]

        return self._with_fields(list(translations), self.search.batch_size, read)

    def _with_fields(
        self,
        translations: Sequence[DrawnTranslation],
        batch_size: int,
        read: Callable[[Padded, Sequence[Sequence[int]]], Sequence[dict[str, object]]],
    ) -> list[DrawnTranslation]:
        """Replace the fields of each Hypothesis that `read` gives, in a teacher-forced pass."""
        pairs = [(t.source, h.hypothesis.ids) for t in translations for h in t.hypotheses]
        sources, targets = [source for source, _ in pairs], [ids for _, ids in pairs]
        fields = dict(self.batched.read_pairs(sources, targets, batch_size, read))
        places = iter(range(len(pairs)))

        def changed(output: TranslatedHypothesis) -> TranslatedHypothesis:
            hypothesis = replace(output.hypothesis, **fields[next(places)])  # type: ignore[arg-type]
            return replace(output, hypothesis=hypothesis)

        return [replace(t, hypotheses=tuple(map(changed, t.hypotheses))) for t in translations]

    def _with_text(self, hypothesis: Hypothesis) -> TranslatedHypothesis:
        ids, tokenizer = without_eos(hypothesis), self.tokenizers.tgt
        return TranslatedHypothesis(
            tokenizer.decode(ids), tokenizer.encoded_from_ids(ids), hypothesis
        )
