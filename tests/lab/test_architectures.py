"""Paths through four layers, and diagrams whose names are those of the code."""

import re
from pathlib import Path

import pytest

from nmt.lab import block_diagrams
from nmt.lab.architectures import ArchitecturesOptions, run
from nmt.lab.perform import perform
from nmt.models.transformer import layers, transformer
from nmt.models.transformer.transformer import TransformerConfig


@pytest.mark.parametrize(("n", "kernel"), [(3, 3), (7, 5), (16, 3)])
def test_attention_needs_one_hop_and_the_others_more(n: int, kernel: int) -> None:
    architectures = run(ArchitecturesOptions(positions=n, kernel=kernel)).architectures
    convolution, dilated, recurrence, attention = architectures.values()
    assert convolution.paths.longest == -(-(n - 1) // (kernel // 2))
    assert kernel ** (dilated.paths.longest - 1) < n <= kernel**dilated.paths.longest
    assert (recurrence.paths.longest, attention.paths.longest) == (n, 1)
    assert [architecture.steps for architecture in architectures.values()] == [1, 1, n, 1]
    assert (recurrence.n_direct, attention.n_direct) == (2 * n - 1, n * n)


def test_each_diagram_is_a_picture_and_names_what_the_code_has(tmp_path: Path) -> None:
    pictures = set()
    for name in ("connections", "multi-head", "transformer"):
        path = perform("architectures", [f"diagram={name}"], tmp_path / name).paths[1]
        pictures.add(path.read_bytes())
    assert len(pictures) == 3
    text = "\n".join(t.get_text() for t in block_diagrams.transformer().axes[0].texts)
    for owner, attribute in re.findall(r"(\w+Layer)\.(\w+)", text):
        assert hasattr(getattr(layers, owner)(TransformerConfig()), attribute)
    kinds = re.findall(r"\b(Encoder\w+|Decoder\w+|MultiHead|FeedForward|Pieces)\b", text)
    assert len(set(kinds)) == 5
    assert all(hasattr(layers, kind) or hasattr(transformer, kind) for kind in kinds)
    assert set(re.findall(r"model\.(\w+)", text)) <= set(TransformerConfig.model_fields)
    text = "\n".join(t.get_text() for t in block_diagrams.multi_head().axes[0].texts)
    for matrix in ("W_q", "W_k", "W_v", "W_o"):
        assert matrix in text
        assert hasattr(layers.MultiHead(4, 2), matrix)
