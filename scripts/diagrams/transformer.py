"""Block diagrams of multi-head attention and of the Transformer, with the names of the classes.

The parts of a layer and their order are read from the layer itself.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import nn

from diagrams.canvas import INK, Box, Canvas, Point
from nmt.explain.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, RED
from nmt.models.base import Memory
from nmt.models.transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from nmt.models.transformer.multi_head import MultiHead
from nmt.models.transformer.transformer import InputEmbedding, TransformerConfig
from nmt.models.vocabulary import VocabLinear
from nmt.ops.masks import causal_keep

ROLES = {"q": BLUE, "k": ORANGE, "v": GREEN}
ATTENTIONS = (BLUE, PURPLE, RED)
"""Colours of the three attentions."""


def multi_head() -> Figure:
    """Multi-head attention from queries, keys and values to its output, bottom-up."""
    canvas = Canvas(9.6, 5.7)
    canvas.text(0.3, 5.4, f"{MultiHead.__name__}, model.heads = N", ha="left", fontsize=11)
    joined = canvas.box(3.9, 3.85, "joined: head 1, head 2 ... head N", GREY, 6.0)
    output = canvas.box(3.9, 4.55, "$W_o$", GREY, 1.0)
    canvas.arrow(joined.top, output.bottom)
    canvas.arrow(output.top, (3.9, 5.15))
    canvas.text(3.9, 5.27, "output")
    projections: dict[str, list[Box]] = {role: [] for role in ROLES}
    for middle, head in ((2.1, "1"), (5.7, "N")):
        attention = canvas.box(middle, 3.05, "softmax(scale · q kᵀ) v", PURPLE, 2.4)
        canvas.text(middle - 0.1, 3.42, f"head {head}", ha="right", fontsize=8.5, color=PURPLE)
        canvas.arrow(attention.top, (middle, joined.bottom[1]))
        for role, shift in zip(ROLES, (-0.9, 0.0, 0.9), strict=True):
            box = canvas.box(middle + shift, 2.05, f"$W_{role}^{head}$", ROLES[role], 0.62)
            canvas.arrow(box.top, attention.below(shift), colour=ROLES[role])
            canvas.text(box.x + 0.1, 2.5, role, color=ROLES[role], fontsize=8.5)
            projections[role].append(box)
    canvas.text(3.9, 3.05, "...", fontsize=14)
    canvas.text(3.9, 2.05, "...", fontsize=14)
    names = ("query", "key", "value")
    for (role, boxes), x, level, name in zip(
        projections.items(), (2.7, 3.9, 5.1), (1.45, 1.25, 1.05), names, strict=True
    ):
        source = canvas.box(x, 0.5, name, ROLES[role], 0.95)
        canvas.arrow(source.top, (x, level), colour=ROLES[role], head=False)
        canvas.dot(x, level, ROLES[role])
        for box in boxes:
            canvas.arrow((x, level), (box.x, level), box.bottom, colour=ROLES[role])
    for y, note in (
        (0.5, "query (B, Q, ·), key (B, S, ·) and\nvalue (B, S, ·), each of any size"),
        (2.05, "linear layers to P = D / N\nnumbers; model.size = D"),
        (3.05, "weights (B, N, Q, S), 0 where\nkeep is False; scale = 1 / √P"),
        (3.85, "(B, Q, N · P), and N · P = D"),
        (4.55, "a linear layer from D to D;\noutput (B, Q, D)"),
    ):
        canvas.note(7.2, y, note)
    return canvas.figure


def transformer() -> Figure:
    """The Transformer with its three attentions, bottom-up; layers normalise before each part."""
    canvas = Canvas(9.2, 8.3)
    config = TransformerConfig()
    left = _Column(canvas, 2.75, -1, "source ids (B, S)")
    left.layer(EncoderLayer(config), "layers", (1,), None)
    left.box("LayerNorm", GREY, 1.2, 0.48, 0.28)
    memory = left.box(f"{Memory.__name__} (B, S, D)", GREEN).right
    right = _Column(canvas, 6.85, 1, "target ids so far (B, T)")
    right.layer(DecoderLayer(config), "decoder_layers", (2, 3), memory)
    right.box("LayerNorm", GREY, 1.2, 0.48, 0.28)
    right.box(VocabLinear.__name__, GREY)
    end = right.x, right.end[1] + 0.28
    canvas.arrow(right.end, end)
    canvas.text(right.x, end[1] + 0.12, "scores of all pieces (B, T, V)")
    _legend(canvas, EncoderLayer(config), DecoderLayer(config))
    return canvas.figure


class _Column:
    """The encoder or the decoder, drawn upwards from its ids and their embedding.

    `side` (-1, 1) is where its residuals run; `end` is where the next arrow starts.
    """

    def __init__(self, canvas: Canvas, x: float, side: int, ids: str) -> None:
        self.canvas, self.x, self.side = canvas, x, side
        self.end: Point = (x, 0.4)
        canvas.text(x, 0.27, ids)
        self.box(f"{InputEmbedding.__name__}: √D E[id] + positions", GREY, 2.7, 0.53)

    def box(
        self, text: str, colour: str, width: float = 1.6, rise: float = 0.42, height: float = 0.36
    ) -> Box:
        """Add a box, its middle `rise` above the end, and the arrow to it."""
        box = self.canvas.box(self.x, self.end[1] + rise, text, colour, width, height)
        self.canvas.arrow(self.end, box.bottom)
        self.end = box.top
        return box

    def layer(
        self, layer: nn.Module, count: str, numbers: Sequence[int], memory: Point | None
    ) -> None:
        """The parts of a layer, each within its residual connection, and a frame around them."""
        bottom, attentions = self.end[1] + 0.14, iter(numbers)
        for name, part in parts(layer):
            number = None if isinstance(part, FeedForward) else next(attentions)
            self._part(name, part, number, memory if number == 3 else None)
        near, far = sorted((self.x - 1.4 * self.side, self.x + 1.75 * self.side))
        self.canvas.frame(near, bottom, far, self.end[1] + 0.1)
        text = f"{type(layer).__name__} × model.{count}"
        self.canvas.text(self.x + 1.6 * self.side, (bottom + self.end[1]) / 2, text, rotation=90)

    def _part(self, name: str, part: nn.Module, number: int | None, memory: Point | None) -> None:
        canvas, x, (_, low) = self.canvas, self.x, self.end
        branch = low + 0.25
        norm = self.box("LayerNorm", GREY, 1.2, 0.57, 0.28)
        canvas.dot(x, branch)
        colour = GREY if number is None else ATTENTIONS[number - 1]
        height = branch + (0.86 if number is None else 1.12)
        box = canvas.box(x, height, f"{name}: {type(part).__name__}", colour, 2.2)
        if number is None:
            canvas.arrow(norm.top, box.bottom)
        else:
            canvas.number(box.left[0], height, number, colour)
            self._queries_keys_values(norm, box, memory)
        total = canvas.plus(x, height + 0.42)
        canvas.arrow(box.top, total.bottom)
        aside = x + 1.28 * self.side
        into = total.left if self.side < 0 else total.right
        canvas.arrow((x, branch), (aside, branch), (aside, total.y), into)
        self.end = total.top

    def _queries_keys_values(self, norm: Box, box: Box, memory: Point | None) -> None:
        """The inputs of an attention: all from below, or keys and values of the memory."""
        low, high = norm.top[1] + 0.12, norm.top[1] + 0.24
        shifts = {"v": -0.6, "k": 0.0, "q": 0.6}
        if memory is None:
            self.canvas.dot(norm.x, low)
        else:
            self.canvas.dot(box.x + shifts["v"], high, GREEN)
        for role, shift in shifts.items():
            end = box.below(shift)
            start: tuple[Point, ...]
            if memory is None or role == "q":
                start = (norm.top, (norm.x, low), (end[0], low))
            else:
                middle = (memory[0] + box.left[0]) / 2 - 0.1
                start = (memory, (middle, memory[1]), (middle, high), (end[0], high))
            self.canvas.arrow(*start, end, colour=INK if start[0] == norm.top else GREEN)
            self.canvas.text(end[0] + 0.09, end[1] - 0.12, role, fontsize=8)


def parts(layer: nn.Module) -> list[tuple[str, nn.Module]]:
    """The attentions and the feed-forward layers of a layer by name, in their order."""
    return [(name, part) for name, part in layer.named_children() if not isinstance(part, Residual)]


def _legend(canvas: Canvas, encoder: nn.Module, decoder: nn.Module) -> None:
    about = (
        "every source piece over all source pieces",
        f"a target piece over itself and those before it:\n{causal_keep.__name__}",
        "a target piece over all source pieces; its keys\nand values are computed once a sentence",
    )
    attentions = [
        f"{type(layer).__name__}.{name}"
        for layer in (encoder, decoder)
        for name, part in parts(layer)
        if not isinstance(part, FeedForward)
    ]
    y = 8.0
    for number, (name, meaning) in enumerate(zip(attentions, about, strict=True), start=1):
        canvas.number(0.4, y, number, ATTENTIONS[number - 1])
        canvas.text(0.62, y, name, ha="left")
        canvas.note(0.62, y - 0.21 - 0.08 * meaning.count("\n"), meaning)
        y -= 0.55 + 0.16 * meaning.count("\n")
