"""From a translator and examples to translations and their scores."""

from collections.abc import Sequence
from typing import Protocol

from nmt.evaluation.metrics import corpus_bleu
from nmt.schema import EvalExample, Translation


class Translates(Protocol):
    """What can be evaluated: the Translator, or anything else that keeps order and number."""

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """One translation for each text, in the same order."""


def bleu_of(translator: Translates, examples: Sequence[EvalExample]) -> float:
    """BLEU (0..100) of real decoding with the translator's own search; for validation."""
    translations = translator.translate([example.src_text for example in examples])
    return corpus_bleu(
        [translation.text for translation in translations],
        [example.ref_texts for example in examples],
    )
