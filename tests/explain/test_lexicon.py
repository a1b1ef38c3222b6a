"""A dictionary from attention: counted links, as `--replace-unk` reads them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from training.toy import toy_config

from nmt.explain import lexicon as lexicon_file
from nmt.explain.lexicon import lexicon
from nmt.models.catalog import build_model
from nmt.text.tokenizer import WordConfig, train_tokenizers
from nmt.translation.translator import Translator
from nmt.translation.unknown_words import read_lexicon
from nmt.types import SentencePair

PAIRS = [
    SentencePair("the cat sleeps.", "le chat dort."),
    SentencePair("the dog sleeps!", "le chien dort !"),
    SentencePair("a cat", "un chat"),
    SentencePair("the end", "la fin"),
]
TOKENIZERS = train_tokenizers(WordConfig(min_freq=1), PAIRS, "en", "fr", seed=1)


@pytest.fixture
def diagonal(monkeypatch: pytest.MonkeyPatch) -> Translator:
    """A translator that looks along the diagonal; its model does not matter."""

    def weights(translator, sources, targets, reading) -> list[np.ndarray]:
        sizes = [(len(t.ids), len(s.ids) + 1) for s, t in zip(sources, targets, strict=True)]
        return [np.eye(*size, dtype=np.float32) for size in sizes]

    monkeypatch.setattr(lexicon_file, "piece_weights", weights)
    model = build_model(toy_config(Path()).model, 20, 20)
    return Translator(model, TOKENIZERS, torch.device("cpu"))


def test_links_are_counted_and_shared_out(diagonal: Translator, tmp_path: Path) -> None:
    entries = lexicon(diagonal, PAIRS, min_count=1)
    counts = " ".join(f"{entry.source}:{entry.target}:{entry.count}" for entry in entries)
    assert counts == "a:un:1 cat:chat:2 dog:chien:1 end:fin:1 sleeps:dort:2 the:le:2 the:la:1"
    assert sum(e.probability for e in entries if e.source == "the") == pytest.approx(1)
    frequent = lexicon(diagonal, PAIRS)
    assert [e.source for e in frequent] == ["cat", "sleeps", "the"]
    assert frequent[-1].probability == pytest.approx(2 / 3)  # of all links, rare ones too
    [only] = [e for e in lexicon(diagonal, PAIRS, min_count=1, best=1) if e.source == "the"]
    assert only.target == "le"
    path = tmp_path / "lexicon.tsv"
    path.write_text("".join(f"{entry.line()}\n" for entry in entries))
    assert read_lexicon(path, TOKENIZERS)["the"] == "le"
