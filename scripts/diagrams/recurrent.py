"""Diagrams of attention itself, of the recurrent encoder-decoder, and of the captioner."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from diagrams.canvas import INK, Box, Canvas, Point
from nmt.explain.colours import BLUE, GREEN, GREY, ORANGE, PALE, PURPLE

WEIGHTS = ((0.75, 0.15, 0.07, 0.03), (0.1, 0.2, 0.65, 0.05), (0.05, 0.7, 0.2, 0.05))
"""The weights of three steps over four positions, as drawn: adjective and noun change places."""
_CELL = 0.72


def attention() -> Figure:
    """From one query and S pairs of key and value to the weighted mean of the values."""
    canvas = Canvas(9.6, 4.5)
    softmax = canvas.box(5.0, 2.45, "softmax", PURPLE, 0.9, 2.9)
    total = canvas.circle(8.0, 2.45, "Σ")
    output = canvas.box(9.0, 2.45, "output", GREY, 0.8)
    canvas.arrow(total.right, output.left)
    query = canvas.box(1.1, 0.4, "query $q$", BLUE, 1.1)
    canvas.arrow(query.right, (2.55, 0.4), (2.55, 3.22), colour=BLUE, head=False)
    for row, (y, name) in enumerate(((3.6, "1"), (2.65, "2"), (1.3, "S"))):
        key = canvas.box(1.1, y, f"key $k_{name}$", ORANGE, 1.1)
        score = canvas.box(3.4, y, f"$a(q, k_{name})$", GREY, 1.1)
        value = canvas.box(6.5, y + 0.42, f"value $v_{name}$", GREEN, 1.0, 0.3)
        product = canvas.circle(6.5, y, "×")
        canvas.arrow(key.right, score.left, colour=ORANGE)
        canvas.arrow((2.55, y - 0.38), (3.4, y - 0.38), score.bottom, colour=BLUE)
        if row:
            canvas.dot(2.55, y - 0.38, BLUE)
        canvas.arrow(score.right, (softmax.left[0], y))
        canvas.arrow((softmax.right[0], y), product.left, colour=PURPLE)
        canvas.text(5.92, y + 0.12, rf"$\alpha_{name}$", color=PURPLE)
        canvas.arrow(value.bottom, product.top, colour=GREEN)
        canvas.arrow(product.right, (7.3, y), (7.3, 2.45), total.left)
    for x in (1.1, 3.4, 6.5):
        canvas.text(x, 2.02, "...", fontsize=13)
    canvas.note(2.0, 0.17, "what is sought: a volitional cue")
    canvas.note(2.75, 0.72, "the score function compares\nquery and key")
    canvas.note(4.55, 0.72, "weights $\\geq 0$\nthat sum to 1")
    canvas.note(7.62, 1.95, r"$\sum_i\ \alpha_i\, v_i$")
    canvas.note(0.55, 4.25, "what is found: nonvolitional cues")
    return canvas.figure


def fixed_context() -> Figure:
    """The recurrent encoder-decoder: one context, the same at every step."""
    canvas = Canvas(9.6, 4.0)
    cells = _encoder(canvas, both_ways=False)
    context = canvas.box(5.0, 1.2, "context $c$", GREEN, 0.95)
    canvas.arrow(cells[-1].right, context.left)
    first = canvas.box(5.0, 2.4, "$s_0$", GREY, 0.6)
    canvas.arrow(context.top, first.bottom)
    states = _decoder(canvas, first, 2.4, ("y_1", "y_2", "y_3"))
    canvas.branches(context.right, states, GREEN)
    canvas.note(0.35, 3.75, "The encoder's last state is all that the decoder knows of the source.")
    canvas.note(0.35, 3.5, "$s_0$ is the context itself, or tanh$(W c + b)$.")
    return canvas.figure


def attention_decoder() -> Figure:
    """The recurrent encoder-decoder with attention: a context for each step."""
    canvas = Canvas(9.6, 5.9)
    cells = _encoder(canvas, both_ways=True, places=(1.9, 4.1, 6.3, 8.5))
    first = canvas.box(0.8, 4.1, "$s_0$", GREY, 0.6)
    canvas.arrow((0.8, 3.5), first.bottom)
    canvas.note(0.35, 3.25, "from the encoder's\nlast states")
    states = _decoder(canvas, first, 4.1, ("y_1", "y_2", "y_3"), places=(3.1, 5.5, 7.9))
    attended = _attend(canvas, first, states)
    for step in (0, 2, 1):
        for i, (cell, weight) in enumerate(zip(cells, WEIGHTS[step], strict=True), start=1):
            end = attended[step].below((cell.x - 5.2) / 12)
            colour = PURPLE if step == 1 else PALE
            canvas.arrow(cell.top, end, colour=colour, head=False, width=0.6 + 6 * weight)
            if step == 1:
                x, y = (0.7 * low + 0.3 * high for low, high in zip(cell.top, end, strict=True))
                paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
                canvas.text(x, y, rf"$\alpha_{{2{i}}}$", color=PURPLE, bbox=paper)
    canvas.note(0.35, 5.65, "At each step the previous state is the query.")
    canvas.note(0.35, 5.42, "Keys and values are the annotations $h_1 ... h_S$.")
    canvas.note(5.3, 5.58, r"$c_t = \sum_i\ \alpha_{ti}\, h_i$; a line's width is its weight.")
    return canvas.figure


def captioner() -> Figure:
    """A convolutional network's grid of annotations, and the same decoder over it."""
    canvas = Canvas(9.6, 5.2)
    canvas.box(0.85, 1.3, "", GREY, 1.2, 1.2)
    canvas.cell(0.95, 1.35, 0.3, GREEN, 0.9)
    canvas.circle(0.6, 1.0, "", ORANGE)
    canvas.text(0.85, 0.45, "picture")
    network = canvas.box(2.15, 1.3, "CNN", GREY, 0.7, 0.9)
    canvas.arrow((1.45, 1.3), network.left)
    left, bottom, side, n = 2.95, 0.7, 0.3, 4
    for row in range(n):
        for column in range(n):
            weight = {(2, 2): 0.75, (2, 3): 0.3, (3, 2): 0.3, (1, 2): 0.15}.get((row, column), 0.04)
            canvas.cell(left + column * side, bottom + row * side, side, PURPLE, weight)
    right = left + n * side
    canvas.arrow(network.right, (left, 1.3))
    canvas.text(left + n * side / 2, 0.45, "grid of annotations $h_{ij}$")
    first = canvas.box(5.0, 3.7, "$s_0$", GREY, 0.6)
    canvas.arrow((right, 1.0), (5.0, 1.0), first.bottom)
    canvas.text(4.72, 1.75, "mean", fontsize=8.5)
    states = _decoder(canvas, first, 3.7, ("a", "small", "green"), "<en>")
    attended = _attend(canvas, first, states)
    canvas.branches((right, 1.6), attended, GREEN)
    canvas.note(5.3, 1.4, "keys and values: all cells of the grid")
    canvas.note(0.35, 4.95, "Only the encoder differs.")
    canvas.note(0.35, 4.72, 'Dark cells: the weights of the step of "green".')
    return canvas.figure


def _encoder(
    canvas: Canvas, both_ways: bool, places: Sequence[float] = (0.75, 1.85, 2.95, 4.05)
) -> list[Box]:
    """Four states in a row over their inputs; `both_ways` adds the backward direction."""
    cells: list[Box] = []
    for i, x in enumerate(places, start=1):
        cell = canvas.box(x, 1.2, f"$h_{i}$", GREEN if both_ways else GREY, _CELL)
        canvas.text(x, 0.35, f"$x_{i}$")
        canvas.arrow((x, 0.5), cell.bottom)
        if cells:
            shift = 0.07 if both_ways else 0.0
            before: Point = cells[-1].right[0], cells[-1].y + shift
            canvas.arrow(before, (cell.left[0], cell.y + shift))
            if both_ways:
                canvas.arrow((cell.left[0], cell.y - shift), (before[0], cell.y - shift))
        cells.append(cell)
    return cells


def _decoder(
    canvas: Canvas,
    first: Box,
    y: float,
    words: Sequence[str],
    start: str = "y_0",
    places: Sequence[float] = (6.4, 7.7, 9.0),
) -> list[Box]:
    """Three states after `first`; each reads the word before it and yields the next."""
    states = [first]
    inputs = [start, *words[:-1]]
    for i, (x, word, read) in enumerate(zip(places, words, inputs, strict=True), start=1):
        state = canvas.box(x, y, f"$s_{i}$", GREY, _CELL)
        canvas.arrow(states[-1].right, state.left)
        for shift, text, is_read in ((-0.24, read, True), (0.24, word, False)):
            ends = [(x + shift, y + 0.62), (x + shift, state.top[1])]
            canvas.arrow(*(ends if is_read else reversed(ends)), colour=GREY if is_read else INK)
            shown = f"${text}$" if "_" in text else text
            height = y + (0.74 if is_read else 0.92)
            canvas.text(x + shift, height, shown, color=GREY if is_read else "0.1")
        states.append(state)
    return states[1:]


def _attend(canvas: Canvas, first: Box, states: Sequence[Box]) -> list[Box]:
    """An attention under each state, whose query is the state before it."""
    boxes = []
    for t, (before, state) in enumerate(zip([first, *states], states, strict=False), start=1):
        y = state.y - 1.1
        box = canvas.box(state.x, y, "attention", PURPLE, 0.86)
        middle = (before.right[0] + state.left[0]) / 2 - 0.08
        canvas.dot(middle, state.y, BLUE)
        canvas.arrow((middle, state.y), (middle, y), box.left, colour=BLUE)
        canvas.text(middle - 0.12, y + 0.5, "q", color=BLUE, fontsize=8.5)
        canvas.arrow(box.top, state.bottom)
        canvas.text(state.x + 0.16, y + 0.55, f"$c_{t}$")
        boxes.append(box)
    return boxes
