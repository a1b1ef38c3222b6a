"""The diagrams: all are drawn, named by the classes, and stand on a page."""

import sys
from pathlib import Path

import pytest
from diagrams.transformer import parts
from draw_diagrams import DIAGRAMS, main

from nmt.models.transformer.layers import DecoderLayer
from nmt.models.transformer.transformer import TransformerConfig

DOCS = Path(__file__).parents[2] / "docs"


def test_all_are_drawn_and_displayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["draw_diagrams.py", "--out", str(tmp_path)])
    assert main() == 0
    names = {f"{name}.png" for name in DIAGRAMS}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert {path.name for path in (DOCS / "diagrams").iterdir()} == names
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    for name in names:
        assert f"diagrams/{name})" in pages


def test_the_parts_of_a_layer_are_named_in_their_order() -> None:
    named = [(name, type(part).__name__) for name, part in parts(DecoderLayer(TransformerConfig()))]
    attentions = [("self_attention", "SelfAttention"), ("source", "MultiHead")]
    assert named == [*attentions, ("feed_forward", "FeedForward")]
