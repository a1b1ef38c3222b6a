"""The colours of pictures, the one table of them. Pages have theirs in web/attention.css.

A map in a picture stands on white paper, so that two hues can order the weights. A page follows
the reader's light or dark theme: there the opacity of one ink is the weight.
"""

BLUE, ORANGE, GREEN, PURPLE, RED = "#2a6fbb", "#d9772b", "#2f8f5b", "#7a4fa3", "#c0392b"
TEAL, PINK = "#58b6c4", "#e39ac0"
GREY, PALE = "0.45", "0.8"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, RED, TEAL, PINK)
"""Colours of curves, in order; they differ in lightness too."""

COLOUR_MAP = "magma_r"
"""From 0 up; perceptually uniform: pale is no attention, dark is much."""
SIGNED_MAP = "RdBu_r"
"""Around 0: blue is negative, red positive."""
