"""Translators of small random models, in either direction of a few sentences."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from devices import HERE

from nmt.models.catalog import ModelConfig, build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import SentencePieceConfig, WordConfig, train_tokenizers
from nmt.translation.translator import Translator
from nmt.types import SentencePair

PAIRS = [
    SentencePair("He is tired.", "Il est fatigué."),
    SentencePair("She isn't here!", "Elle n’est pas ici !"),
    SentencePair("Where are the cats?", "Où sont les chats ?"),
    SentencePair("I see two dogs: one is black.", "Je vois deux chiens : l’un est noir."),
    SentencePair("The garden is beautiful today.", "Le jardin est beau aujourd’hui."),
]
LONGER = "The cats see the garden, and he is here."
TEXTS = [*(pair.src_text for pair in PAIRS), "", LONGER, "Is"]
PIECES = SentencePieceConfig(vocab_size=40)
SMALL_RNN = RNNConfig(embedding=11, hidden=13)


def translator_of(
    config: SentencePieceConfig | WordConfig = PIECES,
    search: SearchConfig | None = None,
    seed: int = 5,
    backward: bool = False,
    more: Sequence[SentencePair] = (),
    model: ModelConfig = SMALL_RNN,
) -> Translator:
    """A translator whose weights are large enough that its translations differ."""
    pairs = [*PAIRS, *more]
    if backward:
        pairs = [SentencePair(pair.tgt_text, pair.src_text) for pair in pairs]
    langs = ("fr", "en") if backward else ("en", "fr")
    tokenizers = train_tokenizers(config, pairs, *langs, seed=1)
    torch.manual_seed(seed)
    sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
    built = build_model(model, *sizes)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.mul_(2)
    return Translator(built.to(HERE), tokenizers, HERE, search or SearchConfig(max_length=17))


def with_search(translator: Translator, search: SearchConfig) -> Translator:
    return Translator(translator.model, translator.tokenizers, translator.device, search)


def turned(translator: Translator) -> Translator:
    """Return a translator that takes the same model for a right-to-left one."""
    tokenizers = replace(translator.tokenizers, reverse_target=True)
    return Translator(translator.model, tokenizers, translator.device, translator.search)
