"""Validation: the loss on the pairs, BLEU by beam search, a few sample translations."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor

from nmt.config import ValidConfig
from nmt.data.batching import EncodedCorpus
from nmt.decoding.search import SearchConfig
from nmt.evaluation.evaluate import Scoring, bleu_of
from nmt.evaluation.metrics import score
from nmt.inference.translator import Translator
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.text.tokenizer import Tokenizers
from nmt.training.distributed import ALONE, Ranks
from nmt.training.loss import cross_entropy
from nmt.training.rng import pack_rng, unpack_rng
from nmt.types import EvalExample, Translation

_BATCH_SIZE = 64
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Sample:
    """One validation sentence with its first reference and the model's translation."""

    src_text: str
    ref_text: str
    hyp_text: str


@dataclass(frozen=True)
class ValidationResult:
    """`loss` is in nats per target token, eos included; `bleu` and `chrf` are 0 to 100."""

    loss: float
    bleu: float
    samples: tuple[Sample, ...]
    chrf: float | None = None

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return math.exp(min(self.loss, 700.0))

    def measured(self) -> dict[str, float]:
        """The numbers by name."""
        chrf = {} if self.chrf is None else {"chrf": self.chrf}
        return {"loss": self.loss, "perplexity": self.perplexity, "bleu": self.bleu, **chrf}

    def describe(self) -> str:
        """The numbers in a line."""
        perplexity = f"{self.perplexity:{'.2f' if self.perplexity < 1e6 else '.2e'}}"
        chrf = "" if self.chrf is None else f"  chrF2 {self.chrf:.2f}"
        return f"valid loss {self.loss:.3f}  perplexity {perplexity}  BLEU {self.bleu:.2f}{chrf}"

    def samples_text(self) -> str:
        """Source, translation and reference of every sample, a line each."""
        return "\n".join(
            f"    {sample.src_text}\n      -> {sample.hyp_text}\n      == {sample.ref_text}"
            for sample in self.samples
        )


@dataclass(frozen=True)
class Validator:
    """A validation set, encoded once, and the settings to decode it."""

    corpus: EncodedCorpus
    examples: Sequence[EvalExample]
    tokenizers: Tokenizers
    config: ValidConfig
    search: SearchConfig

    def run(
        self,
        model: Seq2Seq,
        device: torch.device,
        interrupted: Callable[[], bool] = lambda: False,
        with_chrf: bool = False,
        ranks: Ranks = ALONE,
    ) -> ValidationResult | None:
        """Measure `model`; chrF only if `with_chrf`, because it takes time.

        The ranks share the batches, and each returns the same result. Returns None if
        `interrupted()` is True between two batches of any rank.

        Leaves the model in training mode, and the random generators as they were.
        """
        generators = pack_rng(device)
        model.eval()
        try:
            loss = mean_loss(model, self.corpus, device, interrupted, ranks)
            chosen_search = {"beam": self.config.beam, "n_best": 1, "mbr": None}
            search = self.search.model_copy(update=chosen_search)
            translator = Translator(model, self.tokenizers, device, search)
            chosen = evenly(self.examples, self.config.max_examples)
            interruptible = _SharedTranslator(translator, interrupted, ranks)
            bleu, hyp_texts = bleu_of(interruptible, chosen, self.scoring)
            chrf = self._chrf(hyp_texts, chosen) if with_chrf else None
        except _InterruptedError:
            return None
        finally:
            model.train()
            unpack_rng(*generators, device)
        samples = [
            Sample(example.src_text, example.ref_texts[0], hyp_text)
            for example, hyp_text in evenly(
                list(zip(chosen, hyp_texts, strict=True)), self.config.samples
            )
        ]
        return ValidationResult(loss, bleu, tuple(samples), chrf)

    def _chrf(self, hyp_texts: Sequence[str], examples: Sequence[EvalExample]) -> float:
        refs = self.scoring.comparable(hyp_texts, examples).refs
        return score("chrf", hyp_texts, refs, n_bootstrap=0).score

    @property
    def scoring(self) -> Scoring:
        """The language and tokenisation of BLEU."""
        return Scoring(tgt_lang=self.tokenizers.tgt.lang, tokenize=self.config.bleu_tokenize)


class _InterruptedError(Exception):
    """The validation was told to stop."""


@dataclass(frozen=True)
class _SharedTranslator:
    """A translator whose batches the ranks share; it can be interrupted between two of them."""

    translator: Translator
    interrupted: Callable[[], bool]
    ranks: Ranks

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """See Translator.translate. Raises _InterruptedError if `interrupted()`."""
        size = self.translator.search.batch_size
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        parts = [order[start : start + size] for start in range(0, len(order), size)]

        def translate(part: Sequence[int]) -> list[Translation]:
            return self.translator.translate([texts[i] for i in part])

        translated = self.ranks.map(parts, translate, self.interrupted, list)
        if translated is None:
            raise _InterruptedError
        found = dict(zip(order, chain.from_iterable(translated), strict=True))
        return [found[i] for i in range(len(texts))]


def evenly(items: Sequence[_Item], count: int | None) -> list[_Item]:
    """`count` items at equal distances, in order; all items if `count` is None or larger.

    Corpora are often sorted by length, so the first items would be the easy ones.
    """
    if count is None or count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def _fetch(numbers: list[Tensor]) -> list[float]:
    fetched: list[float] = torch.stack(numbers).tolist()
    return fetched


@torch.inference_mode()
def mean_loss(
    model: Seq2Seq,
    corpus: EncodedCorpus,
    device: torch.device,
    interrupted: Callable[[], bool] = lambda: False,
    ranks: Ranks = ALONE,
) -> float:
    """Cross-entropy in nats per target token over the corpus, without label smoothing.

    The ranks share its batches. Raises _InterruptedError if `interrupted()` is True between two
    batches of any rank.
    """

    def nll_sum(rows: Sequence[int]) -> Tensor:
        batch = corpus.batch(rows).to(device)
        keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
        output = model(batch.src_ids, keep, batch.tgt_in)
        return cross_entropy(output, batch.tgt_out).nll_sum

    rows = sorted(range(len(corpus)), key=lambda row: len(corpus.src_ids[row]))
    batches = [rows[start : start + _BATCH_SIZE] for start in range(0, len(rows), _BATCH_SIZE)]
    # Fetched at the end: each would wait for a GPU.
    nll_sums = ranks.map(batches, nll_sum, interrupted, _fetch)
    if nll_sums is None:
        raise _InterruptedError
    n_tokens = sum(len(ids) + 1 for ids in corpus.tgt_ids)
    return sum(nll_sums) / max(1, n_tokens)
