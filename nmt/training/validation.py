"""Validation: the loss, metrics such as BLEU of beam search, and a few sample translations."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor

from nmt.batches.batching import EncodedCorpus
from nmt.config import ValidConfig
from nmt.evaluation.attention_health import AttentionHealth, attention_health
from nmt.evaluation.evaluate import scores_of
from nmt.evaluation.metric import MetricResult, Scoring
from nmt.evaluation.typography import make_comparable
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import cross_entropy
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import Tokenizers
from nmt.training.distributed import ALONE, InterruptedWorkError, Ranks
from nmt.training.rng import pack_rng, restore_rng
from nmt.translation.translator import Translator
from nmt.types import EvalExample, Translation

_Item = TypeVar("_Item")

_BATCH_SIZE = 64  # pairs per batch when the loss is measured


@dataclass(frozen=True)
class Sample:
    """A validation sentence with its first reference and the model's translation.

    `hyp_text` is the text of the translation as it was scored.
    """

    src_text: str
    ref_text: str
    hyp_text: str
    translation: Translation


@dataclass(frozen=True)
class ValidationResult:
    """The measurements of a validation. `loss` is in nats per target token, including eos.

    `scores` and `health` are measured on the translations. `health` describes the attention, or is
    None if it was not measured.
    """

    loss: float
    scores: Mapping[str, MetricResult]
    samples: tuple[Sample, ...]
    health: AttentionHealth | None = None

    @property
    def perplexity(self) -> float:
        """The exponential of the loss (capped at e^700)."""
        return math.exp(min(self.loss, 700.0))

    def measured(self) -> dict[str, float]:
        return {
            "loss": self.loss,
            "perplexity": self.perplexity,
            **{name: result.score for name, result in self.scores.items()},
            **({} if self.health is None else self.health.metrics()),
        }

    def describe(self) -> str:
        """Return loss, perplexity and scores as a line of text."""
        perplexity = f"{self.perplexity:{'.2f' if self.perplexity < 1e6 else '.2e'}}"
        parts = [f"valid loss {self.loss:.3f}", f"perplexity {perplexity}"]
        parts += [f"{result.name} {result.score:.2f}" for result in self.scores.values()]
        return "  ".join(parts)

    def samples_text(self) -> str:
        """Return three lines per sample: source, translation and reference."""
        samples = ((s.src_text, s.hyp_text, s.ref_text) for s in self.samples)
        return "\n".join(f"    {src}\n      -> {hyp}\n      == {ref}" for src, hyp, ref in samples)


@dataclass(frozen=True)
class Validator:
    """An encoded validation set, and the settings to decode and score it.

    `has_attention` tells whether the model has attention weights to measure.
    """

    corpus: EncodedCorpus
    examples: Sequence[EvalExample]
    tokenizers: Tokenizers
    config: ValidConfig
    scoring: Scoring
    search: SearchConfig
    has_attention: bool = True

    def run(
        self,
        model: Seq2Seq,
        device: torch.device,
        interrupted: Callable[[], bool] = lambda: False,
        ranks: Ranks = ALONE,
    ) -> ValidationResult | None:
        """Validate `model`.

        The ranks share the batches, and all return the same result. Returns None if `interrupted()`
        is True between two batches on any rank. Afterwards the model is in training mode, and the
        random generators have their old states.
        """
        generators = pack_rng(device)
        model.eval()
        try:
            loss = mean_loss(model, self.corpus, device, interrupted, ranks)
            examples = evenly_spaced(self.examples, self.config.max_examples)
            search = self.search.plain_beam(self.config.beam)
            translator = Translator(model, self.tokenizers, device, search)
            texts = [example.src_text for example in examples]
            translations = _translate(translator, texts, interrupted, ranks)
        except InterruptedWorkError:
            return None
        finally:
            model.train()
            restore_rng(generators, device)
        scoring = replace(self.scoring, gpu=device.index if device.type == "cuda" else None)
        hyp_texts = [translation.text for translation in translations]
        scored_texts = make_comparable(hyp_texts, examples, scoring)
        scores = scores_of(scored_texts, scoring)
        is_measured = self.has_attention and self.config.attention_health
        health = attention_health(translations) if is_measured else None
        lines = list(zip(examples, scored_texts.hyp_texts, translations, strict=True))
        samples = [
            Sample(example.src_text, example.ref_texts[0], hyp_text, translation)
            for example, hyp_text, translation in evenly_spaced(lines, self.config.samples)
        ]
        return ValidationResult(loss, scores, tuple(samples), health)


@torch.inference_mode()
def mean_loss(
    model: Seq2Seq,
    corpus: EncodedCorpus,
    device: torch.device,
    interrupted: Callable[[], bool] = lambda: False,
    ranks: Ranks = ALONE,
) -> float:
    """Return the mean cross-entropy in nats per target token, without label smoothing.

    The ranks share the batches. Raises InterruptedWorkError if `interrupted()` is True on a rank.
    """

    def nll_sum(rows: Sequence[int]) -> Tensor:
        batch = corpus.batch(rows).to(device)
        keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
        return cross_entropy(model(batch.src_ids, keep, batch.tgt_in), batch.tgt_out).nll_sum

    rows = sorted(range(len(corpus)), key=lambda row: len(corpus.src_ids[row]))
    batches = [rows[start : start + _BATCH_SIZE] for start in range(0, len(rows), _BATCH_SIZE)]
    # All sums are fetched at the end, since each fetch waits for the GPU.
    sums: list[float] = ranks.map(batches, nll_sum, interrupted, lambda x: torch.stack(x).tolist())
    return sum(sums) / max(1, sum(len(ids) + 1 for ids in corpus.tgt_ids))


def _translate(
    translator: Translator, texts: Sequence[str], interrupted: Callable[[], bool], ranks: Ranks
) -> list[Translation]:
    """Translate batches, shared by the ranks. Raises InterruptedWorkError as `mean_loss` does."""
    size = translator.search.batch_size
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    longest_first = [texts[i] for i in order]
    batches = [longest_first[start : start + size] for start in range(0, len(texts), size)]
    parts = ranks.map(batches, translator.translate, interrupted, list)
    by_index = dict(zip(order, chain.from_iterable(parts), strict=True))
    return [by_index[i] for i in range(len(texts))]


def evenly_spaced(items: Sequence[_Item], count: int | None) -> list[_Item]:
    """Return `count` equally spaced items in order, or all if `count` is None or too large.

    Corpora are often sorted by length, so the first items would be easier than the average.
    """
    if count is None or count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]
