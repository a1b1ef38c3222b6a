"""Translator: translates texts with a trained model, its tokenizers and a search."""

import copy
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, repeat

import numpy as np
import torch
from jaxtyping import Float32

from nmt.device import resolve_device
from nmt.errors import ConfigError, DataError, format_count
from nmt.models.base import Seq2Seq
from nmt.models.quantized import quantize_model
from nmt.runs.trained_run import TrainedRun, load_models
from nmt.search.constraints import Constraint
from nmt.search.forced import force_decode, self_attention
from nmt.search.search_config import SearchConfig
from nmt.text.numbers import canonical_numbers, lost_numbers
from nmt.text.spelling import recorded_corrector
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import EOS_ID
from nmt.translation.arguments import checked_texts, merged_search
from nmt.translation.batched import BatchedModel, Padded, with_text
from nmt.translation.constraint import Prefix, Weights, constraints_of
from nmt.translation.drawn import DrawnTranslation
from nmt.translation.glossary import Glossary, Term, add_terms, number_terms
from nmt.translation.parallel import CheckCancelled
from nmt.translation.reranking import (
    DEFAULT_WEIGHT,
    Reranker,
    check_rerankable,
    is_backward,
    rerank,
)
from nmt.translation.term_placement import Sentence, place_terms
from nmt.types import Encoded, FilePath, Hypothesis, TranslatedHypothesis

_BATCHES_PER_CHUNK = 16
"""Texts of a stream are sorted by length within this many batches; more saves little padding."""


class Translator:
    """A translator for any number of texts of any length, with one model or an ensemble.

    Texts are sorted by length and searched in batches; results are in the order of the texts. On a
    CPU, batches run in parallel after a call of `nmt.divide_threads`. The composition of a batch
    changes a translation by rounding at most (search/search.py).

    `max_pieces` is the largest number of pieces of a training sentence, or None if it is not known.

    The model must be on `device`, and is put in eval mode. With `int8`, a quantized copy translates
    (models/quantized.py), which is faster on a CPU but less exact. Raises ConfigError if `int8` is
    used on another device.

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
        self.model = quantize_model(model) if int8 else model.eval()
        self.int8 = int8
        self.tokenizers = tokenizers
        self.device = device
        self.search = search or SearchConfig()
        self.runs: tuple[TrainedRun, ...] = ()
        self.checkpoint = "best"
        self.weights: Sequence[float] | None = None
        self.step: int | None = None
        self.max_pieces: int | None = None
        self.rerankers: tuple[Reranker, ...] = ()
        self.glossary: Glossary | None = None
        self.batched = BatchedModel(self.model, tokenizers, device)

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
        """Load the translator of a run: its folder, packed file or name, or an open run.

        Several runs with the same vocabularies translate as an ensemble with `weights` (None: equal
        weights). `checkpoint` is `best`, `last` or `step-N`. `search` is a SearchConfig, or a dict
        of its keys that updates the first run's search config. Raises CheckpointError if a run or
        checkpoint is missing or damaged. Raises ConfigError if the machine lacks the device,
        vocabularies differ, or there is not one weight for each run.
        """
        place = resolve_device(device)
        named = run if isinstance(run, Sequence) and not isinstance(run, str) else [run]
        runs = [item if isinstance(item, TrainedRun) else TrainedRun.open(item) for item in named]
        loaded = load_models(runs, checkpoint, place, weights)
        search_config = merged_search(loaded.config.search, search)
        translator = cls(loaded.model, loaded.tokenizers, place, search_config, int8)
        translator.step, translator.runs = loaded.step, tuple(runs)
        translator.checkpoint, translator.weights = checkpoint, weights and list(weights)
        translator.max_pieces = loaded.config.data.max_pieces
        return translator

    def rerank_by(
        self,
        runs: Sequence[FilePath | TrainedRun],
        weights: Sequence[float] | None = None,
        checkpoints: Sequence[str] | None = None,
    ) -> None:
        """Make `translate` rerank the hypotheses of its beam with the models of `runs`.

        A run must have the same language pair, in the same or the opposite direction; its
        tokenizers may differ. `weights` are the weights of the runs' scores, beside a weight of 1
        for the score of the search (None: 0.25 each). `checkpoints` has one name for each run
        (None: `best`). See nmt.translation.reranking. Raises ConfigError for other languages, bad
        weights or a wrong number of weights or checkpoints, and what `load` raises.
        """
        weights = [DEFAULT_WEIGHT] * len(runs) if weights is None else weights
        names = checkpoints or ["best"] * len(runs)
        n_runs = f"each of {format_count(len(runs), 'reranker')}"
        if len(names) != len(runs):
            raise ConfigError(f"`checkpoints`: got {','.join(names)}, allowed: one for {n_runs}")
        if len(weights) != len(runs) or not all(0 <= weight < math.inf for weight in weights):
            got = ",".join(f"{weight:g}" for weight in weights)
            raise ConfigError(f"`rerank_weights`: got {got}, allowed: a number >= 0 for {n_runs}")
        rerankers = []
        for run, weight, name in zip(runs, weights, names, strict=True):
            other = self.load(run, self.device, name, int8=self.int8)
            backward = is_backward(self.languages, other.languages, other.origin)
            rerankers.append(Reranker(other, backward, weight))
        self.rerankers = tuple(rerankers)

    def use_glossary(self, terms: FilePath | Mapping[str, str | Sequence[str]]) -> None:
        """Make `translate` write terms as `terms` says: a dict, or a file of tab-separated lines.

        A target is one form, or several of which one must occur: {"cat": ["chat", "chats"]}. An
        empty target copies the source. Raises DataError for an entry that `Glossary` refuses.
        """
        self.glossary = Glossary(terms, self.tokenizers)

    def cancelled_by(self, check: CheckCancelled) -> "Translator":
        """Return a copy whose search calls `check` before each step, and ends if `check` raises."""
        other = copy.copy(self)
        other.batched = replace(self.batched, check_cancelled=check)
        return other

    @property
    def languages(self) -> tuple[str, str]:
        """The source language and the target language."""
        return self.tokenizers.src.lang, self.tokenizers.tgt.lang

    @property
    def origin(self) -> str:
        """The runs, the checkpoint and its step, for messages."""
        if not self.runs:
            return "a model without a run"
        names = " + ".join(run.name for run in self.runs)
        return f"{names}, checkpoint {self.checkpoint} (step {self.step:,})"

    def __repr__(self) -> str:
        langs = "-".join(self.languages)
        device = f"{self.device}, int8" if self.int8 else str(self.device)
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
        """Translate texts. A text without pieces gets a Translation without hypotheses.

        `n_best` is the number of hypotheses per text (None: as in the search config). `with_heads`
        adds the weights of each attention head. `search` is a SearchConfig for this call, or a dict
        of keys to change, such as {"beam": 1}. After `rerank_by`, the whole beam is reranked.

        `prefixes` has the beginning of each translation, as text or as ids of pieces; the search
        may continue its last word. With prefixes, `attention` may replace attention weights: for
        each text, a dict from a target position, 0 to the first one after the prefix, to weights
        over the source pieces, eos included. Weights have shape (S,) for all averaged heads, or
        (N, S) for each head.

        Raises ConfigError for values that SearchConfig does not allow, if `n_best` exceeds the
        beam, if the search cannot be reranked (check_rerankable), if it samples and there is a
        glossary, or if an ensemble gets `attention`, or a right-to-left model prefixes. Raises
        TypeError if a text is not a str, and DataError as constraints_of does.
        """
        config = merged_search(self.search, search)
        if n_best is not None:
            config = merged_search(config, {"n_best": n_best})
        search_config = config
        if self.glossary is not None and config.uses_sampling:
            raise ConfigError("glossary: got a search that samples, allowed: only beam search")
        if self.rerankers:
            check_rerankable(config)
            search_config = config.model_copy(update={"n_best": config.beam})
        texts, readings, sources = self._encoded(texts, config)
        tokenizers = self.tokenizers
        constraints = constraints_of(self.model, tokenizers, sources, config, prefixes, attention)
        beams = self._search(readings, sources, search_config, constraints)
        translations = [
            DrawnTranslation(text, source, tuple(with_text(h, tokenizers.tgt) for h in hypotheses))
            for text, source, hypotheses in zip(texts, sources, beams, strict=True)
        ]
        if self.rerankers:
            translations = rerank(translations, readings, self.rerankers, config)
        if with_heads:
            # Forced decoding recomputes the weights, so that the beam carries no matrix per head.
            def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[dict[str, object]]:
                forced = force_decode(self.model, *inputs, ids, 0.0, with_heads=True)
                return [{"heads": hypothesis.heads} for hypothesis in forced]

            translations = self.with_fields(translations, config.batch_size, read)
        return translations

    def _search(
        self,
        texts: Sequence[str],
        sources: Sequence[Encoded],
        config: SearchConfig,
        constraints: Sequence[Constraint],
    ) -> list[list[Hypothesis]]:
        """Search each text, and again if a term or, in the best hypothesis, a number is missing.

        Numbers are required in a second search with twice the beam. Terms are put in the place that
        attention gives; terms without a place are required.
        """
        beams = self.batched.search(sources, config, constraints)
        keeps_numbers = config.keep_numbers and not config.uses_sampling
        sentences = list(map(Sentence, texts, sources, constraints or repeat(Constraint())))
        if keeps_numbers:
            numbers = {
                i: number_terms(text, self.tokenizers)
                for i, text in enumerate(texts)
                if beams[i] and self._is_number_lost(text, beams[i][0])
            }
            self._search_again(sentences, beams, numbers, config)
        if self.glossary is not None:
            lacking = place_terms(self.batched, sentences, beams, self.glossary, config)
            if keeps_numbers:
                for i, terms in lacking.items():
                    terms += number_terms(texts[i], self.tokenizers)
            self._search_again(sentences, beams, lacking, config)
        return beams

    def _search_again(
        self,
        sentences: Sequence[Sentence],
        beams: list[list[Hypothesis]],
        terms: Mapping[int, Sequence[Term]],
        config: SearchConfig,
    ) -> None:
        """Replace the hypotheses of sentences in `terms`, with their terms as required words."""
        required = {
            i: add_terms(sentences[i].constraint, needed) for i, needed in terms.items() if needed
        }
        if required:
            wide = config.model_copy(update={"beam": 2 * config.beam})
            sources = [sentences[i].source for i in required]
            again = self.batched.search(sources, wide, list(required.values()))
            for i, hypotheses in zip(required, again, strict=True):
                beams[i] = hypotheses

    def _is_number_lost(self, text: str, hypothesis: Hypothesis) -> bool:
        """Return whether the hypothesis lacks a number that the text has in digits.

        A number that the text repeats is needed once. A hypothesis without digits may write small
        numbers as words.
        """
        source = Counter(set(canonical_numbers(text)))
        if not source:
            return False
        output = Counter(canonical_numbers(with_text(hypothesis, self.tokenizers.tgt).text))
        return bool(source - output and (output or lost_numbers(source, source, output)))

    def read(self, text: str, search: SearchConfig | None = None) -> str:
        """Return a source text as the model reads it: see `search.correct_spelling`."""
        if not (search or self.search).correct_spelling or not self.runs:
            return text
        corrector = recorded_corrector(self.tokenizers.src, self.runs[0].directory.tokenizer_path)
        exempt = self.glossary.source_words if self.glossary else ()
        return corrector.correct(text, exempt) if corrector else text

    def _encoded(
        self, texts: Iterable[str], search: SearchConfig | None = None
    ) -> tuple[list[str], list[str], list[Encoded]]:
        """Return the texts, the texts as the model reads them, and their pieces."""
        texts = list(checked_texts(texts))
        readings = [self.read(text, search) for text in texts]
        return texts, readings, list(map(self.tokenizers.src.encode, readings))

    def translate_stream(
        self, texts: Iterable[str], prefix: str = ""
    ) -> Iterator[DrawnTranslation]:
        """Translate any number of texts in constant memory, one chunk at a time.

        A chunk is 16 batches of texts, sorted by length; with rerankers it is smaller. With
        batch_size 1, each text is translated before the next is read. Every translation begins with
        `prefix`. If reading a text raises an error, the texts before it are translated first.
        Raises TypeError for a single str or an item that is not a str.
        """
        return self._translate_chunks(checked_texts(texts), prefix)

    def _translate_chunks(self, texts: Iterator[str], prefix: str) -> Iterator[DrawnTranslation]:
        fault: Exception | None = None
        while fault is None:
            chunk: list[str] = []
            try:
                chunk.extend(islice(texts, self.chunk_size))  # has the texts before an error
            except Exception as error:
                fault = error
            if not chunk and fault is None:
                return
            yield from self.translate(chunk, prefixes=[prefix] * len(chunk) if prefix else None)
        raise fault

    @property
    def chunk_size(self) -> int:
        """The number of texts of a stream that are read, sorted and translated together."""
        size, batches = self.search.batch_size, _BATCHES_PER_CHUNK
        if self.rerankers:  # the whole beam stays in memory until it is reranked
            batches = max(1, batches // self.search.beam)
        return 1 if size == 1 else min(size * batches, sys.maxsize)

    def force(
        self,
        texts: Iterable[str],
        target_texts: Iterable[str],
        with_heads: bool = False,
        search: SearchConfig | Mapping[str, object] | None = None,
    ) -> list[DrawnTranslation]:
        """Compute probability, score, entropies and attention of translations (forced decoding).

        Each result has one finished hypothesis with the target text, or none if the source has no
        pieces. `with_heads` is as in `translate`. Of `search` (None: the translator's), only the
        length penalty, the batch size and `correct_spelling` are used. Raises DataError if the
        numbers of texts differ, and TypeError if a text is not a str.
        """
        config = merged_search(self.search, search)
        texts, _, sources = self._encoded(texts, config)
        target_texts = list(checked_texts(target_texts, "target_texts"))
        if len(sources) != len(target_texts):
            got = format_count(len(target_texts), "translation")
            raise DataError(f"force: got {got} for {format_count(len(sources), 'text')}")
        targets = [self.tokenizers.tgt.encode(text) for text in target_texts]
        tgt_ids = [(*target.ids, EOS_ID) for target in targets]
        scored: list[tuple[TranslatedHypothesis, ...]] = [() for _ in sources]
        pairs = self.batched.force(sources, tgt_ids, config, with_heads)
        for i, hypothesis in pairs:
            scored[i] = (TranslatedHypothesis(target_texts[i], targets[i], hypothesis),)
        return list(map(DrawnTranslation, texts, sources, scored))

    def score(self, texts: Iterable[str], target_texts: Iterable[str]) -> list[float | None]:
        """Return the log-probability of each translation in nats, None if its source has no pieces.

        Raises as `force` does.
        """
        forced = self.force(texts, target_texts)
        return [sum(t.hypotheses[0].hypothesis.log_probs) if t.hypotheses else None for t in forced]

    @torch.inference_mode()
    def encode(self, texts: Iterable[str]) -> list[Float32[np.ndarray, "S M"]]:
        """Return the output of the encoder for each text: a row per piece, and one for </s>.

        Raises ConfigError for an ensemble, and TypeError if a text is not a str.
        """
        if len(self.runs) > 1:
            raise ConfigError("encode: got an ensemble, allowed: a single run")
        states = []
        for source in self._encoded(texts)[-1]:
            ids = torch.tensor([[*source.ids, EOS_ID]], device=self.device)
            memory = self.model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
            states.append(memory.values[0].float().cpu().numpy())
        return states

    def with_self_attention(
        self, translations: Iterable[DrawnTranslation]
    ) -> list[DrawnTranslation]:
        """Return the translations with self-attention weights in `Hypothesis.self_heads`.

        A teacher-forced pass over each hypothesis computes the weights. The model's
        `head_names_by_kind` names the heads. Raises ConfigError if the model has no self-attention.
        """
        if list(self.model.head_names_by_kind) == ["cross"]:
            raise ConfigError("with_self_attention: this model has none: it is recurrent")

        def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[dict[str, object]]:
            return [{"self_heads": heads} for heads in self_attention(self.model, *inputs, ids)]

        return self.with_fields(list(translations), self.search.batch_size, read)

    def with_fields(
        self,
        translations: Sequence[DrawnTranslation],
        batch_size: int,
        read: Callable[[Padded, Sequence[Sequence[int]]], Sequence[dict[str, object]]],
    ) -> list[DrawnTranslation]:
        """Replace fields of each Hypothesis; `read`, a teacher-forced pass, returns new values."""
        sources = [t.source for t in translations for _ in t.hypotheses]
        targets = [output.hypothesis.ids for t in translations for output in t.hypotheses]
        fields = dict(self.batched.map_pairs(sources, targets, batch_size, read))
        indices = iter(range(len(sources)))

        def changed(output: TranslatedHypothesis) -> TranslatedHypothesis:
            written = self.batched.switch_order(output.hypothesis)
            written = replace(written, **fields[next(indices)])  # type: ignore[arg-type]
            return replace(output, hypothesis=self.batched.switch_order(written))

        return [replace(t, hypotheses=tuple(map(changed, t.hypotheses))) for t in translations]
