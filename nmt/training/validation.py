"""Validation: the loss on the pairs, BLEU by beam search, a few sample translations."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from nmt.config import ValidConfig
from nmt.data.batching import EncodedCorpus
from nmt.decoding.search import SearchConfig
from nmt.evaluation.evaluate import Scoring, bleu_of
from nmt.evaluation.metrics import score
from nmt.inference.translator import Translator
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.text.tokenizer import Tokenizers
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
    ) -> ValidationResult | None:
        """Measure `model`; chrF only if `with_chrf`, because it takes time.

        Returns None if `interrupted()` is True between two batches.

        Leaves the model in training mode, and the random generators as they were.
        """
        generators = pack_rng(device)
        model.eval()
        try:
            loss = mean_loss(model, self.corpus, device, interrupted)
            chosen_search = {"beam": self.config.beam, "n_best": 1, "mbr": None}
            search = self.search.model_copy(update=chosen_search)
            translator = Translator(model, self.tokenizers, device, search)
            chosen = evenly(self.examples, self.config.max_examples)
            interruptible = _InterruptibleTranslator(translator, interrupted)
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
class _InterruptibleTranslator:
    """A translator that can be interrupted between two batches."""

    translator: Translator
    interrupted: Callable[[], bool]

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """See Translator.translate. Raises _InterruptedError if `interrupted()`."""
        size = self.translator.search.batch_size
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        found: dict[int, Translation] = {}
        for start in range(0, len(order), size):
            _check_interrupted(self.interrupted)
            part = order[start : start + size]
            found.update(
                zip(part, self.translator.translate([texts[i] for i in part]), strict=True)
            )
        return [found[i] for i in range(len(texts))]


def _check_interrupted(interrupted: Callable[[], bool]) -> None:
    if interrupted():
        raise _InterruptedError


def evenly(items: Sequence[_Item], count: int | None) -> list[_Item]:
    """`count` items at equal distances, in order; all items if `count` is None or larger.

    Corpora are often sorted by length, so the first items would be the easy ones.
    """
    if count is None or count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


@torch.inference_mode()
def mean_loss(
    model: Seq2Seq,
    corpus: EncodedCorpus,
    device: torch.device,
    interrupted: Callable[[], bool] = lambda: False,
) -> float:
    """Cross-entropy in nats per target token over the corpus, without label smoothing.

    Raises _InterruptedError if `interrupted()` is True between two batches.
    """
    nll_sums, n_tokens = [], 0
    rows = sorted(range(len(corpus)), key=lambda row: len(corpus.src_ids[row]))
    for start in range(0, len(rows), _BATCH_SIZE):
        _check_interrupted(interrupted)
        batch = corpus.batch(rows[start : start + _BATCH_SIZE]).to(device)
        keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
        output = model(batch.src_ids, keep, batch.tgt_in)
        loss = cross_entropy(output, batch.tgt_out)
        nll_sums.append(loss.nll_sum)  # fetched at the end: each would wait for a GPU
        n_tokens += loss.n_tokens
    return sum(torch.stack(nll_sums).tolist()) / max(1, n_tokens) if nll_sums else 0.0
