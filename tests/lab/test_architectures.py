"""The diagrams: what is drawn of connections is so, and every name in them is one of the code."""

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

from nmt.errors import ConfigError
from nmt.lab import block_diagrams
from nmt.lab.architectures import ArchitecturesOptions, run
from nmt.lab.perform import perform
from nmt.models.transformer import layers, transformer
from nmt.models.transformer.transformer import TransformerConfig

DIAGRAMS = {"multi-head": block_diagrams.multi_head, "transformer": block_diagrams.transformer}


@pytest.mark.parametrize(("n", "kernel"), [(3, 3), (7, 5), (16, 3)])
def test_attention_needs_one_hop_and_the_others_more(n: int, kernel: int) -> None:
    result = run(ArchitecturesOptions(positions=n, kernel=kernel))
    convolution, dilated, recurrence, attention = result.architectures.values()
    assert convolution.paths.longest == -(-(n - 1) // (kernel // 2))
    assert kernel ** (dilated.paths.longest - 1) < n <= kernel**dilated.paths.longest
    assert (recurrence.paths.longest, attention.paths.longest) == (n, 1)
    assert [each.steps for each in result.architectures.values()] == [1, 1, n, 1]
    assert (recurrence.n_direct, attention.n_direct) == (2 * n - 1, n * n)


@pytest.mark.parametrize("name", ["connections", *DIAGRAMS])
def test_each_diagram_is_a_picture_of_its_own(name: str, tmp_path: Path) -> None:
    path = perform("architectures", [f"diagram={name}"], tmp_path).paths[1]
    height, width, _ = imread(path).shape
    assert 800 <= width <= 1600
    assert 400 <= height <= 1600
    assert path.stat().st_size < 200_000


def test_class_names_and_config_keys_are_those_of_the_code() -> None:
    text = "\n".join(each.get_text() for each in texts(block_diagrams.transformer()))
    for owner, attribute in re.findall(r"(\w+Layer)\.(\w+)", text):
        assert hasattr(getattr(layers, owner)(TransformerConfig()), attribute)
    kinds = re.findall(r"\b(Encoder\w+|Decoder\w+|MultiHead|FeedForward|Pieces)\b", text)
    assert {"EncoderLayer", "DecoderLayer", "MultiHead", "FeedForward", "Pieces"} == set(kinds)
    assert all(hasattr(layers, kind) or hasattr(transformer, kind) for kind in kinds)
    keys = re.findall(r"model\.(\w+)", text)
    assert set(keys) == {"layers", "decoder_layers"} <= set(TransformerConfig.model_fields)
    text = "\n".join(each.get_text() for each in texts(block_diagrams.multi_head()))
    assert set(re.findall(r"model\.(\w+)", text)) == {"heads", "size"}
    for role in "qkvo":
        assert f"W_{role}" in text
        assert hasattr(layers.MultiHead(4, 2), f"W_{role}")


def test_the_three_attentions_are_numbered_where_they_stand() -> None:
    drawn = [each.get_text() for each in texts(block_diagrams.transformer())]
    assert [drawn.count(number) for number in "123"] == [2, 2, 2]  # the place, and its meaning
    assert sum(text.startswith(("own: ", "source: ")) for text in drawn) == 3
    assert sum(text.endswith(": FeedForward") for text in drawn) == 2


@pytest.mark.parametrize("name", DIAGRAMS)
def test_no_text_lies_on_another_and_all_are_inside(name: str) -> None:
    figure = DIAGRAMS[name]()
    renderer = figure.canvas.get_renderer()
    boxes = [each.get_window_extent(renderer) for each in texts(figure)]
    whole = figure.bbox
    for i, box in enumerate(boxes):
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


@pytest.mark.parametrize("name", DIAGRAMS)
def test_every_arrow_ends_at_an_edge(name: str) -> None:
    """The tip lies on the outline of a box, of a sum, or below a text that names the result."""
    axes = DIAGRAMS[name]().axes[0]
    outlines = [
        p.get_path().get_extents(p.get_patch_transform())
        for p in axes.patches
        if not isinstance(p, FancyArrowPatch)
    ]
    labels = [text.get_position() for text in axes.texts]
    arrows = [p for p in axes.patches if isinstance(p, FancyArrowPatch)]
    for arrow in arrows:
        if arrow.get_arrowstyle().arrow != "-|>":
            continue
        x, y = arrow._path_original.vertices[-1]
        meets = any(
            box.x0 - 0.01 <= x <= box.x1 + 0.01
            and box.y0 - 0.01 <= y <= box.y1 + 0.01
            and min(abs(x - box.x0), abs(x - box.x1), abs(y - box.y0), abs(y - box.y1)) < 0.01
            for box in outlines
        )
        assert meets or any(abs(x - u) < 0.01 and 0 < v - y < 0.15 for u, v in labels)


def texts(figure: Figure) -> list[Text]:
    return [text for text in figure.axes[0].texts if text.get_text()]


def test_an_even_kernel_and_an_unknown_diagram_are_a_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got 4, allowed: an odd number"):
        perform("architectures", ["kernel=4"], tmp_path)
    with pytest.raises(ConfigError, match="diagram"):
        perform("architectures", ["diagram=rnn"], tmp_path)
