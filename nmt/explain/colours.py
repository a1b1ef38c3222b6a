"""The colours of all pictures; web/attention.css has the colours of web pages.

Pictures have a white background, so a colour map of several hues can represent the weights. Pages
follow the reader's light or dark theme, so they represent a weight by the opacity of one colour.
"""

BLUE, ORANGE, GREEN, PURPLE, RED = "#2a6fbb", "#d9772b", "#2f8f5b", "#7a4fa3", "#c0392b"
TEAL, PINK = "#58b6c4", "#e39ac0"
GREY, PALE = "0.45", "0.8"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, RED, TEAL, PINK)
"""Colours of curves, in order. They also differ in lightness."""

COLOUR_MAP = "magma_r"
"""The perceptually uniform colour map of values >= 0: pale is little attention, dark is much."""
SIGNED_MAP = "RdBu_r"
"""The colour map of values around 0: blue is negative, red is positive."""
